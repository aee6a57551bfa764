"""Windows that passed without a freeze: recorded once each, with an item that asks for attention."""

from datetime import timedelta

from sqlalchemy import Row, select, text

from models.organizations import Organization
from models.schedule_queries import unsettled
from models.schedules import Occurrence
from rules.permissions import SYSTEM
from services.attention import raise_item
from services.chores import JOB, one_by_one, take
from services.schedules import alerts
from services.schedules.beginning import lock_unsettled
from services.unit import Caller, Unit, Units

AT_ONCE = 200
SHOWN = timedelta(days=7)
"""An item of a window that is past stays open for so long at most; the next window that begins closes it too."""

_OVER = text("""
    UPDATE attention_items a SET cleared_at = :now
    WHERE a.cleared_at IS NULL AND a.type = ANY(:types) AND (
        a.since <= :before OR NOT EXISTS (
            SELECT FROM schedules s WHERE s.id = a.subject ->> 'id' AND s.enabled AND s.deleted_at IS NULL))
""")


def record_missed(units: Units) -> int:
    """Record which windows have passed without a freeze, each in a unit of its own; returns how many."""
    with units.open(JOB) as unit:
        query = (
            select(Occurrence.id, Occurrence.organization_id)
            .join(Organization, Organization.id == Occurrence.organization_id)
            .where(unsettled(), Occurrence.starts_at <= unit.now, Occurrence.ends_at <= unit.now)
            .where(Organization.deleted_at.is_(None))
            .order_by(Occurrence.starts_at, Occurrence.id)
            .limit(AT_ONCE)
        )
        passed = unit.session.execute(query).all()
    return one_by_one(passed, lambda row: _record_one(units, row))


def _record_one(units: Units, row: Row[str, str]) -> bool:
    occurrence_id, organization_id = row
    with units.open(Caller(organization_id, SYSTEM, "system")) as unit:
        return record(unit, occurrence_id)


def record(unit: Unit, occurrence_id: str) -> bool:
    """Record that an occurrence has passed; False when somebody else has settled it, or is about to."""
    found = lock_unsettled(unit, occurrence_id)
    if found is None:
        return False
    occurrence, schedule = found
    occurrence.missed_at = unit.now
    unit.audit("occurrence.missed", alerts.subject(schedule), **alerts.window(occurrence))
    if schedule.enabled and schedule.deleted_at is None:
        raise_item(unit, alerts.missed(unit, schedule, occurrence))
    return True


def clear_what_is_over(units: Units) -> bool:
    """Close, once an hour, items of windows that passed long ago, or whose schedule is not there or not enabled."""
    with units.open(JOB) as unit:
        if not take(unit, "past_windows", timedelta(hours=1)):
            return False
        types = [alerts.MISSED, alerts.WITHOUT_TARGETS]
        unit.session.execute(_OVER, {"now": unit.now, "before": unit.now - SHOWN, "types": types})
    return True
