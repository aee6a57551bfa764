"""Missed windows: those that passed without a freeze are recorded once, with an alert."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, text

from models.schedules import RUNNING, Occurrence
from services.alerts.alerts import open_alert
from services.alerts.past_windows import LATE, MISSED, WITHOUT_TARGETS
from services.core.batch import acquire_periodic
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.schedules import alerts
from services.schedules.check_texts import mark_scope_outdated
from services.schedules.occurrence_start import lock_unsettled
from services.schedules.occurrence_sweep import for_each

ALERT_LIFETIME = timedelta(days=7)
"""How long an alert about a past window stays open at most; the next window that starts resolves it too."""

_OVER = text(f"""
    UPDATE attention_items a SET cleared_at = :now
    WHERE a.cleared_at IS NULL AND a.type = ANY(:types) AND (
        a.since <= :before OR NOT EXISTS (
            SELECT FROM schedules s WHERE s.id = a.subject ->> 'id' AND {RUNNING}))
""")  # noqa: S608 - a constant


def record_missed(uow_factory: UnitOfWorkFactory) -> int:
    """Record windows that passed without a freeze, each in its own unit of work; return their number."""
    return for_each(uow_factory, _has_passed, mark_missed)


def _has_passed(now: datetime) -> ColumnElement[bool]:
    return and_(Occurrence.is_unsettled, Occurrence.starts_at <= now, Occurrence.ends_at <= now)


def mark_missed(uow: UnitOfWork, occurrence_id: str) -> bool:
    """Mark an occurrence as missed; False if it is settled or locked.

    While it was due its branches counted as frozen, so their checks are evaluated again.
    """
    found = lock_unsettled(uow, occurrence_id)
    if found is None:
        return False
    occurrence, schedule = found
    occurrence.missed_at = uow.now
    uow.audit("occurrence.missed", alerts.subject(schedule), **alerts.window(occurrence))
    if schedule.is_running:
        open_alert(uow, alerts.missed(uow, schedule, occurrence))
    mark_scope_outdated(uow, schedule.scope)
    return True


def resolve_outdated_alerts(uow_factory: UnitOfWorkFactory) -> bool:
    """Resolve, once per hour, alerts about old windows and of deleted or disabled schedules; True if it ran."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "past_windows", timedelta(hours=1)):
            return False
        types = [MISSED, WITHOUT_TARGETS, LATE]
        uow.session.execute(_OVER, {"now": uow.now, "before": uow.now - ALERT_LIFETIME, "types": types})
    return True
