"""Starting the freezes of windows: when they are due, by hand, and before something else is done to them.

A due window counts as frozen from its start on, also while nothing begins it (`models.due_windows`). What changes its
freeze begins it first, in the same transaction, under the locks of the sweep: it begins once, whoever comes first.
"""

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta

from sqlalchemy import Row, select

from models.due_windows import due_of_organization, due_on_branches, find_due, may_start
from models.freezes import Freeze
from models.queries import lock_coverage
from models.schedules import Occurrence, Schedule
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.freezes.limits import FreezeLimits
from services.alerts.alerts import resolve_alerts
from services.alerts.past_windows import keys_of_past_windows, report_late
from services.core.lookups import find_freeze, get_freeze
from services.core.unit_of_work import UnitOfWork
from services.freezes.start import NewFreeze, start

LATE_AFTER = timedelta(seconds=1)
"""A window that starts this much after its time, or more, is late."""

LockedWindow = Row[Occurrence, Schedule]


def start_window(
    uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence, *, in_place_of: Freeze | None = None
) -> Freeze:
    """Start the freeze of a locked occurrence as the caller; it ends with its window, or as the one that it replaces.

    Raise `no_targets_in_scope`.
    """
    late_by = uow.now - (occurrence.due_at or occurrence.starts_at)
    is_late = late_by >= LATE_AFTER
    wanted = NewFreeze(
        schedule.scope,
        schedule.reason,
        occurrence.ends_at if in_place_of is None else in_place_of.ends_at,
        schedule.exceptions_allowed,
        schedule.public_text,
        exception_rules_allowed=schedule.exception_rules_allowed,
        source="schedule",
        schedule_id=schedule.id,
        occurrence_id=occurrence.id,
        seconds_late=int(late_by.total_seconds()) if is_late else None,
    )
    freeze = start(uow, wanted, max_targets=uow.ports[FreezeLimits].max_targets)
    occurrence.started_at, occurrence.freeze_id, occurrence.late = uow.now, freeze.id, is_late
    resolve_alerts(uow, keys_of_past_windows(schedule.id))
    report_late(uow, schedule, occurrence, late_by)
    return freeze


def lock_freeze(uow: UnitOfWork, freeze_id: str) -> Freeze:
    """Return a freeze, locked; the one of a due window begins first. Raise `freeze_not_found`."""
    freeze = find_freeze(uow, freeze_id, lock=True)
    if freeze is not None:
        return freeze
    due = find_due(uow.session, uow.organization, freeze_id, uow.now)
    begin_windows(uow, lock_windows(uow, [due[0].id] if due else []))
    return get_freeze(uow, freeze_id, lock=True)


def due_on_branch(uow: UnitOfWork, branch_id: str) -> list[str]:
    """Return the ids of the due windows that cover a branch."""
    found = due_on_branches(uow.session, [branch_id], uow.now)
    return [window.id for windows in found.values() for window in windows]


def due_in_organization(uow: UnitOfWork, schedule_id: str | None = None) -> list[str]:
    """Return the ids of the due windows of the organisation, or of one of its schedules."""
    found = due_of_organization(uow.session, uow.organization, uow.now)
    return [window.id for window, _branches in found if schedule_id in {None, window.schedule_id}]


def begin_due(
    uow: UnitOfWork, schedule: Schedule, unless: Callable[[Occurrence], bool] = lambda _occurrence: False
) -> list[Freeze]:
    """Begin the due windows of a schedule, unless a condition holds, and return their freezes."""
    due = lock_windows(uow, due_in_organization(uow, schedule.id))
    return begin_windows(uow, [window for window in due if not unless(window[0])])


def lock_windows(uow: UnitOfWork, occurrence_ids: Collection[str]) -> list[LockedWindow]:
    """Lock windows that are still due, with their schedules and the coverage, and return them.

    The caller locks freezes only afterwards. A window that a worker is starting is waited for, and left out.
    """
    if not occurrence_ids:
        return []
    wanted = Occurrence.id.in_(occurrence_ids)
    schedules = select(Occurrence.schedule_id).where(wanted)
    in_order = select(Schedule.id).where(Schedule.id.in_(schedules)).order_by(Schedule.id)
    uow.session.execute(in_order.with_for_update(key_share=True))
    uow.refresh_now()
    is_due = Occurrence.is_due(uow.now, Schedule.is_running, may_start(Occurrence.organization_id))
    due = select(Occurrence, Schedule).join(Schedule, Schedule.id == Occurrence.schedule_id).where(wanted, is_due)
    locking = due.order_by(Occurrence.starts_at, Occurrence.id).with_for_update(of=Occurrence, key_share=True)
    locked = uow.session.execute(locking.execution_options(populate_existing=True)).all()
    lock_coverage(uow.session, uow.organization, exclusive=False)
    return list(locked)


def begin_windows(uow: UnitOfWork, windows: Iterable[LockedWindow]) -> list[Freeze]:
    """Start the freezes of locked windows as their schedules, and return them.

    One whose scope reaches nothing any more is left to the sweep, which records that.
    """
    begun = []
    for occurrence, schedule in windows:
        actor = Actor("schedule", schedule.id, schedule.name)
        with uow.impersonate(actor=actor, source="schedule", claimed_by=None, connected_client=None):
            try:
                begun.append(start_window(uow, schedule, occurrence))
            except ServiceError as error:
                if error.code != "no_targets_in_scope":
                    raise
    return begun
