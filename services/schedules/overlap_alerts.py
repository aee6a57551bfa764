"""Alerts for overlaps that arise after schedules were saved.

They arise when a branch is watched that both scopes cover, when a window more than 400 days ahead comes near, or when
the clocks of a time zone are changed. Freezes compose, so nothing is rejected. Schedules are compared in turns, a few
per sweep, so that due windows never wait. Of two overlapping schedules the later one has the alert. An overlap that one
of them allows is intended and has no alert.
"""

from datetime import timedelta

from sqlalchemy import not_, or_, select, text

from models.organizations import Organization
from models.schedules import COMPARED, Schedule
from services.alerts.alerts import Alert, open_alert, resolve_alert
from services.core.batch import for_each_in_organization
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.schedules import alerts
from services.schedules.overlaps import Overlaps, format_minute, overlaps_of

TYPE = "schedules_overlap"
RECHECK_INTERVAL = timedelta(minutes=15)
MAX_COMPARED = 5

_GONE = text(f"""
    UPDATE attention_items a SET cleared_at = :now WHERE a.cleared_at IS NULL AND a.type = :type
    AND NOT EXISTS (SELECT FROM schedules s WHERE s.id = a.subject ->> 'id' AND {COMPARED})
""")  # noqa: S608 - a constant


def find_overlaps(uow_factory: UnitOfWorkFactory) -> int:
    """Compare the next schedules with earlier ones, each in its own unit of work; return their number."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        uow.session.execute(_GONE, {"now": uow.now, "type": TYPE})
        waiting = or_(
            Schedule.overlaps_checked_at.is_(None), Schedule.overlaps_checked_at <= uow.now - RECHECK_INTERVAL
        )
        query = (
            select(Schedule)
            .join(Organization, Organization.id == Schedule.organization_id)
            .where(Schedule.is_compared)
            .where(waiting, Organization.deleted_at.is_(None))
            .order_by(Schedule.overlaps_checked_at.nulls_first())
            .limit(MAX_COMPARED)
            .with_for_update(of=Schedule, key_share=True, skip_locked=True)
        )
        turn = uow.session.scalars(query).all()
        for schedule in turn:
            schedule.overlaps_checked_at = uow.now
    return for_each_in_organization(uow_factory, [(row.id, row.organization_id) for row in turn], _compare)


def _compare(uow: UnitOfWork, schedule_id: str) -> bool:
    schedule = uow.session.get_one(Schedule, schedule_id)
    found = overlaps_of(uow, schedule, Schedule.id < schedule.id, not_(Schedule.allow_overlap))
    if found.count:
        open_alert(uow, _alert(uow, schedule, found))
    else:
        resolve_alert(uow, _key(schedule))
    return True


def _key(schedule: Schedule) -> str:
    return f"{TYPE} {schedule.id}"


def _alert(uow: UnitOfWork, schedule: Schedule, found: Overlaps) -> Alert:
    first = found.named[0]
    more = f" and {found.count - 1} more" if found.count > 1 else ""
    message = (
        f"Windows of {schedule.name} overlap with those of {first.schedule_name}{more} from "
        f"{format_minute(first.first_overlap_at)} on, on branches that both freeze. They stay frozen until the "
        "last window ends. Change one of the schedules, or allow the overlap."
    )
    return Alert(_key(schedule), TYPE, "info", alerts.subject(schedule), message, alerts.action_of(uow, schedule))
