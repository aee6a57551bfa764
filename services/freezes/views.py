"""Showing freezes: one, or pages of them, as the contract's `Freeze` object."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import Select, func, select

from models.due_windows import due_of_organization, freeze_of
from models.freezes import Freeze, FreezeTarget
from models.queries import any_of, covering_freezes
from models.repositories import WatchedBranch
from rules.access.permissions import SYSTEM
from rules.freezes.blocking import BlockingCounts
from services.core.lookups import first_branches, get_branch, get_freeze, get_repository, require_schedule
from services.core.pagination import Page, merge_into_page, page_of
from services.core.ranges import require_range
from services.core.unit_of_work import UnitOfWork
from services.freezes.scope_names import named_scopes
from services.freezes.search import has_words, is_by, newest_of, overlapping, window_matches
from services.verdicts.blocking import blocking_of_branches, count_by_freeze, counts_shown, gaps_shown

MAX_LISTED = 100
"""Branches that are named as frozen by other freezes."""

TARGET_STATES = ("pending", "applied", "releasing", "released", "failed")


@dataclass(frozen=True, slots=True)
class FreezeFilters:
    """Which freezes a list shows; None: any."""

    state: str | None = None
    repo: str | None = None
    branch_id: str | None = None
    schedule_id: str | None = None
    source: str | None = None
    started_after: datetime | None = None
    started_before: datetime | None = None
    in_force_from: datetime | None = None
    in_force_to: datetime | None = None
    q: str | None = None
    person: str | None = None


def list_freezes(uow: UnitOfWork, filters: FreezeFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of freezes, the one that started last first; raise `invalid_parameter` for a reversed range."""
    require_range(filters.started_after, filters.started_before, ("startedAfter", "startedBefore"))
    require_range(filters.in_force_from, filters.in_force_to, ("inForceFrom", "inForceTo"))
    due = [] if filters.state == "ended" else _matching_due(uow, filters)
    query, keys = _filtered(uow, filters), (Freeze.started_at, Freeze.id)
    if filters.q is not None or filters.person is not None:
        row = newest_of(query)
        wanted = ([] if filters.q is None else [has_words(row, filters.q)]) + (
            [] if filters.person is None else [is_by(row, filters.person)]
        )
        query, keys = select(row).where(*wanted), (row.started_at, row.id)
    page = page_of(uow, "list_freezes", filters, query, keys, cursor=cursor, limit=limit)
    page = merge_into_page(uow, "list_freezes", filters, page, due, _key_of, cursor=cursor, limit=limit)
    return Page(views(uow, page.data), page.next_cursor)


def _key_of(freeze: Freeze) -> tuple[datetime, str]:
    return freeze.started_at, freeze.id


def _matching_due(uow: UnitOfWork, filters: FreezeFilters) -> list[Freeze]:
    """Return the freezes in force of due windows that have not begun."""
    due = due_of_organization(uow.session, uow.organization, uow.now)
    if not due or filters.source not in {None, "schedule"}:
        return []
    wanted = [set(uow.session.scalars(branches)) for branches in _covered_branches(uow, filters)]
    return [
        freeze_of(window, uow.organization)
        for window, branch_ids in due
        if filters.schedule_id in {None, window.schedule_id}
        and (filters.started_after is None or filters.started_after <= window.starts_at)
        and (filters.started_before is None or window.starts_at < filters.started_before)
        and not any(branches.isdisjoint(branch_ids) for branches in wanted)
        and window_matches(window, filters.q, filters.person, filters.in_force_from, filters.in_force_to)
    ]


def _filtered(uow: UnitOfWork, filters: FreezeFilters) -> Select[Freeze]:
    query = select(Freeze).where(Freeze.organization_id == uow.organization)
    if filters.state is not None:
        running = Freeze.is_in_force(uow.now)
        query = query.where(running if filters.state == "in_force" else ~running)
    if filters.schedule_id is not None:
        query = query.where(Freeze.schedule_id == require_schedule(uow, filters.schedule_id))
    if filters.source is not None:
        query = query.where(Freeze.source == filters.source)
    if filters.started_after is not None:
        query = query.where(Freeze.started_at >= filters.started_after)
    if filters.started_before is not None:
        query = query.where(Freeze.started_at < filters.started_before)
    if filters.in_force_from is not None or filters.in_force_to is not None:
        query = query.where(Freeze.id == any_of(overlapping(uow, filters.in_force_from, filters.in_force_to)))
    for branches in _covered_branches(uow, filters):
        query = query.where(Freeze.id.in_(select(FreezeTarget.freeze_id).where(FreezeTarget.branch_id.in_(branches))))
    return query


def _covered_branches(uow: UnitOfWork, filters: FreezeFilters) -> Iterator[Select[str]]:
    """Yield queries for branches, of each of which a freeze is to cover one.

    Raise `repository_not_found`, `branch_not_found`.
    """
    if filters.repo is not None:
        repository = get_repository(uow, filters.repo)
        yield select(WatchedBranch.id).where(WatchedBranch.repository_id == repository.id)
    if filters.branch_id is not None:
        yield select(WatchedBranch.id).where(WatchedBranch.id == get_branch(uow, filters.branch_id).id)


