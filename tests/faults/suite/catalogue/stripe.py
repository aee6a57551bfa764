"""Stripe that hangs, is down, answers late, or whose webhooks get lost: only buying waits for it.

`acme` has a subscription while these faults are tried. Freezes, lifts and reads work as ever; afterwards the plan is
that of the subscription at Stripe, of which there is at most one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests

from rules.billing.subscriptions import ENDED
from services.billing.sync import SYNC_INTERVAL
from tests.faults.suite.catalogue.steps import is_settled
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault
from tools.fake_stripe.subscriptions import change_price, end_subscription

ANSWERED = 5.0
"""Seconds in which what does not need Stripe is answered: less than a call of Stripe may take."""
GIVEN_UP = 25.0
"""Seconds in which a request that needs Stripe is answered in any case."""
WITHIN = 90.0
"""Seconds from the end of a fault to the plan that Stripe gives, and to rest."""
LATE = 2.0
READS = ("/v1/entitlements", "/v1/billing", "/v1/freezes", "/v1/overview")


class Customer:
    """What `acme` is at Stripe."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.stack = trial, trial.stack

    def subscriptions(self) -> list[dict[str, Any]]:
        """Return the subscriptions that have not ended."""
        with self.stack.stripe.lock:
            found = self.stack.stripe.store.all("subscription")
            return [each for each in found if each["status"] not in ENDED]

    def plan(self) -> str:
        """Return the plan that Stripe gives."""
        keys = [each["items"]["data"][0]["price"]["lookup_key"] for each in self.subscriptions()]
        return keys[0].partition("_")[0] if keys else "free"

    def agrees(self) -> bool:
        """True if the service gives the plan that Stripe gives."""
        shown = self.trial.client.request("GET", "/v1/entitlements").json()
        return bool(shown["plan"] == self.plan())

    def is_at_rest(self) -> bool:
        """True if the plans agree and nothing is to be read; what could not be read is read again."""
        self.stack.read_stripe_now()
        under_way = "due_at <= clock_timestamp() OR lease_until > clock_timestamp()"
        is_busy = self.stack.sql(f"SELECT 1 FROM stripe_customers WHERE {under_way}")
        return not is_busy and self.stack.stripe.sender.drain(0) and self.agrees()

    def buy(self) -> None:
        """Buy the plan `team`."""
        answer = self.trial.client.insist("POST", "/v1/billing/checkout", {"plan": "team", "interval": "month"})
        assert answer.status_code == 200, answer.text
        paid = requests.post(answer.json()["url"], {"card": "4242 4242 4242 4242"}, allow_redirects=False, timeout=10)
        assert paid.status_code == 303, paid.text

    def change_to(self, plan: str) -> None:
        """Change the plan at Stripe."""
        [subscription], stripe = self.subscriptions(), self.stack.stripe
        with stripe.lock:
            [price] = [each for each in stripe.store.all("price") if each["lookup_key"] == f"{plan}_month"]
            change_price(stripe, subscription, price, "none")

    def cancel(self) -> None:
        """End every subscription at Stripe."""
        for subscription in self.subscriptions():
            with self.stack.stripe.lock:
                end_subscription(self.stack.stripe, subscription)

    def is_free(self) -> bool:
        """True if the service knows that there is no subscription."""
        answer = self.trial.client.request("GET", "/v1/billing")
        assert answer.status_code == 200, answer.text
        return answer.json()["subscription"] is None


@contextmanager
def subscribed(trial: Trial) -> Iterator[Customer]:
    """Have `acme` pay for its plan during the block, instead of getting it from an operator.

    At its end Stripe works again, and what the service shows has to agree with it.
    """
    stack, customer = trial.stack, Customer(trial)
    ours = "organization_id = %s AND source = 'manual'"
    stack.sql(f"UPDATE plan_grants SET until = clock_timestamp() WHERE {ours}", stack.acme.id)
    try:
        customer.buy()
        wait_until(customer.agrees, "the plan that was bought", WITHIN)
        yield customer
        trial.injected()
        stack.wires_to("fake_stripe").heal()
        wait_until(customer.is_at_rest, "the plan that Stripe gives", WITHIN, 0.3)
        trial.require(len(customer.subscriptions()) <= 1, "a subscription is bought once")
    finally:
        stack.wires_to("fake_stripe").heal()
        stack.stripe.settings.webhooks = "deliver"
        customer.cancel()
        stack.sql("UPDATE stripe_customers SET due_at = clock_timestamp()")
        wait_until(customer.is_free, "the end of the subscription", WITHIN)
        stack.sql(f"UPDATE plan_grants SET until = NULL WHERE {ours}", stack.acme.id)


