"""Stripe's events, time, changes of plans and freezes in any order, against a model of a few lines.

The model has the subscriptions as Stripe had them when they were last read; how often they are read is checked besides.
At every instant entitlements agree with it, no freeze ends and none is kept from being lifted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import httpx
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from sqlalchemy import delete
from sqlalchemy.orm import Session

from models.billing import PlanGrant
from rules.billing.plans import PLANS
from rules.billing.subscriptions import ENDED
from services.billing.sync import CUSTOMERS, SYNC_INTERVAL
from tests import factories
from tests.handlers.billing.conftest import DAY, FAILS_LATER, VISA, Shop
from tests.handlers.conftest import found
from tests.handlers.freezing_machine import FreezingMachine, code
from tests.harness import cleaning
from tests.harness.clock import MovableClock
from tests.harness.state_machines import explore
from tests.tools.fake_stripe.shop import press
from tools.fake_github import FakeGitHub
from tools.fake_stripe.subscriptions import change_price, end_subscription, period_end, schedule_end

GRACE = 14 * DAY
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
STEPS = st.sampled_from([SECOND, HOUR, DAY, 13 * DAY, 31 * DAY])
CARDS = st.sampled_from([VISA, FAILS_LATER])
PAID_PLANS = st.sampled_from(["team", "business"])
Ends = datetime | None


@dataclass
class Model:
    """What gives the organisation a plan, until when."""

    others: dict[str, tuple[str, Ends]] = field(default_factory=dict)
    """The grants of the operator and of the trial, by source."""
    bought: dict[str, tuple[str, Ends]] = field(default_factory=dict)
    """Those of subscriptions, as they were last read."""
    unpaid_since: dict[str, datetime] = field(default_factory=dict)
    trial_used: bool = False

    def read(self, subscriptions: list[dict[str, Any]], now: datetime) -> None:
        states = {each["id"]: each["status"] for each in subscriptions}
        unpaid = [name for name, state in states.items() if state in {"past_due", "unpaid"}]
        self.unpaid_since = {name: self.unpaid_since.get(name, now) for name in unpaid}
        ends = {name: self.unpaid_since[name] + GRACE for name in unpaid if states[name] == "past_due"}
        gives = {"trialing", "active", "past_due"}
        self.bought = {
            each["id"]: (plan_of(each), ends.get(each["id"])) for each in subscriptions if each["status"] in gives
        }

    def in_force(self, now: datetime) -> list[tuple[str, str, Ends]]:
        held = [(source, *grant) for source, grant in self.others.items()]
        held += [("stripe", *grant) for grant in self.bought.values()]
        return [each for each in held if each[2] is None or now < each[2]]

    def plan(self, now: datetime) -> str:
        return max((plan for _, plan, _ in self.in_force(now)), key=list(PLANS).index, default="free")

    def has(self, source: str, now: datetime) -> bool:
        return any(each == source for each, *_ in self.in_force(now))


def plan_of(subscription: dict[str, Any]) -> str:
    """Return the plan that a subscription at Stripe is of."""
    return str(subscription["items"]["data"][0]["price"]["lookup_key"]).partition("_")[0]


class Machine(FreezingMachine):
    """An organisation that buys plans, pays or does not, and freezes its branch again and again."""

    opened: ClassVar[Callable[[], Shop]]

    def __init__(self) -> None:
        super().__init__()
        self.clock.offset = timedelta()
        self.now = self.clock.at = factories.now().replace(microsecond=0)
        self.shop = type(self).opened()
        self.tenant = self.shop.tenant
        self.branch = factories.branch(self.tenant.session, self.tenant.repository("web"))
        person = factories.member(self.tenant.session, self.tenant.organization, "owner")
        self.key = self.tenant.key(created_by={"type": "user", "id": person.id, "name": person.name})
        self.model = Model()

    # --- what people and the operator do ------------------------------------------------------------------------------

    @rule(plan=PAID_PLANS)
    def buy(self, plan: str) -> None:
        """Open a checkout session, and pay."""
        answer = self.key.post("/v1/billing/checkout", {"plan": plan, "interval": "month"})
        if self.model.has("manual", self.now):
            assert code(answer) == "billing_source_conflict"
        elif self.live():
            assert code(answer) == "invalid_state"
        else:
            assert answer.status_code == 200, answer.text
            assert press(answer.json()["url"], card=VISA).status_code == 303

    @rule(plan=PAID_PLANS, ends=st.sampled_from([None, HOUR, 20 * DAY]))
    def grant_manual_plan(self, plan: str, ends: timedelta | None) -> None:
        self.end_manual_plan()
        until = None if ends is None else self.now + ends
        factories.grant(self.tenant.session, self.tenant.organization, plan, until=until)
        self.model.others["manual"] = (plan, until)

    @rule()
    def end_manual_plan(self) -> None:
        ours = (PlanGrant.organization_id == self.tenant.id, PlanGrant.source == "manual")
        self.tenant.session.execute(delete(PlanGrant).where(*ours))
        self.model.others.pop("manual", None)

    @rule()
    def start_trial(self) -> None:
        answer = self.key.post("/v1/billing/trial")
        if self.model.trial_used:
            assert code(answer) == "trial_already_used"
        elif self.model.has("manual", self.now) or self.model.has("stripe", self.now):
            assert code(answer) == "billing_source_conflict"
        else:
            assert answer.status_code == 200, answer.text
            self.model.trial_used = True
            self.model.others["trial"] = ("business", self.now + 14 * DAY)

    # --- what happens at Stripe -----------------------------------------------------------------------------------

    def stored(self) -> list[dict[str, Any]]:
        """Return the subscriptions at Stripe."""
        with self.shop.fake.lock:
            return list(self.shop.fake.store.all("subscription"))

    def live(self) -> list[dict[str, Any]]:
        """Return those that have not ended."""
        return [each for each in self.stored() if each["status"] not in ENDED]

    @precondition(lambda self: self.live())
    @rule(card=CARDS)
    def change_card(self, card: str) -> None:
        self.shop.set_card(card)

    @precondition(lambda self: self.live())
    @rule()
    def miss_a_payment(self) -> None:
        """Let the payment for the next period fail, and have that read."""
        self.shop.set_card(FAILS_LATER)
        end = datetime.fromtimestamp(self.live()[0]["items"]["data"][0]["current_period_end"], UTC)
        self.now = self.clock.at = max(self.now, end) + 2 * HOUR
        self.shop.fake.advance(0)
        self.deliver_events("sent")

    @precondition(lambda self: self.live())
    @rule()
    def pay_open_invoices(self) -> None:
        """Pay what failed, with a card that works."""
        self.shop.set_card(VISA)
        with self.shop.fake.lock:
            unpaid = [each for each in self.shop.fake.store.all("invoice") if each["status"] == "open"]
        for invoice in unpaid:
            press(invoice["hosted_invoice_url"], card=VISA)

    @precondition(lambda self: self.live())
    @rule(plan=PAID_PLANS)
    def change_plan(self, plan: str) -> None:
        with self.shop.changing() as subscription:
            change_price(self.shop.fake, subscription, self.shop.price_of(plan), "none")

    @precondition(lambda self: self.live())
    @rule(at_period_end=st.sampled_from([True, False, None]))
    def cancel(self, at_period_end: bool | None) -> None:
        """Cancel at the end of the period, take that back, or cancel now."""
        with self.shop.changing() as subscription:
            if at_period_end is None:
                end_subscription(self.shop.fake, subscription)
            else:
                end = period_end(subscription) if at_period_end else None
                schedule_end(self.shop.fake, subscription, end)

    # --- events and time ----------------------------------------------------------------------------------------------

    @rule(order=st.sampled_from(["sent", "reversed", "shuffled", "doubled"]))
    def deliver_events(self, order: str) -> None:
        """Have the held events arrive: the jobs read what they are about."""
        released = self.shop.fake.sender.release(order)
        assert self.shop.fake.sender.drain()
        assert self.work() or not released or not self.stored()

    @rule()
    def lose_events(self) -> None:
        self.shop.fake.sender.held.clear()

    @rule()
    def work_without_an_event(self) -> None:
        """Run the jobs: what is due is read, at least once a day."""
        self.work()
        synced_at = self.shop.billing()["syncedAt"]
        assert synced_at is None or datetime.fromisoformat(synced_at) > self.now - SYNC_INTERVAL - HOUR

    def work(self) -> bool:
        """Run the jobs; True if they read the subscriptions."""
        self.shop.fake.calls.reset()
        self.shop.work()
        reads = [each for each in self.shop.fake.calls.exchanges if each.template == "/v1/subscriptions"]
        if reads:
            self.model.read(self.stored(), self.now)
        return bool(reads)

    @rule()
    def work_while_stripe_fails(self) -> None:
        """Run the jobs in vain, and let the back-off pass: what was read last goes on."""
        self.shop.fake.faults.add("error", "/v1/", status=429)
        self.shop.work()
        self.shop.fake.faults.clear()
        self.now = self.clock.at = self.now + CUSTOMERS.retry.longest

    @rule(length=STEPS, to_end=st.sampled_from([None, -SECOND, timedelta()]))
    def pass_time(self, length: timedelta, to_end: timedelta | None) -> None:
        """Let time pass, or go to the next end of a grant, or to the second before it."""
        ends = [until for _, _, until in self.model.in_force(self.now) if until is not None]
        wanted = min(ends) + to_end if ends and to_end is not None else self.now
        self.now = self.clock.at = wanted if wanted > self.now else self.now + length
        self.shop.fake.advance(0)

    # --- at every instant ---------------------------------------------------------------------------------------------

    @invariant()
    def entitlements_agree(self) -> None:
        plan = PLANS[self.model.plan(self.now)]
        shown = self.key.get("/v1/entitlements").json()
        assert (shown["plan"], shown["entitlements"]) == (plan.id, list(plan.entitlements))
        assert shown["source"] == "none" or self.model.has(shown["source"], self.now)

    @invariant()
    def subscription_is_bought_once(self) -> None:
        assert len(self.live()) <= 1


@pytest.fixture
def opened(
    shop: Shop,
    shared_database: psycopg.Connection[Any],
    session: Session,
    http: httpx.Client,
    fake_github: FakeGitHub,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], Shop]:
    """Forget everything, found an organisation, and sell it plans; Stripe has the clock of the product."""
    monkeypatch.setattr(shop.fake, "clock", lambda: clock.read(datetime.now(UTC)).timestamp())

    def opened_again() -> Shop:
        session.expunge_all()
        cleaning.reset(shared_database)
        fake_github.reset()
        tenant = found(session, http, fake_github, "acme", "free")
        again = replace(shop, tenant=tenant, admin=tenant.key())
        again.open()
        return again

    return opened_again


@pytest.mark.parametrize("histories", [pytest.param(1, id="few"), pytest.param(10, id="many", marks=pytest.mark.check)])
def test_entitlements_follow_stripe_and_freezes_do_not(
    opened: Callable[[], Shop], clock: MovableClock, histories: int
) -> None:
    explore(Machine, histories, steps=20, opened=staticmethod(opened), clock=clock)