def show(uow: UnitOfWork, freeze_id: str) -> dict[str, Any]:
    """Return one freeze, ended or not. Raise `freeze_not_found`."""
    return view(uow, get_freeze(uow, freeze_id))


def view(uow: UnitOfWork, freeze: Freeze) -> dict[str, Any]:
    """Return the freeze with the counts of its targets."""
    return views(uow, [freeze])[0]


def view_with_others(uow: UnitOfWork, freeze: Freeze, name: str) -> dict[str, Any]:
    """Return one freeze as in the API, with those of its branches that other freezes cover."""
    targets = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id)
    branch_ids = uow.session.scalars(targets).all()
    return {**view(uow, freeze), **frozen_branches(uow, branch_ids, name, besides=freeze.id)}


def frozen_branches(uow: UnitOfWork, branch_ids: Collection[str], name: str, besides: str = "") -> dict[str, Any]:
    """Return, as the property `name`, the first of the branches that freezes cover, and as `<name>_count` how many do.

    The freeze `besides` does not count.
    """
    covering = covering_freezes(uow.session, branch_ids, uow.now, besides=besides)
    found = sorted(branch_id for branch_id, freezes in covering.items() if freezes)
    _, named = first_branches(uow, WatchedBranch.id == any_of(found[:MAX_LISTED]), MAX_LISTED)
    listed = [{**one, "freeze_ids": [freeze.id for freeze in covering[one["branch_id"]]]} for one in named]
    return {name: listed, f"{name}_count": len(found)}


def views(uow: UnitOfWork, freezes: Sequence[Freeze]) -> list[dict[str, Any]]:
    """Return the freezes with the counts of their targets, by as many queries however many freezes there are."""
    counts: dict[str, dict[str, int]] = {freeze.id: dict.fromkeys(TARGET_STATES, 0) for freeze in freezes}
    rows = uow.session.execute(
        select(FreezeTarget.freeze_id, FreezeTarget.state, func.count())
        .where(FreezeTarget.freeze_id == any_of(counts))
        .group_by(FreezeTarget.freeze_id, FreezeTarget.state)
    )
    for freeze_id, state, count in rows:
        counts[freeze_id][state] = count
    running = [freeze.id for freeze in freezes if freeze.is_in_force(uow.now)]
    targets = sum(sum(counts[freeze_id].values()) for freeze_id in running)
    blocking = count_by_freeze(uow.session, running, uow.now, targets=targets)
    if not all(freeze.begun for freeze in freezes):
        due = due_of_organization(uow.session, uow.organization, uow.now)
        shown = {window.freeze_id: branch_ids for window, branch_ids in due if window.freeze_id in counts}
        for freeze_id, branch_ids in shown.items():
            counts[freeze_id]["pending"] = len(branch_ids)
        blocking = {**blocking, **_count_due(uow, shown)}
    scopes = named_scopes(uow, [freeze.scope for freeze in freezes])
    return [
        _view(freeze, counts[freeze.id], blocking.get(freeze.id, BlockingCounts()), uow.now) | {"scope": scope}
        for freeze, scope in zip(freezes, scopes, strict=True)
    ]


def _count_due(uow: UnitOfWork, due: Mapping[str, Collection[str]]) -> Mapping[str, BlockingCounts]:
    """Return how many branches are blocked of each freeze of a due window that has not begun."""
    branch_ids = set(chain.from_iterable(due.values()))
    found = blocking_of_branches(uow.session, branch_ids, uow.now, due=branch_ids)
    each = {branch_id: (of.of_branch, of.late) for branch_id, of in found.items()}
    counts = {freeze_id: BlockingCounts() for freeze_id in due}
    for freeze_id, covered in due.items():
        for (blocking, late), branches in Counter(each[one] for one in covered if one in each).items():
            counts[freeze_id].add(blocking, branches, late=late)
    return counts


def _view(freeze: Freeze, counts: dict[str, int], blocking: BlockingCounts, now: datetime) -> dict[str, Any]:
    """Return a freeze; it is not shown as blocked or enforced while it is not, also before that is recorded."""
    shown = without_targets(freeze, now)
    if not blocking.is_blocked:
        shown["blocked_at"] = None
    if not blocking.is_enforced:
        shown["enforced_at"] = None
    shown["targets"] = {"total": sum(counts.values()), **counts, **counts_shown(blocking)}
    shown["gaps"] = gaps_shown(blocking)
    return shown


def without_targets(freeze: Freeze, now: datetime) -> dict[str, Any]:
    """Return the columns of a freeze, and its state; what depends on its targets is as it was recorded."""
    shown = {column.key: getattr(freeze, column.key) for column in Freeze.__table__.columns}
    running = freeze.is_in_force(now)
    if not running and freeze.ended_at is None:
        # Its end has come and is not recorded yet: the view shows already what the sweep will record.
        shown |= ended_by_time(freeze)
    return {**shown, "state": "in_force" if running else "ended"}


def ended_by_time(freeze: Freeze) -> dict[str, Any]:
    """Return what is recorded of a freeze that has ended by itself."""
    return {
        "ended_at": freeze.ends_at,
        "end_reason": "schedule_ended" if freeze.source == "schedule" else "expired",
        "ended_by": SYSTEM.as_json(),
    }
