"""Looking, some minutes before a window begins, whether it will block: in time for somebody to mend what would not.

The rules of its branches are probed anew once; what is then found is compared now and then until the window is over,
so that the item clears by itself when the branches block, and comes back when they cease to.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Row, and_, func, select, union

from models.attention import AttentionItem
from models.freezes import Freeze
from models.schedules import Occurrence, Schedule
from rules.access.permissions import SYSTEM
from rules.freezes.scope import BranchFact
from services.alerts.alerts import open_alert, resolve_alert
from services.core.batch import acquire_periodic, for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement_status.probe_requests import schedule_probes
from services.enforcement_status.status import EnforcementStatus, statuses
from services.freezes.scopes import resolve
from services.schedules import alerts
from services.schedules.beginning import lock_planned
from services.schedules.occurrence_views import state_of
from services.schedules.sweeping import for_each

AHEAD = timedelta(minutes=10)
"""How long before it begins a window is looked at: long enough to mend a rule, and not yet forgotten when it begins."""
ANSWERED = timedelta(minutes=2)
"""How long a probe that was asked for may take before what is known without it counts."""
LOOK_EVERY = timedelta(seconds=30)


def verify_windows(uow_factory: UnitOfWorkFactory) -> int:
    """Ask for probes of what the windows of the next minutes reach, once for each; returns for how many."""
    return for_each(uow_factory, _is_coming, _verify)


def _is_coming(now: datetime) -> ColumnElement[bool]:
    soon = and_(Occurrence.starts_at > now, Occurrence.starts_at <= now + AHEAD)
    return and_(Occurrence.is_planned(now), soon, Occurrence.verified_at.is_(None))


def _verify(uow: UnitOfWork, occurrence_id: str) -> bool:
    found = lock_planned(uow, occurrence_id)
    if found is None:
        return False
    occurrence, schedule = found
    schedule_probes(uow, resolve(uow, schedule.scope, stored=True).ids)
    occurrence.verified_at = uow.now
    return True


def compare_windows(uow_factory: UnitOfWorkFactory) -> bool:
    """Raise and clear the items of windows that would not block, or do not; every half minute."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "compare_windows", LOOK_EVERY):
            return False
        coming = select(Occurrence.id, Occurrence.organization_id).where(
            Occurrence.is_planned(uow.now), Occurrence.verified_at.is_not(None), Occurrence.starts_at <= uow.now + AHEAD
        )
        told = select(func.split_part(AttentionItem.key, " ", 2), AttentionItem.organization_id).where(
            AttentionItem.type == alerts.NOT_ENFORCED, AttentionItem.cleared_at.is_(None)
        )
        concerned = uow.session.execute(union(coming, told)).all()
    for_each_isolated(concerned, lambda row: _compare_one(uow_factory, row))
    return True


def _compare_one(uow_factory: UnitOfWorkFactory, row: Row[str, str]) -> bool:
    occurrence_id, organization_id = row
    with uow_factory.open(Caller(organization_id, SYSTEM, "system")) as uow:
        compare(uow, occurrence_id)
    return True


def compare(uow: UnitOfWork, occurrence_id: str) -> None:
    """Raise the item of a window that would not block, or does not; clear it where all is well, or the window over."""
    row = uow.session.execute(
        select(Occurrence, Schedule, Freeze)
        .join(Schedule, Schedule.id == Occurrence.schedule_id)
        .outerjoin(Freeze, Freeze.id == Occurrence.freeze_id)
        .where(Occurrence.id == occurrence_id)
    ).one_or_none()
    asked_at = _asked_at(*row, uow.now) if row is not None else None
    if row is not None and asked_at is not None:
        occurrence, schedule, _freeze = row
        reached = resolve(uow, schedule.scope, stored=True)
        known = statuses(uow, reached.ids)
        red = list(_not_blocking(reached.branches, known, asked_at, uow.now))
        if red:
            open_alert(uow, alerts.not_enforced(uow, schedule, occurrence, red, len(reached.branches)))
            return
    resolve_alert(uow, alerts.key_of_not_enforced(occurrence_id))


def _asked_at(occurrence: Occurrence, schedule: Schedule, freeze: Freeze | None, now: datetime) -> datetime | None:
    """Return when probes for a window that is to come, or in force, were asked for; None where it matters no more."""
    state = state_of(occurrence, freeze, now)
    coming = state == "planned" and schedule.enabled and schedule.deleted_at is None
    return occurrence.verified_at if coming or state == "active" else None


def _not_blocking(
    reached: Sequence[BranchFact], known: Mapping[str, EnforcementStatus], asked_at: datetime, now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield the branches that are not known to block: `owner/name` and branch."""
    answered = now >= asked_at + ANSWERED
    for fact in reached:
        light = known.get(fact.branch_id)
        fresh = light is not None and light.last_verified_at is not None and light.last_verified_at >= asked_at
        if (fresh or answered) and (light is None or light.light == "red"):
            yield fact.repository, fact.branch