def work_as_ever(trial: Trial) -> None:
    """Freeze, lift and read, and require that nothing waits for Stripe."""
    began = len(trial.ledger.answers)
    freeze = trial.client.freeze()
    wait_until(lambda: is_settled(trial.stack), "the freeze at GitHub", 30)
    for path in READS:
        status = trial.client.request("GET", path).status_code
        trial.require(status == 200, f"{path} was answered with {status}")
    trial.client.lift(freeze)
    wait_until(lambda: is_settled(trial.stack), "the lift at GitHub", 30)
    with trial.ledger.lock:
        ours = [each for each in trial.ledger.answers[began:] if "/v1/billing/" not in each[0]]
    slow = [f"{what} took {seconds:.1f} s" for what, _status, seconds in ours if seconds > ANSWERED]
    trial.require(not slow, "; ".join(slow))


def code_of(trial: Trial, path: str, body: dict[str, Any]) -> str:
    """Return the code of the error that a request is answered with, or `ok`."""
    answer = trial.client.request("POST", path, body, timeout=GIVEN_UP)
    return "ok" if answer.status_code == 200 else str(answer.json()["error"]["code"])


@contextmanager
def waiting_for_stripe(trial: Trial, count: int) -> Iterator[Callable[[], list[str]]]:
    """Have people open the portal during the block; yield what waits for their answers and returns the codes."""
    codes: list[str] = []
    asked = [
        threading.Thread(target=lambda: codes.append(code_of(trial, "/v1/billing/portal", {})), daemon=True)
        for _ in range(count)
    ]
    for each in asked:
        each.start()

    def answered() -> list[str]:
        for each in asked:
            each.join(GIVEN_UP)
        return codes

    yield answered
    answered()


@fault(
    "Stripe hangs: freezes, lifts and reads work as ever, and the plan is right afterwards", within=WITHIN, load=False
)
def hangs(trial: Trial) -> None:
    with subscribed(trial) as customer:
        trial.stack.wires_to("fake_stripe").hang()
        customer.change_to("business")
        with waiting_for_stripe(trial, 5) as answered:
            work_as_ever(trial)
            trial.require(not customer.agrees(), "the plan stays as it was last read")
            if not trial.stack.quick:
                refused = answered()
                trial.require(set(refused) == {"stripe_unavailable"}, f"people were answered with {refused}")
            trial.stack.wires_to("fake_stripe").heal()
            trial.require(set(answered()) <= {"ok", "stripe_unavailable"}, f"people were answered with {answered()}")


@fault(
    "Stripe is down: buying is refused with 502, all else works as ever, and the plan is right afterwards",
    within=WITHIN,
    load=False,
)
def down(trial: Trial) -> None:
    with subscribed(trial) as customer:
        trial.stack.wires_to("fake_stripe").refuse()
        customer.change_to("business")
        refused = code_of(trial, "/v1/billing/portal", {})
        trial.require(refused == "stripe_unavailable", f"the portal was answered with {refused}")
        work_as_ever(trial)
        trial.require(not customer.agrees(), "the plan stays as it was last read")


@fault("Stripe answers late: what waits for it is done in the end, and nothing else waits", within=WITHIN, load=False)
def answers_late(trial: Trial) -> None:
    with subscribed(trial) as customer:
        for wire in trial.stack.wires_to("fake_stripe"):
            wire.delay = LATE
        customer.change_to("business")
        with waiting_for_stripe(trial, 2) as answered:
            work_as_ever(trial)
            customer.change_to("team")  # perhaps while the first change is being read
            trial.require(set(answered()) == {"ok"}, f"people were answered with {answered()}")
        wait_until(customer.is_at_rest, "the plan that Stripe gives, late", WITHIN, 0.3)


@fault("Webhooks of Stripe are lost for a day: the daily reading finds what they were about", within=WITHIN, load=False)
def webhooks_lost(trial: Trial) -> None:
    stack = trial.stack
    with subscribed(trial) as customer:
        stack.stripe.settings.webhooks = "drop"
        stack.stripe.sender.drain(10)
        passed = "visited_at = visited_at - CAST(%s AS interval), due_at = clock_timestamp()"
        stack.sql(f"UPDATE stripe_customers SET {passed}", SYNC_INTERVAL)
        wait_until(lambda: not _is_due(trial), "reading for the last time", WITHIN)
        customer.change_to("business")
        work_as_ever(trial)
        trial.require(not customer.agrees(), "without an event nothing is known of it")
        stack.sql("UPDATE stripe_customers SET due_at = due_at - CAST(%s AS interval)", SYNC_INTERVAL)


def _is_due(trial: Trial) -> bool:
    """True if the customer is read within the next hours, or being read."""
    soon = "due_at < clock_timestamp() + interval '12 hours' OR lease_until > clock_timestamp()"
    return bool(trial.stack.sql(f"SELECT 1 FROM stripe_customers WHERE {soon}"))
