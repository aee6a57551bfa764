"""The subscriptions of an organisation as they were last read, and what the billing summary shows of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from models.stripe import StripeCustomer, StripeSubscription
from rules.billing.plans import FREE, PLANS
from rules.billing.settings import BillingSettings
from rules.billing.subscriptions import (
    ENDED,
    INVOICE_STATES,
    LIVE,
    MISSING,
    PERIODS,
    Standing,
    grace_end,
    grant_of,
    shown_as,
)
from services.billing.summary import Payments
from services.core.unit_of_work import UnitOfWork


def subscriptions_of(uow: UnitOfWork) -> Sequence[StripeSubscription]:
    """Return all subscriptions of the organisation, also those that have ended."""
    query = select(StripeSubscription).where(StripeSubscription.organization_id == uow.organization)
    return uow.session.scalars(query.order_by(StripeSubscription.created_at, StripeSubscription.id)).all()


def standing_in(row: StripeSubscription) -> Standing:
    """Return what decides the worth of a stored subscription."""
    return Standing(row.state, row.plan, row.past_due_since, row.unclear_since)


def best_subscription(rows: Sequence[StripeSubscription]) -> StripeSubscription | None:
    """Return the subscription that has not ended: of several, one that gives a plan, the best and latest one."""
    live = [row for row in rows if row.state not in ENDED and row.state != MISSING]

    def worth(row: StripeSubscription) -> tuple[bool, int, Any]:
        grant = grant_of(standing_in(row), timedelta())
        return grant is not None, PLANS.get(row.plan or "", FREE).rank, row.created_at

    return max(live, key=worth, default=None)


def payments_of(uow: UnitOfWork) -> Payments:
    """Return what the billing summary shows of the payment provider, as it was last read."""
    query = select(StripeCustomer).where(StripeCustomer.organization_id == uow.organization)
    customer = uow.session.scalars(query).one_or_none()
    if customer is None:
        return Payments()
    current = best_subscription(subscriptions_of(uow))
    subscription = _view(current, uow.ports[BillingSettings].grace) if current is not None else None
    return Payments(subscription, [_invoice_view(each) for each in customer.invoices], customer.synced_at)


def _invoice_view(stored: dict[str, Any]) -> dict[str, Any]:
    return {
        **stored,
        "state": shown_as(stored["state"], INVOICE_STATES),
        "created_at": datetime.fromisoformat(stored["created_at"]),
    }


def _view(row: StripeSubscription, grace: timedelta) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": shown_as(row.state, LIVE),
        "plan": row.plan,
        "interval": shown_as(row.interval, PERIODS),
        "currency": row.currency,
        "unit_amount": row.unit_amount,
        "current_period_start": row.period_start,
        "current_period_end": row.period_end,
        "cancel_at": row.cancel_at,
        "past_due_since": row.past_due_since,
        "grace_ends_at": grace_end(standing_in(row), grace),
        "action_url": row.action_url,
    }
