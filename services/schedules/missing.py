"""Windows that passed without a freeze: recorded once each, with an item that asks for attention."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, text

from models.schedules import Occurrence
from services.alerts.alerts import open_alert
from services.core.batch import acquire_periodic
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.schedules import alerts
from services.schedules.beginning import lock_unsettled
from services.schedules.sweeping import for_each

SHOWN = timedelta(days=7)
"""An item of a window that is past stays open for so long at most; the next window that begins closes it too."""

_OVER = text("""
    UPDATE attention_items a SET cleared_at = :now
    WHERE a.cleared_at IS NULL AND a.type = ANY(:types) AND (
        a.since <= :before OR NOT EXISTS (
            SELECT FROM schedules s WHERE s.id = a.subject ->> 'id' AND s.enabled AND s.deleted_at IS NULL))
""")


def record_missed(uow_factory: UnitOfWorkFactory) -> int:
    """Record which windows have passed without a freeze, each in a unit of its own; returns how many."""
    return for_each(uow_factory, _has_passed, record)


def _has_passed(now: datetime) -> ColumnElement[bool]:
    return and_(Occurrence.is_unsettled, Occurrence.starts_at <= now, Occurrence.ends_at <= now)


def record(uow: UnitOfWork, occurrence_id: str) -> bool:
    """Record that an occurrence has passed; False when somebody else has settled it, or is about to."""
    found = lock_unsettled(uow, occurrence_id)
    if found is None:
        return False
    occurrence, schedule = found
    occurrence.missed_at = uow.now
    uow.audit("occurrence.missed", alerts.subject(schedule), **alerts.window(occurrence))
    if schedule.enabled and schedule.deleted_at is None:
        open_alert(uow, alerts.missed(uow, schedule, occurrence))
    return True


def clear_what_is_over(uow_factory: UnitOfWorkFactory) -> bool:
    """Close, once an hour, items of windows that passed long ago, or whose schedule is not there or not enabled."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "past_windows", timedelta(hours=1)):
            return False
        types = [alerts.MISSED, alerts.WITHOUT_TARGETS]
        uow.session.execute(_OVER, {"now": uow.now, "before": uow.now - SHOWN, "types": types})
    return True
