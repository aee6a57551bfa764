"""The open pull requests that freezes forbid to merge: of the organisation, a freeze, a repository or a branch.

Their verdict is no column. It can only be `blocked` where a freeze covers the branch, or where the check of its pattern
protects a frozen branch without a rule of its own: pull requests into such branches are read, in the order of
repository, branch and number, and those with another verdict are left out. A page costs what is frozen, not what is
stored, and besides as many pull requests as exceptions let in.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, text, tuple_

from models.due_windows import branches_of_due, find_due
from models.freezes import FreezeTarget
from models.queries import any_of, frozen_branches, unprotected_branches
from models.repositories import WatchedBranch
from services.core.lookups import get_branch, get_freeze
from services.core.pagination import Page, read_cursor, sign_cursor
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.pull_request_facts import read_verdict_facts
from services.pull_requests.views import views
from services.repositories.repositories import get_visible
from services.repositories.tracked_pull_requests import TrackedPullRequest, tracked

_OPERATION = "list_forbidden_pull_requests"
BATCH_SIZE = 50
"""Pull requests read at a time, at least."""
_OPEN = text("""
    SELECT p.id, b.repository_id, b.name, p.number
    FROM watched_branches b CROSS JOIN LATERAL (
        SELECT id, number FROM pull_requests
        WHERE repository_id = b.repository_id AND base_branch = b.name AND state = 'open'
          AND (b.repository_id, b.name, number) > (:repository, :branch, :number)
        ORDER BY number) p
    WHERE b.id = ANY(:branches) AND (b.repository_id, b.name) >= (:repository, :branch)
    ORDER BY b.repository_id, b.name, p.number LIMIT :size
""")
_FIRST: tuple[str, str, int] = ("", "", 0)


@dataclass(frozen=True, slots=True)
class ForbiddenFilters:
    """Which pull requests a list shows; None: any."""

    freeze_id: str | None = None
    repo: str | None = None
    branch_id: str | None = None


def list_forbidden(uow: UnitOfWork, filters: ForbiddenFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of the open pull requests that freezes forbid to merge, by repository, branch and number.

    Raise `freeze_not_found`, `repository_not_found`, `branch_not_found`.
    """
    secrets, bound = uow.ports[CursorSecret].accepted, (_OPERATION, uow.organization, filters)
    position = _FIRST if cursor is None else read_cursor(secrets, bound, cursor)
    branch_ids = _branches(uow, filters)
    size = max(limit + 1, BATCH_SIZE)
    found: list[tuple[tuple[Any, ...], TrackedPullRequest]] = []
    while len(found) <= limit:
        names = dict(zip(("repository", "branch", "number"), position, strict=True))
        rows = uow.session.execute(_OPEN, {"branches": branch_ids, "size": size, **names}).all()
        by_id = {row.pull.id: row for row in tracked(uow, [row.id for row in rows])}
        ordered = [by_id[row.id] for row in rows if row.id in by_id]
        places = {row.id: tuple(row)[1:] for row in rows}
        found += [(places[row.pull.id], row) for row in _forbidden(uow, ordered)]
        if len(rows) < size:
            break
        position = tuple(rows[-1])[1:]
    more = len(found) > limit
    shown = found[:limit]
    data = views(uow, [row for _, row in shown])
    return Page(data, sign_cursor(secrets, bound, shown[-1][0]) if more else None)


def _forbidden(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> list[TrackedPullRequest]:
    """Return those of open pull requests whose verdict is `blocked`, in their order."""
    facts = read_verdict_facts(uow, rows)
    return [row for row in rows if facts.deciding_verdict(row).blocking]


def _branches(uow: UnitOfWork, filters: ForbiddenFilters) -> list[str]:
    """Return the ids of the branches into which pull requests can be forbidden."""
    frozen = _frozen(uow, filters.freeze_id)
    found = frozen | _closed_by_pattern(uow, frozen)
    if filters.branch_id is not None:
        found &= {get_branch(uow, filters.branch_id).id}
    if filters.repo is not None:
        repository = get_visible(uow, filters.repo)
        found &= set(uow.session.scalars(select(WatchedBranch.id).where(WatchedBranch.repository_id == repository.id)))
    return sorted(found)


def _frozen(uow: UnitOfWork, freeze_id: str | None) -> set[str]:
    """Return the ids of the branches that are frozen; of one freeze, those that it covers while it is in force."""
    if freeze_id is None:
        frozen = set(uow.session.scalars(frozen_branches(uow.organization, uow.now)))
        return frozen | branches_of_due(uow.session, uow.organization, uow.now)
    freeze = get_freeze(uow, freeze_id)
    if not freeze.begun:
        due = find_due(uow.session, uow.organization, freeze_id, uow.now)
        return set(due[1]) if due else set()
    if not freeze.is_in_force(uow.now):
        return set()
    return set(uow.session.scalars(select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id)))


def _closed_by_pattern(uow: UnitOfWork, frozen: Collection[str]) -> set[str]:
    """Return the ids of the branches that share the check of a pattern with a frozen one without a rule of its own."""
    pattern = (WatchedBranch.repository_id, WatchedBranch.pattern_check_name)
    of_frozen = (WatchedBranch.id == any_of(frozen), WatchedBranch.pattern_check_name.is_not(None))
    pairs = [(row[0], str(row[1])) for row in uow.session.execute(select(*pattern).where(*of_frozen).distinct())]
    unprotected = unprotected_branches(uow.session, pairs)
    closed = {(each.repository_id, each.pattern_check_name) for each in unprotected if each.branch_id in frozen}
    if not closed:
        return set()
    return set(uow.session.scalars(select(WatchedBranch.id).where(tuple_(*pattern).in_(closed))))
