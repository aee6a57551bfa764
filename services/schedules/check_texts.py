"""Texts of checks that a changed schedule makes outdated.

A blocked check says until when its branch stays frozen, also by windows that follow. So a change of planned windows
makes branches due. To spare GitHub's budget, these are only branches that are frozen until a time, have an open pull
request, and are covered by a changed window that begins before they could be free. What their checks say is left to
the reconciler, which writes only texts that differ. A window that is due freezes already, so all branches of its scope
become due with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select

from models.checks import mark_dirty
from models.due_windows import due_of_organization
from models.freezes import Freeze, FreezeTarget
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import resolve

MAX_WINDOWS = 1000
"""Planned windows that are read to find out until when branches may stay frozen."""
_NEVER = datetime.max.replace(tzinfo=UTC)

Windows = frozenset[tuple[datetime, datetime]]


@dataclass(frozen=True, slots=True)
class PlannedFreezes:
    """What a schedule will freeze: its scope, and the starts and ends of its planned windows that have not begun."""

    scope: Mapping[str, Any]
    windows: Windows = frozenset()
    """Those to come."""
    due: frozenset[tuple[datetime, datetime, str, str | None, bool]] = frozenset()
    """Those that are due, which freeze already, with reason, public text, and whether exceptions are allowed."""


def planned_freezes_of(uow: UnitOfWork, schedule: Schedule) -> PlannedFreezes:
    """Return what a schedule will freeze as it is now in this transaction."""
    planned = (Occurrence.schedule_id == schedule.id, Occurrence.is_planned(uow.now))
    rows = uow.session.execute(select(Occurrence.starts_at, Occurrence.ends_at).where(*planned)).all()
    coming = frozenset((start, end) for start, end in rows if start > uow.now)
    terms = (schedule.reason, schedule.public_text, schedule.exceptions_allowed)
    due = frozenset((start, end, *terms) for start, end in rows if start <= uow.now and schedule.is_running)
    return PlannedFreezes(schedule.scope, coming, due)


def refresh_texts(uow: UnitOfWork, before: PlannedFreezes, after: PlannedFreezes) -> None:
    """Make the branches due whose checks may name another time after a change of a schedule."""
    mark_texts_outdated(uow, branches_with_outdated_text(uow, before, after))


def refresh_all_texts(uow: UnitOfWork) -> None:
    """Make all branches due whose checks name a time, after a change of many schedules."""
    mark_texts_outdated(uow, sorted(_frozen_until(uow)))


def mark_texts_outdated(uow: UnitOfWork, branch_ids: Sequence[str]) -> None:
    """Make branches due whose checks may name another time, or have another verdict."""
    if branch_ids:
        mark_dirty(uow.session, branch_ids, uow.now)
        uow.wake("reconcile")


def branches_with_outdated_text(uow: UnitOfWork, before: PlannedFreezes, after: PlannedFreezes) -> list[str]:
    """Return the ids of the branches whose checks may name another time after a change of a schedule."""
    found = _changed_by_due(uow, before, after)
    changed = _changed(before, after)
    frozen = _frozen_until(uow) if changed else {}
    if not frozen:
        return sorted(found)
    windows = _windows_from_now(uow, {*before.windows, *after.windows})
    ends = {end: _free_at(end, windows) for end in set(frozen.values())}
    for one in changed:
        first = min(start for start, _ in one.windows)
        if any(first <= end for end in ends.values()):
            covered = resolve(uow, dict(one.scope), stored=True).ids
            found.update(branch_id for branch_id in covered if branch_id in frozen and first <= ends[frozen[branch_id]])
    return sorted(found)


def _changed_by_due(uow: UnitOfWork, before: PlannedFreezes, after: PlannedFreezes) -> set[str]:
    """Return the ids of the branches whose verdict may change with the due windows of a schedule."""
    if (before.due, before.scope) == (after.due, after.scope):
        return set()
    changed = [one for one in (before, after) if one.due]
    return {branch_id for one in changed for branch_id in _branches_in(uow, one.scope)}


def mark_scope_outdated(uow: UnitOfWork, scope: Mapping[str, Any]) -> None:
    """Make the branches in the scope of a window due that counted as frozen and does not any more."""
    mark_texts_outdated(uow, _branches_in(uow, scope))


def _branches_in(uow: UnitOfWork, scope: Mapping[str, Any]) -> list[str]:
    """Return the ids of the branches in the scope of a schedule; one that cannot be read reaches nothing."""
    try:
        return resolve(uow, dict(scope), stored=True).ids
    except ServiceError:
        return []


def _changed(before: PlannedFreezes, after: PlannedFreezes) -> list[PlannedFreezes]:
    """Return the windows that are planned in one of the two only, by scope."""
    if before.scope == after.scope:
        changed = [PlannedFreezes(after.scope, before.windows ^ after.windows)]
    else:
        changed = [before, after]
    return [one for one in changed if one.windows]


def _frozen_until(uow: UnitOfWork) -> dict[str, datetime]:
    """Return when the last freeze in force that has an end ends, for each branch with an open pull request, by id.

    Branches that due windows cover are among them, with and without pull requests.
    """
    is_open = select(PullRequest.id).where(
        PullRequest.repository_id == WatchedBranch.repository_id,
        PullRequest.base_branch == WatchedBranch.name,
        PullRequest.state == "open",
    )
    query = (
        select(FreezeTarget.branch_id, func.max(Freeze.ends_at))
        .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .where(
            Freeze.organization_id == uow.organization,
            Freeze.is_in_force(uow.now),
            Freeze.ends_at.is_not(None),
            FreezeTarget.operation == "apply",
            is_open.exists(),
        )
        .group_by(FreezeTarget.branch_id)
    )
    found = {branch_id: end for branch_id, end in uow.session.execute(query) if end is not None}
    for window, branch_ids in due_of_organization(uow.session, uow.organization, uow.now):
        found |= {branch_id: max(found.get(branch_id, window.ends_at), window.ends_at) for branch_id in branch_ids}
    return found


def _windows_from_now(uow: UnitOfWork, more: set[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Return the organisation's planned windows that have not begun, and others, by start."""
    query = (
        select(Occurrence.starts_at, Occurrence.ends_at)
        .where(Occurrence.organization_id == uow.organization, Occurrence.is_unsettled, Occurrence.starts_at > uow.now)
        .order_by(Occurrence.starts_at)
        .limit(MAX_WINDOWS)
    )
    rows = [(start, end) for start, end in uow.session.execute(query)]
    if len(rows) == MAX_WINDOWS:
        more = {*more, (rows[-1][0], _NEVER)}
    return sorted({*rows, *more})


def _free_at(end: datetime, windows: list[tuple[datetime, datetime]]) -> datetime:
    """Return until when at most a branch stays frozen whose freezes end at a time, whatever windows cover it."""
    for starts_at, ends_at in windows:
        if starts_at > end:
            break
        end = max(end, ends_at)
    return end
