"""Overlaps that arise after schedules were saved: an item asks for attention until they have gone.

A branch is watched that both scopes reach, a window that lay more than 400 days ahead comes near, the clocks of a zone
are changed. Nobody is at fault, and freezes compose, so nothing is refused. Schedules take turns in being compared,
some in each sweep, so that windows that are due never wait for it. Of two that collide the later one has the item.
What one of them allows is meant, and needs no attention.
"""

from datetime import timedelta

from sqlalchemy import not_, or_, select, text

from models.organizations import Organization
from models.schedules import COMPARED, Schedule
from rules.access.permissions import SYSTEM
from services.alerts.alerts import Alert, open_alert, resolve_alert
from services.core.batch import for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.schedules import alerts
from services.schedules.overlapping import Overlaps, overlaps_of, told

TYPE = "schedules_overlap"
AGAIN_AFTER = timedelta(minutes=15)
AT_ONCE = 5

_GONE = text(f"""
    UPDATE attention_items a SET cleared_at = :now WHERE a.cleared_at IS NULL AND a.type = :type
    AND NOT EXISTS (SELECT FROM schedules s WHERE s.id = a.subject ->> 'id' AND {COMPARED})
""")  # noqa: S608 - a constant


def look_for_overlaps(uow_factory: UnitOfWorkFactory) -> int:
    """Compare the schedules whose turn it is with earlier ones, each in a unit of its own; returns how many."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        uow.session.execute(_GONE, {"now": uow.now, "type": TYPE})
        waiting = or_(
            Schedule.overlaps_looked_for_at.is_(None), Schedule.overlaps_looked_for_at <= uow.now - AGAIN_AFTER
        )
        query = (
            select(Schedule)
            .join(Organization, Organization.id == Schedule.organization_id)
            .where(Schedule.is_compared)
            .where(waiting, Organization.deleted_at.is_(None))
            .order_by(Schedule.overlaps_looked_for_at.nulls_first())
            .limit(AT_ONCE)
            .with_for_update(of=Schedule, key_share=True, skip_locked=True)
        )
        turn = uow.session.scalars(query).all()
        for schedule in turn:
            schedule.overlaps_looked_for_at = uow.now
    return for_each_isolated(
        [(row.id, row.organization_id) for row in turn], lambda each: _look_one(uow_factory, *each)
    )


def _look_one(uow_factory: UnitOfWorkFactory, schedule_id: str, organization_id: str) -> bool:
    with uow_factory.open(Caller(organization_id, SYSTEM, "system")) as uow:
        schedule = uow.session.get_one(Schedule, schedule_id)
        found = overlaps_of(uow, schedule, Schedule.id < schedule.id, not_(Schedule.allow_overlap))
        if found.count:
            open_alert(uow, _item(uow, schedule, found))
        else:
            resolve_alert(uow, _key(schedule))
    return True


def _key(schedule: Schedule) -> str:
    return f"{TYPE} {schedule.id}"


def _item(uow: UnitOfWork, schedule: Schedule, found: Overlaps) -> Alert:
    first = found.named[0]
    more = f" and {found.count - 1} more" if found.count > 1 else ""
    message = (
        f"Windows of {schedule.name} overlap with those of {first.schedule_name}{more} from "
        f"{told(first.first_overlap_at)} on, on branches that both freeze. They stay frozen until the last one ends. "
        "Change one of them, or let one overlap (allowOverlap)."
    )
    return Alert(_key(schedule), TYPE, "info", alerts.subject(schedule), message, alerts.home(uow))
