"""What a subscription is worth."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rules.billing.grants import GrantedPlan
from rules.billing.subscriptions import (
    MISSING,
    Standing,
    SubscriptionReading,
    grace_end,
    grant_of,
    missing_after,
    standing_of,
)

NOW = datetime(2026, 11, 22, tzinfo=UTC)
GRACE = timedelta(days=14)
HOUR = timedelta(hours=1)
PLANS = {"price_team": "team"}
READING = SubscriptionReading(
    id="sub_1",
    state="active",
    price_id="price_team",
    lookup_key=None,
    interval="month",
    currency="EUR",
    unit_amount=4900,
    period_start=NOW,
    period_end=NOW + timedelta(days=30),
    cancel_at=None,
    created_at=NOW,
    action_url=None,
)


def read(before: Standing | None, state: str, at: datetime = NOW, price: str = "price_team") -> Standing:
    return standing_of(replace(READING, state=state, price_id=price), PLANS, before, at)


@pytest.mark.parametrize("state", ["active", "trialing"])
def test_paid_subscription_gives_its_plan_without_end(state: str) -> None:
    assert grant_of(read(None, state), GRACE) == GrantedPlan("stripe", "team", None)


@pytest.mark.parametrize("state", ["unpaid", "paused", "incomplete", "incomplete_expired", "canceled"])
def test_subscription_that_is_not_paid_gives_nothing(state: str) -> None:
    assert grant_of(read(None, state), GRACE) is None
    assert grant_of(read(read(None, "past_due"), state, NOW + HOUR), GRACE) is None


def test_grace_begins_when_a_failed_payment_is_first_seen() -> None:
    first = read(read(None, "active"), "past_due", NOW + HOUR)
    again = read(first, "past_due", NOW + 9 * HOUR)
    assert again.past_due_since == NOW + HOUR
    assert grant_of(again, GRACE) == GrantedPlan("stripe", "team", NOW + HOUR + GRACE)
    paid = read(again, "active", NOW + 10 * HOUR)
    assert grant_of(paid, GRACE) == GrantedPlan("stripe", "team", None)
    assert read(paid, "past_due", NOW + 11 * HOUR).past_due_since == NOW + 11 * HOUR


@pytest.mark.parametrize(("state", "price"), [("on_hold", "price_team"), ("active", "price_odd")])
def test_unknown_state_or_price_keeps_the_last_plan_for_the_grace(state: str, price: str) -> None:
    first = read(read(None, "active"), state, NOW + HOUR, price)
    again = read(first, state, NOW + 2 * HOUR, price)
    assert grant_of(again, GRACE) == GrantedPlan("stripe", "team", NOW + HOUR + GRACE)
    assert read(again, "active", NOW + 3 * HOUR).unclear_since is None
    assert grant_of(read(None, "active", NOW, "price_odd"), GRACE) is None


def test_price_that_is_not_read_yet_is_known_by_its_lookup_key() -> None:
    reading = replace(READING, price_id="price_new", lookup_key="business_year")
    assert standing_of(reading, PLANS, None, NOW) == Standing("active", "business")
    assert standing_of(replace(reading, lookup_key="free_month"), PLANS, None, NOW).plan is None


def test_subscription_missing_at_stripe_keeps_its_plan_for_the_grace() -> None:
    gone = missing_after(missing_after(read(None, "active"), NOW + HOUR), NOW + 2 * HOUR)
    assert gone.state == MISSING
    assert grant_of(gone, GRACE) == GrantedPlan("stripe", "team", NOW + HOUR + GRACE)
    ended = read(None, "canceled")
    assert missing_after(ended, NOW + HOUR) == ended


def test_used_up_grace_does_not_restart_when_the_price_becomes_unknown() -> None:
    late = read(read(None, "past_due"), "past_due", NOW + GRACE, "price_odd")
    assert grace_end(late, GRACE) == NOW + GRACE
