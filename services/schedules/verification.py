"""Verification, some minutes before a window starts, that it will block, in time to fix what would not.

The rules of its branches are probed once more. The results are compared repeatedly until the window is over, so that
the alert resolves by itself when the branches block, and opens again when they cease to.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, select, union

from models.attention import AttentionItem
from models.freezes import Freeze
from models.schedules import Occurrence, Schedule
from rules.freezes.scope import FreezableBranch
from services.alerts.alerts import open_alert, resolve_alert
from services.core.batch import acquire_periodic, for_each_in_organization
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.enforcement_status.probe_requests import schedule_probes
from services.freezes.scopes import resolve
from services.schedules import alerts
from services.schedules.occurrence_start import lock_planned
from services.schedules.occurrence_sweep import for_each
from services.schedules.occurrence_views import state_of
from services.verdicts.lights import EnforcementStatus, statuses

LEAD_TIME = timedelta(minutes=10)
"""How long before its start a window is verified: enough time to fix a rule, and recent enough at the start."""
PROBE_TIMEOUT = timedelta(minutes=2)
"""How long a requested probe may take before the earlier result counts."""
COMPARE_INTERVAL = timedelta(seconds=30)


def verify_windows(uow_factory: UnitOfWorkFactory) -> int:
    """Request probes for the windows of the next minutes, once per window; return their number."""
    return for_each(uow_factory, _is_coming, _verify)


def _is_coming(now: datetime) -> ColumnElement[bool]:
    soon = and_(Occurrence.starts_at > now, Occurrence.starts_at <= now + LEAD_TIME)
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
    """Open and resolve the alerts of windows that do not block, every 30 seconds; True if it ran."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "compare_windows", COMPARE_INTERVAL):
            return False
        coming = select(Occurrence.id, Occurrence.organization_id).where(
            Occurrence.is_planned(uow.now),
            Occurrence.verified_at.is_not(None),
            Occurrence.starts_at <= uow.now + LEAD_TIME,
        )
        alerted = select(func.split_part(AttentionItem.key, " ", 2), AttentionItem.organization_id).where(
            AttentionItem.type == alerts.NOT_ENFORCED, AttentionItem.cleared_at.is_(None)
        )
        concerned = uow.session.execute(union(coming, alerted)).all()
    for_each_in_organization(uow_factory, concerned, compare)
    return True


def compare(uow: UnitOfWork, occurrence_id: str) -> None:
    """Open the alert of a window that does not block; resolve it if it blocks or is over."""
    row = uow.session.execute(
        select(Occurrence, Schedule, Freeze)
        .join(Schedule, Schedule.id == Occurrence.schedule_id)
        .outerjoin(Freeze, Freeze.id == Occurrence.freeze_id)
        .where(Occurrence.id == occurrence_id)
    ).one_or_none()
    probed_at = _probed_at(*row, uow.now) if row is not None else None
    if row is not None and probed_at is not None:
        occurrence, schedule, _freeze = row
        reached = resolve(uow, schedule.scope, stored=True)
        known = statuses(uow, reached.ids)
        red = list(_not_blocking(reached.branches, known, probed_at, uow.now))
        if red:
            open_alert(uow, alerts.not_enforced(uow, schedule, occurrence, red, len(reached.branches)))
            return
    resolve_alert(uow, alerts.key_of_not_enforced(occurrence_id))


def _probed_at(occurrence: Occurrence, schedule: Schedule, freeze: Freeze | None, now: datetime) -> datetime | None:
    """Return when probes of a planned or active window were requested; None if it is over or will not start."""
    state = state_of(occurrence, freeze, now)
    coming = state == "planned" and schedule.is_running
    return occurrence.verified_at if coming or state == "active" else None


def _not_blocking(
    reached: Sequence[FreezableBranch], known: Mapping[str, EnforcementStatus], probed_at: datetime, now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield the branches that are not known to block: `owner/name` and branch."""
    answered = now >= probed_at + PROBE_TIMEOUT
    for branch in reached:
        status = known.get(branch.branch_id)
        fresh = status is not None and status.last_verified_at is not None and status.last_verified_at >= probed_at
        if (fresh or answered) and (status is None or status.last_verified_at is None or status.light == "red"):
            yield branch.repository, branch.branch
