"""Reminders: planned windows are announced to destinations a number of minutes before they begin.

A row of `reminders` records an announcement, in the transaction in which the channel writes its message. So a window is
not announced twice, and one that was skipped or moved before is not announced. A window that is moved after its
announcement becomes another occurrence, and is announced again at its new time.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Row, select, text
from sqlalchemy.orm import aliased

from models.notifications import NotificationDestination
from models.organizations import Organization
from models.predicates import as_text
from models.schedules import RUNNING, Occurrence
from rules.access.permissions import SYSTEM
from rules.notifications.kinds import UPCOMING
from rules.time.instants import format_instant
from services.core.batch import for_each_in_organization
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.events.event import Event
from services.freezes.scope_names import named_scopes
from services.notifications.dispatch import CHANNELS, DURABLE_COMMIT

MAX_AT_ONCE = 200
"""Destinations that one sweep handles."""

_PLANNED = as_text(aliased(Occurrence, name="o").is_unsettled)
_WINDOWS = f"""
    FROM notification_destinations d
    CROSS JOIN LATERAL unnest(d.remind_before) AS m (minutes)
    JOIN organizations g ON g.id = d.organization_id AND g.deleted_at IS NULL
    JOIN occurrences o ON o.organization_id = d.organization_id AND {_PLANNED}
        AND o.starts_at > :now AND o.starts_at <= CAST(:now AS timestamptz) + m.minutes * interval '1 minute'
    JOIN schedules s ON s.id = o.schedule_id AND {RUNNING}
    LEFT JOIN reminders r ON r.destination_id = d.id AND r.occurrence_id = o.id AND r.minutes = m.minutes
"""
# Destinations with windows that are due and not announced.
_WAITING = text(f"SELECT DISTINCT d.id, d.organization_id {_WINDOWS} WHERE r.destination_id IS NULL LIMIT :limit")
# The windows to announce to one destination: `minutes` is the smallest number that is due, `unannounced` has all that
# are due and not announced.
_DUE = text(f"""
    SELECT o.id, o.schedule_id, o.starts_at, o.ends_at, s.name, s.timezone, s.reason, s.scope,
           min(m.minutes) AS minutes, array_agg(m.minutes) FILTER (WHERE r.destination_id IS NULL) AS unannounced
    {_WINDOWS} WHERE d.id = :destination
    GROUP BY o.id, s.id HAVING count(*) > count(r.destination_id) ORDER BY o.starts_at, o.id
""")
_RECORD = text("""
    INSERT INTO reminders (destination_id, occurrence_id, minutes, organization_id, created_at)
    SELECT :destination, new.occurrence_id, new.minutes, :organization, :now
    FROM unnest(CAST(:occurrences AS text[]), CAST(:minutes AS int[])) AS new (occurrence_id, minutes)
""")
# The time of the next announcement to any destination.
_NEXT = text(f"""
    SELECT min(o.starts_at - w.minutes * interval '1 minute')
    FROM (SELECT DISTINCT d.organization_id, m.minutes
          FROM notification_destinations d CROSS JOIN LATERAL unnest(d.remind_before) AS m (minutes)) w
    CROSS JOIN LATERAL (
        SELECT o.starts_at FROM occurrences o
        WHERE o.organization_id = w.organization_id AND {_PLANNED}
          AND o.starts_at > CAST(:now AS timestamptz) + w.minutes * interval '1 minute'
        ORDER BY o.starts_at LIMIT 1) o
""")  # noqa: S608 - a constant


def announce_windows(uow_factory: UnitOfWorkFactory) -> int:
    """Announce windows that begin soon, each destination in its own unit of work; return how many got an event."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        waiting = uow.session.execute(_WAITING, {"now": uow.now, "limit": MAX_AT_ONCE}).all()
    return for_each_in_organization(uow_factory, waiting, _announce_to)


def seconds_to_next(uow_factory: UnitOfWorkFactory) -> float | None:
    """Return the seconds until the next window is to be announced; None if none is planned."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        found = uow.session.scalar(_NEXT, {"now": uow.now})
        return None if found is None else float((found - uow.now).total_seconds())


def _announce_to(uow: UnitOfWork, destination_id: str) -> bool:
    """Announce to one destination what is due, with one event for each number of minutes; False if another does."""
    locking = select(NotificationDestination).where(NotificationDestination.id == destination_id)
    destination = uow.session.scalar(locking.with_for_update(key_share=True, skip_locked=True))
    if destination is None:
        return False
    uow.session.execute(DURABLE_COMMIT)
    windows = uow.session.execute(_DUE, {"now": uow.now, "destination": destination_id}).all()
    unannounced = [(window.id, minutes) for window in windows for minutes in window.unannounced]
    if unannounced:
        values = {
            "destination": destination_id,
            "organization": uow.organization,
            "now": uow.now,
            "occurrences": [occurrence_id for occurrence_id, _ in unannounced],
            "minutes": [minutes for _, minutes in unannounced],
        }
        uow.session.execute(_RECORD, values)
    events = _events(uow, windows)
    if events:
        CHANNELS[destination.channel](uow, destination_id, events)
    return bool(events)


def _events(uow: UnitOfWork, windows: Sequence[Row[Any]]) -> list[Event]:
    """Return an event for each number of minutes, the smallest first.

    A window for which several numbers are due, after an interruption or because it was planned late, is announced with
    the smallest alone. If that was announced before, the others were chosen later, and the window is not announced.
    """
    announced = sorted(
        (window for window in windows if window.minutes in window.unannounced), key=attrgetter("minutes")
    )
    groups = groupby(announced, key=attrgetter("minutes"))
    return [_event(uow, minutes, list(group)) for minutes, group in groups]


def _event(uow: UnitOfWork, minutes: int, windows: Sequence[Row[Any]]) -> Event:
    if len({window.schedule_id for window in windows}) == 1:
        target = {"type": "schedule", "id": windows[0].schedule_id, "name": windows[0].name}
    else:
        organization = uow.session.get_one(Organization, uow.organization)
        target = {"type": "organization", "id": organization.id, "name": organization.name}
    scopes = named_scopes(uow, [window.scope for window in windows])
    return Event(
        organization_id=uow.organization,
        sequence=None,
        entry_id=None,
        at=uow.now,
        action=UPCOMING,
        kind=UPCOMING,
        actor=SYSTEM.as_json(),
        source="system",
        target=target,
        details={
            "minutes": minutes,
            "windows": [_window(window, scope) for window, scope in zip(windows, scopes, strict=True)],
        },
        request_id=None,
    )


def _window(row: Row[Any], scope: dict[str, Any]) -> dict[str, Any]:
    """Return a window as it is in `details` of an `Event`."""
    return {
        "occurrenceId": row.id,
        "scheduleId": row.schedule_id,
        "scheduleName": row.name,
        "startsAt": format_instant(row.starts_at),
        "endsAt": format_instant(row.ends_at),
        "timezone": row.timezone,
        "reason": row.reason,
        "scope": scope,
        "remindBefore": sorted(row.unannounced),
    }
