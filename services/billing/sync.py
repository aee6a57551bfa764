"""Reading customers at Stripe again: the only way in which anything there changes a plan.

A webhook is a hint: it makes a customer due. So events that are lost, late, doubled or reordered end in the same state.
A customer is read by one process at a time, under a lease, and what is requested meanwhile makes it due again. Without
any hint it is read every day, after the end of a period, and more often after a page of Stripe was opened, where a
person may have bought or changed something.

The subscriptions of a deleted organisation are cancelled, until Stripe has done it; after the purge the customer is
deleted as well.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from integrations.stripe import Stripe, StripeMissingError
from models.billing import GRANT_KEY, PlanGrant
from models.organizations import Organization
from models.stripe import StripeCustomer, StripePrice, StripeSubscription
from rules.audit.changes import differences
from rules.billing.settings import BillingSettings
from rules.billing.subscriptions import (
    ENDED,
    MISSING,
    Invoice,
    Standing,
    SubscriptionReading,
    grace_end,
    grant_of,
    may_charge,
    missing_after,
    standing_of,
)
from rules.time.instants import format_instant
from services.billing.announcements import GRACE_NOTICE, announce
from services.billing.stripe_work import do_stripe_work
from services.billing.subscriptions import standing_in, subscriptions_of
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.core.work_queue import Lease, RetryPolicy, WorkQueue

SYNC_INTERVAL = timedelta(days=1)
AFTER_PERIOD = timedelta(minutes=1)
"""How long after the end of a period Stripe is read: it makes the invoice then."""
VISIT_DURATION = timedelta(days=1)
"""How long after a page of Stripe was opened the customer is read more often; checkout sessions are open for a day."""
MIN_VISIT_INTERVAL, MAX_VISIT_INTERVAL = timedelta(seconds=10), timedelta(hours=1)
"""Between two of these readings; the interval grows with the time since the page was opened."""
CALL_TIMEOUT = timedelta(seconds=20)
CUSTOMERS = WorkQueue(
    "billing",
    StripeCustomer,
    select(
        StripeCustomer.id,
        StripeCustomer.organization_id,
        StripeCustomer.checkout_id,
        StripeCustomer.attempts,
        Organization.deleted_at,
    )
    .outerjoin(Organization, Organization.id == StripeCustomer.organization_id)
    .order_by(StripeCustomer.due_at, StripeCustomer.id),
    lease=CALL_TIMEOUT + timedelta(seconds=10),
    retry=RetryPolicy(timedelta(seconds=5), timedelta(minutes=10)),
    call_timeout=CALL_TIMEOUT,
)


def sync_customer(uow_factory: UnitOfWorkFactory) -> bool:
    """Read one customer again; False if none is due."""
    return do_stripe_work(uow_factory, CUSTOMERS, lambda *arguments: _Sync(*arguments).run())


@dataclass(frozen=True, slots=True)
class _Sync:
    """The work on one customer."""

    uow_factory: UnitOfWorkFactory
    stripe: Stripe
    lease: Lease

    def run(self) -> None:
        """Read the customer and record it. Before, cancel the subscriptions of a deleted organisation.

        After the purge of the organisation, delete the customer at Stripe instead.
        """
        row = self.lease.row
        if row.organization_id is None:
            self._delete()
            return
        if row.deleted_at is not None:
            self._cancel()
        subscriptions, invoices = self._read()
        with self.uow_factory.open(system_caller(row.organization_id)) as uow:
            self.lease.require(uow)
            organization = uow.session.get_one(Organization, row.organization_id, with_for_update={"key_share": True})
            rows = _record_subscriptions(uow, organization, subscriptions)
            customer = uow.session.get_one(StripeCustomer, row.id, populate_existing=True)
            customer.synced_at, customer.invoices = uow.now, [_stored_invoice(invoice) for invoice in invoices]
            announce(uow, organization, rows)
            uow.session.flush()
            self.lease.release(uow, due_at=_next_sync(uow, rows, customer.visited_at))

    def _delete(self) -> None:
        self.stripe.delete_customer(self.lease.row.id)
        with self.uow_factory.open(SYSTEM_CALLER) as uow:
            self.lease.require(uow)
            uow.session.execute(delete(StripeCustomer).where(StripeCustomer.id == self.lease.row.id))

    def _cancel(self) -> None:
        """Cancel what may still be charged, and prevent that an open page is paid."""
        if self.lease.row.checkout_id is not None:
            self.stripe.expire_checkout(self.lease.row.checkout_id)
        subscriptions, _ = self._read()
        for subscription in subscriptions:
            if may_charge([subscription.state]):
                self._renew()
                self.stripe.cancel_subscription(subscription.id)

    def _read(self) -> tuple[list[SubscriptionReading], list[Invoice]]:
        """Return subscriptions and invoices; none of a customer that was deleted at Stripe."""
        try:
            self._renew()
            subscriptions = self.stripe.list_subscriptions(self.lease.row.id)
            self._renew()
            return subscriptions, self.stripe.list_invoices(self.lease.row.id)
        except StripeMissingError:
            return [], []

    def _renew(self) -> None:
        with self.uow_factory.open(SYSTEM_CALLER) as uow:
            self.lease.require(uow)


def _record_subscriptions(
    uow: UnitOfWork, organization: Organization, readings: Iterable[SubscriptionReading]
) -> list[StripeSubscription]:
    """Store what was read, replace the grants that follow from it, and audit what changed; return the subscriptions."""
    unread = {row.id: row for row in subscriptions_of(uow)}
    plans = dict(uow.session.execute(select(StripePrice.id, StripePrice.plan)).all())
    rows = []
    for reading in readings:
        stored = unread.pop(reading.id, None)
        before = _snapshot(stored) if stored else None
        standing = standing_of(reading, plans, standing_in(stored) if stored else None, uow.now)
        row = stored or StripeSubscription(id=reading.id, organization_id=organization.id)
        _set(row, reading, standing)
        uow.session.add(row)
        _audit_change(uow, organization, row, before)
        rows.append(row)
    for row in unread.values():  # Stripe no longer has them
        before, standing = _snapshot(row), missing_after(standing_in(row), uow.now)
        row.state, row.unclear_since = standing.state, standing.unclear_since
        _audit_change(uow, organization, row, before)
        rows.append(row)
    uow.session.flush()
    _replace_grants(uow, organization.id, rows)
    return rows


def _set(row: StripeSubscription, reading: SubscriptionReading, standing: Standing) -> None:
    """Store a reading and its standing in a row; the plan of the standing stands for the price."""
    values = asdict(reading)
    for name in ("id", "price_id", "lookup_key"):
        del values[name]
    for name, value in {**values, **asdict(standing)}.items():
        setattr(row, name, value)


def _replace_grants(uow: UnitOfWork, organization_id: str, rows: Iterable[StripeSubscription]) -> None:
    """Store the grant of each subscription that gives one, and delete the other grants of Stripe."""
    granting = []
    for row in rows:
        grant = grant_of(standing_in(row), uow.ports[BillingSettings].grace)
        if grant is None:
            continue
        granting.append(row.id)
        changed = {"plan": grant.plan, "until": grant.until}
        values = {"organization_id": organization_id, "source": "stripe", "reference": row.id, "created_at": uow.now}
        added = insert(PlanGrant).values(**values, **changed)
        uow.session.execute(added.on_conflict_do_update(index_elements=GRANT_KEY, set_=changed))
    uow.session.execute(
        delete(PlanGrant).where(
            PlanGrant.organization_id == organization_id,
            PlanGrant.source == "stripe",
            PlanGrant.reference.not_in(granting),
        )
    )


def _snapshot(row: StripeSubscription) -> dict[str, Any]:
    """Return what the audit log shows of a subscription."""
    return {
        "subscription": row.id,
        "state": row.state,
        "plan": row.plan,
        "interval": row.interval,
        "currency": row.currency,
        "unitAmount": row.unit_amount,
        "cancelAt": row.cancel_at,
        "pastDueSince": row.past_due_since,
    }


def _audit_change(
    uow: UnitOfWork, organization: Organization, row: StripeSubscription, before: dict[str, Any] | None
) -> None:
    after = _snapshot(row)
    old, new = differences(before, after) if before is not None else (None, after)
    if new:
        target = ("organization", organization.id, organization.name)
        uow.audit("billing.subscription_changed", target, subscription=row.id, before=old, after=new)


def _next_sync(uow: UnitOfWork, rows: Iterable[StripeSubscription], visited_at: datetime | None) -> datetime:
    """Return when the customer is read again without a hint."""
    coming = [uow.now + SYNC_INTERVAL]
    for row in rows:
        if row.state in ENDED or row.state == MISSING:
            continue
        coming.append(row.period_end + AFTER_PERIOD)
        end = grace_end(standing_in(row), uow.ports[BillingSettings].grace)
        coming += [row.cancel_at + AFTER_PERIOD] if row.cancel_at is not None else []
        coming += [end - GRACE_NOTICE, end + AFTER_PERIOD] if end is not None else []
    if visited_at is not None and (passed := uow.now - visited_at) < VISIT_DURATION:
        coming.append(uow.now + max(MIN_VISIT_INTERVAL, min(MAX_VISIT_INTERVAL, passed / 4)))
    return min(each for each in coming if each > uow.now)


def _stored_invoice(invoice: Invoice) -> dict[str, Any]:
    return {
        "id": invoice.id,
        "number": invoice.number,
        "state": invoice.state,
        "total": invoice.total,
        "currency": invoice.currency,
        "created_at": format_instant(invoice.created_at),
        "url": invoice.url,
    }
