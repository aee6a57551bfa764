"""Destinations of notifications: each has its position in the organisation's audit chain."""

from collections.abc import Collection, Mapping
from typing import Literal

from sqlalchemy import delete, func, select, text, update

from models.audit import AuditSeal
from models.notifications import NotificationDestination
from rules.notifications.kinds import NOTIFIED_ACTIONS
from services.core.unit_of_work import UnitOfWork

Channel = Literal["webhook", "slack", "mail"]
FOR_SYSTEMS: tuple[Channel, ...] = ("webhook",)
"""Channels that are given every action; the others are given those that people are notified of."""
JOB = "notifications"

# Not only rows that are not due: one that is locked may be read already, without these entries. Who locks several rows
# locks them in the order of their ids.
_MAKE_DUE = text("""
    WITH wanted AS (
        SELECT d.id FROM notification_destinations d JOIN organizations o ON o.id = d.organization_id
        WHERE d.organization_id = ANY(:organizations) AND o.deleted_at IS NULL
          AND (d.organization_id = ANY(:notified) OR d.channel = ANY(:for_systems))
        ORDER BY d.id FOR NO KEY UPDATE OF d
    )
    UPDATE notification_destinations d SET due_at = least(coalesce(d.due_at, :now), :now)
    FROM wanted WHERE wanted.id = d.id
    RETURNING d.id
""")


def add_destination(
    uow: UnitOfWork,
    destination_id: str,
    channel: Channel,
    *,
    remind_before: Collection[int] = (),
    sequence: int | None = None,
) -> None:
    """Add a destination of the organisation; it gets what is sealed after the entry of that number (None: the last).

    `remind_before`: how many minutes before a window begins it is announced.
    """
    if sequence is None:
        sealed = select(func.max(AuditSeal.sequence)).where(AuditSeal.organization_id == uow.organization)
        sequence = uow.session.scalar(sealed) or 0
    uow.session.add(
        NotificationDestination(
            id=destination_id,
            organization_id=uow.organization,
            channel=channel,
            sequence=sequence,
            remind_before=sorted(set(remind_before)),
            attempts=0,
        )
    )
    uow.session.flush()


def change_reminders(uow: UnitOfWork, destination_id: str, minutes: Collection[int]) -> None:
    """Announce windows to a destination so many minutes before they begin, beginning with those that are due now."""
    uow.session.execute(
        update(NotificationDestination)
        .where(NotificationDestination.id == destination_id)
        .values(remind_before=sorted(set(minutes)))
        .execution_options(synchronize_session=False)
    )


def remove_destination(uow: UnitOfWork, destination_id: str) -> None:
    """Remove a destination. Lock no row of its channel before: what hands it events locks the destination first."""
    uow.session.execute(
        delete(NotificationDestination)
        .where(NotificationDestination.id == destination_id)
        .execution_options(synchronize_session=False)
    )


def make_due(uow: UnitOfWork, sealed: Mapping[str, Collection[str]]) -> None:
    """Have entries that this transaction has sealed read for the destinations: their actions, by organisation."""
    values = {
        "organizations": list(sealed),
        "notified": [each for each, actions in sealed.items() if not NOTIFIED_ACTIONS.isdisjoint(actions)],
        "now": uow.now,
        "for_systems": list(FOR_SYSTEMS),
    }
    if uow.session.execute(_MAKE_DUE, values).all():
        uow.wake(JOB)
