"""Dispatch: sealed audit entries are given to the channels of an organisation's destinations, in order.

A destination has a position in the audit chain (`sequence`). Its row is locked, the entries after the position are
read, the channel writes its messages, and the position is moved, all in one transaction: nothing is lost, and nothing
is written twice. Entries that are sealed meanwhile make the destination due again: the sealer waits for its row.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy.exc
from sqlalchemy import func, select, text

from models.audit import AuditEntry, AuditSeal
from models.notifications import NotificationDestination
from models.queries import NOW
from rules.notifications.kinds import NOTIFIED_ACTIONS, kind_of
from services.core.queue_observer import QueueObserver
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import RetryPolicy
from services.events.destinations import FOR_SYSTEMS, JOB
from services.events.event import Event, TakeEvents
from services.notifications.mail_notices import take_events as take_mail_events
from services.outgoing_webhooks.messages import take_events as take_webhook_events
from services.slack.notices import take_events as take_slack_events

logger = logging.getLogger(__name__)

BATCH_SIZE = 200
"""Entries that one transaction gives to one destination."""
RETRY = RetryPolicy(timedelta(seconds=2), timedelta(minutes=5))
CHANNELS: dict[str, TakeEvents] = {"mail": take_mail_events, "slack": take_slack_events, "webhook": take_webhook_events}
"""For each channel, what writes its messages."""

DURABLE_COMMIT = text("SET LOCAL synchronous_commit TO on")
"""Jobs commit without waiting for the disk, but this one waits: a message that was sent must not be forgotten."""

_IS_DUE = NotificationDestination.due_at <= NOW
_NEXT = (
    select(NotificationDestination)
    .where(_IS_DUE)
    .order_by(NotificationDestination.due_at, NotificationDestination.id)
    .limit(1)
    .with_for_update(key_share=True, skip_locked=True)
)
_HAS_WORK = select(select(NotificationDestination.id).where(_IS_DUE).exists())


def has_work(uow: UnitOfWork) -> bool:
    """True if entries are to be read for a destination."""
    return bool(uow.session.scalar(_HAS_WORK, {"now": uow.now}))


def dispatch_due(uow_factory: UnitOfWorkFactory) -> bool:
    """Give one destination that is due a batch of events; False if none is due that no other process works on.

    A destination whose channel fails is tried again later, and does not delay the others.
    """
    destination_id: str | None = None
    try:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            destination = uow.session.scalar(_NEXT, {"now": uow.now})
            if destination is None:
                return False
            destination_id = destination.id
            uow.ports[QueueObserver].acquired(JOB, 1, 0)
            uow.bind_organization(destination.organization_id)
            uow.session.execute(DURABLE_COMMIT)
            _dispatch(uow, destination)
            uow.ports[QueueObserver].released(JOB, 1)
    except Exception as error:
        if destination_id is None:
            raise
        _postpone(uow_factory, destination_id)
        if isinstance(error, sqlalchemy.exc.OperationalError):
            raise  # the database is unavailable, or has ended the transaction
        logger.exception("notifying failed and will be retried", extra={"destination": destination_id})
    return True


def _dispatch(uow: UnitOfWork, destination: NotificationDestination) -> None:
    """Give a locked destination a batch of events, and move its position."""
    sealed = select(func.max(AuditSeal.sequence)).where(AuditSeal.organization_id == destination.organization_id)
    head = uow.session.scalar(sealed) or 0
    events = _events_between(uow, destination, head)
    if events:
        CHANNELS[destination.channel](uow, destination.id, events)
    if len(events) < BATCH_SIZE:
        destination.sequence, destination.due_at = max(head, destination.sequence), None
    else:
        destination.sequence, destination.due_at = events[-1].sequence or head, uow.now
    destination.attempts = 0


def _events_between(uow: UnitOfWork, destination: NotificationDestination, head: int) -> Sequence[Event]:
    """Return the first events for the destination after its position, up to the sealed entry number `head`."""
    query = (
        select(AuditSeal.sequence, AuditEntry)
        .join(AuditEntry, AuditEntry.id == AuditSeal.entry_id)
        .where(
            AuditSeal.organization_id == destination.organization_id,
            AuditSeal.sequence > destination.sequence,
            AuditSeal.sequence <= head,
        )
        .order_by(AuditSeal.sequence)
        .limit(BATCH_SIZE)
    )
    if destination.channel not in FOR_SYSTEMS:
        query = query.where(AuditSeal.action.in_(NOTIFIED_ACTIONS))
    return [_event(sequence, entry) for sequence, entry in uow.session.execute(query)]


def _event(sequence: int, entry: AuditEntry) -> Event:
    return Event(
        organization_id=entry.organization_id,
        sequence=sequence,
        entry_id=entry.id,
        at=entry.at,
        action=entry.action,
        kind=kind_of(entry.action),
        actor=entry.actor,
        source=entry.source,
        target=entry.target,
        details=entry.details,
        request_id=entry.request_id,
    )


def _postpone(uow_factory: UnitOfWorkFactory, destination_id: str) -> None:
    """Try a destination again after a back-off."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        locked = select(NotificationDestination).where(NotificationDestination.id == destination_id)
        destination = uow.session.scalar(locked.with_for_update(key_share=True))
        if destination is not None:
            destination.due_at = uow.now + RETRY.delay(destination.attempts)
            destination.attempts += 1
            uow.ports[QueueObserver].failed(JOB, "channel_failed", 1)
