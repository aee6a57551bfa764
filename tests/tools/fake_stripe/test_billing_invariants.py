"""Money and time add up after any sequence of purchases, changes of plan, cards and ends."""

from typing import Any
from urllib.parse import urlencode

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tools.fake_stripe import FakeStripe
from tools.fake_stripe.api import answer
from tools.fake_stripe.subscriptions import is_live
from tools.simulation.wire import Incoming

START, DAY = 1_800_000_000, 86_400
CARDS = ("pm_card_visa", "pm_card_chargeCustomerFail", "pm_card_authenticationRequired")
PRICES = ((0, "month"), (4900, "month"), (19900, "month"), (49000, "year"))
PRORATIONS = ("always_invoice", "create_prorations", "none")


class Billing(RuleBasedStateMachine):
    """One customer, who subscribes again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeStripe(clock=lambda: START)
        self.prices = [self.add_price(*each) for each in PRICES]
        self.customer = self.post("customers", {"name": "Acme"})["id"]

    def add_price(self, amount: int, interval: str) -> str:
        """Add a price and return its id."""
        form = {"currency": "eur", "unit_amount": amount, "recurring[interval]": interval, "product_data[name]": "Plan"}
        return str(self.post("prices", form)["id"])

    def post(self, path: str, form: dict[str, Any]) -> Any:
        """Call the API; a refusal is an answer too."""
        headers = {"authorization": f"Bearer {self.fake.keys.secret_key}"}
        return answer(self.fake, Incoming("POST", f"/v1/{path}", "", headers, urlencode(form).encode())).body

    def live(self) -> list[dict[str, Any]]:
        """Return the subscriptions that have not ended."""
        return [each for each in self.fake.store.all("subscription") if is_live(each)]

    @precondition(lambda self: self.live())
    @rule(card=st.sampled_from(CARDS))
    def change_card(self, card: str) -> None:
        made = self.post(f"payment_methods/{card}/attach", {"customer": self.customer})
        self.post(f"customers/{self.customer}", {"invoice_settings[default_payment_method]": made["id"]})

    @precondition(lambda self: not self.live())
    @rule(card=st.sampled_from(CARDS), price=st.integers(0, 3), trial=st.sampled_from([0, 14]))
    def subscribe(self, card: str, price: int, trial: int) -> None:
        self.change_card(card)
        more = {"trial_end": self.fake.moment + trial * DAY} if trial else {}
        self.post("subscriptions", {"customer": self.customer, "items[0][price]": self.prices[price], **more})

    @precondition(lambda self: self.live())
    @rule(price=st.integers(0, 3), proration=st.sampled_from(PRORATIONS))
    def change_plan(self, price: int, proration: str) -> None:
        [subscription] = self.live()
        items = {"items[0][id]": subscription["items"]["data"][0]["id"], "items[0][price]": self.prices[price]}
        self.post(f"subscriptions/{subscription['id']}", {**items, "proration_behavior": proration})

    @precondition(lambda self: self.live())
    @rule(ends=st.sampled_from(["true", "false"]))
    def schedule_end(self, ends: str) -> None:
        self.post(f"subscriptions/{self.live()[0]['id']}", {"cancel_at_period_end": ends})

    @precondition(lambda self: self.live())
    @rule()
    def pay(self) -> None:
        self.post(f"invoices/{self.live()[0]['latest_invoice']}/pay", {})

    @rule(hours=st.sampled_from([1, 13, 3 * 24, 16 * 24, 40 * 24]))
    def wait(self, hours: int) -> None:
        self.fake.advance(hours * 3600)

    @invariant()
    def every_invoice_adds_up(self) -> None:
        for invoice in self.fake.store.all("invoice"):
            assert invoice["total"] == sum(line["amount"] for line in invoice["lines"]["data"])
            assert invoice["amount_due"] == invoice["amount_paid"] + invoice["amount_remaining"]
            assert (invoice["status"] == "paid") <= (invoice["amount_remaining"] == 0)

    @invariant()
    def balance_is_what_was_neither_due_nor_credited(self) -> None:
        final = [each for each in self.fake.store.all("invoice") if each["status"] != "draft"]
        [customer] = self.fake.store.all("customer")
        assert sum(each["total"] for each in final) == sum(each["amount_due"] for each in final) + customer["balance"]

    @invariant()
    def current_period_contains_now(self) -> None:
        for subscription in self.live():
            [item] = subscription["items"]["data"]
            assert item["current_period_start"] <= self.fake.moment < item["current_period_end"]

    @invariant()
    def ended_subscription_is_not_invoiced(self) -> None:
        for subscription in self.fake.store.all("subscription"):
            assert is_live(subscription) != (subscription["ended_at"] is not None)
            invoice = self.fake.store.objects["invoice"][subscription["latest_invoice"]]
            if subscription["ended_at"]:
                assert invoice["created"] <= subscription["ended_at"]
                assert invoice["next_payment_attempt"] is None

    @invariant()
    def only_a_past_due_subscription_is_retried(self) -> None:
        for invoice in self.fake.store.all("invoice"):
            if invoice["next_payment_attempt"]:
                [subscription] = self.live()
                assert subscription["status"] in {"past_due", "active", "trialing"}


TestBilling = Billing.TestCase
TestBilling.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
