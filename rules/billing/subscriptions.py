"""What a subscription at Stripe is worth: its state, since when it is unpaid or unclear, and the grace decide."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rules.billing.grants import GrantedPlan
from rules.billing.plans import FREE, PLANS

PAID = frozenset({"trialing", "active"})
"""States that give the plan, also while a cancellation is planned."""
UNPAID = frozenset({"past_due", "unpaid"})
"""States after a failed payment; `past_due` gives the plan for the grace."""
LIVE = frozenset({"trialing", "active", "past_due", "unpaid", "paused", "incomplete"})
"""States in which Stripe may still take money: a second subscription beside one would be charged as well."""
ENDED = frozenset({"canceled", "incomplete_expired"})
PERIODS = frozenset({"day", "week", "month", "year"})
INVOICE_STATES = frozenset({"open", "paid", "uncollectible", "void"})
UNKNOWN = "unknown"
"""What is shown instead of a value of Stripe that this version does not know."""
MISSING = "missing"
"""Our own state of a subscription that Stripe no longer has, without having ended it."""


@dataclass(frozen=True, slots=True)
class Invoice:
    """An invoice that was sent."""

    id: str
    number: str | None
    state: str
    total: int
    currency: str
    created_at: datetime
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionReading:
    """A subscription as Stripe has it."""

    id: str
    state: str
    price_id: str
    lookup_key: str | None
    interval: str
    currency: str
    unit_amount: int | None
    period_start: datetime
    period_end: datetime
    cancel_at: datetime | None
    created_at: datetime
    action_url: str | None
    """The page of an invoice to pay."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides the worth of a subscription: its state and plan, and since when they are unpaid or unclear."""

    state: str
    plan: str | None
    """The last plan that was known."""
    past_due_since: datetime | None = None
    """When the failed payment was first seen."""
    unclear_since: datetime | None = None
    """When a state or a price was first seen that this version does not know."""


def standing_of(
    reading: SubscriptionReading, plans: Mapping[str, str], before: Standing | None, now: datetime
) -> Standing:
    """Return the standing after a reading; `plans` are those of known prices, by price."""
    plan = plans.get(reading.price_id) or _plan_in(reading.lookup_key)
    is_clear = plan is not None and reading.state in LIVE | ENDED
    return Standing(
        reading.state,
        plan or (before.plan if before else None),
        (before and before.past_due_since) or now if reading.state in UNPAID else None,
        None if is_clear or reading.state in ENDED else (before and before.unclear_since) or now,
    )


def missing_after(before: Standing, now: datetime) -> Standing:
    """Return the standing of a subscription that Stripe no longer has."""
    if before.state in ENDED:
        return before
    return Standing(MISSING, before.plan, before.past_due_since, before.unclear_since or now)


def grace_end(standing: Standing, grace: timedelta) -> datetime | None:
    """Return until when a plan that is not paid, or unclear, goes on; None if nothing is wrong, or it has no plan."""
    if standing.state in (LIVE | ENDED) - PAID - {"past_due"}:
        return None
    since = [each for each in (standing.past_due_since, standing.unclear_since) if each is not None]
    return min(since) + grace if since else None


def grant_of(standing: Standing, grace: timedelta) -> GrantedPlan | None:
    """Return the grant that a subscription gives, or None."""
    if standing.plan not in PLANS:
        return None
    end = grace_end(standing, grace)
    return GrantedPlan("stripe", standing.plan, end) if end is not None or standing.state in PAID else None


def may_charge(states: Iterable[str]) -> bool:
    """True if Stripe may still take money for one of the subscriptions in these states."""
    return any(state not in ENDED and state != MISSING for state in states)


def shown_as(value: str, known: Container[str]) -> str:
    """Return a value of Stripe as it is shown."""
    return value if value in known else UNKNOWN


def _plan_in(lookup_key: str | None) -> str | None:
    plan = (lookup_key or "").partition("_")[0]
    return plan if plan in PLANS and plan != FREE.id else None
