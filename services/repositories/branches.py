"""Watched branches as clients see them: list, show, change settings. Watching itself is in `watches.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from models.checks import mark_dirty
from models.queries import covering_freezes, is_frozen
from models.repositories import Repository, WatchedBranch
from services.core.lookups import get_branch
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.repositories.repositories import get_visible
from services.verdicts.blocking import blocking_of_branches, shown_blocking
from services.verdicts.lights import NEVER_VERIFIED, EnforcementStatus, statuses


@dataclass(frozen=True, slots=True)
class BranchFilters:
    """Filters of a list of watched branches; None means any."""

    repo: str | None = None
    frozen: bool | None = None


def list_branches(
    uow: UnitOfWork, filters: BranchFilters, cursor: str | None, limit: int, *, operation: str = "list_branches"
) -> Page:
    """Return a page of watched branches, last watched first.

    `operation` is the one that its cursors belong to. Raise `repository_not_found`.
    """
    query = _visible_branches(uow)
    if filters.repo is not None:
        query = query.where(WatchedBranch.repository_id == get_visible(uow, filters.repo).id)
    if filters.frozen is not None:
        frozen = is_frozen(uow.session, uow.organization, uow.now)
        query = query.where(frozen if filters.frozen else ~frozen)
    keys = (WatchedBranch.created_at, WatchedBranch.id)
    page = page_of(uow, operation, filters, query, keys, cursor=cursor, limit=limit)
    return Page(views(uow, page.data), page.next_cursor)


def _visible_branches(uow: UnitOfWork) -> Select[WatchedBranch]:
    return (
        select(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(
            WatchedBranch.organization_id == uow.organization,
            WatchedBranch.unwatched_at.is_(None),
            Repository.removed_at.is_(None),
        )
    )


def show(uow: UnitOfWork, branch_id: str) -> dict[str, Any]:
    """Return a watched branch. Raise `branch_not_found`."""
    return view(uow, get_branch(uow, branch_id))


def view(uow: UnitOfWork, branch: WatchedBranch) -> dict[str, Any]:
    """Return a watched branch as in the API."""
    return views(uow, [branch])[0]


def views(uow: UnitOfWork, branches: Sequence[WatchedBranch]) -> list[dict[str, Any]]:
    """Return watched branches as in the API; one query each for freezes, repositories, enforcement and blocking."""
    freezes = covering_freezes(uow.session, [branch.id for branch in branches], uow.now)
    ids = {branch.repository_id for branch in branches}
    rows = uow.session.scalars(select(Repository).where(Repository.id.in_(ids))) if ids else ()
    names = {repository.id: repository.full_name for repository in rows}
    known = statuses(uow, [branch.id for branch in branches])
    blocking = blocking_of_branches(uow.session, list(freezes), uow.now)
    return [
        _view(
            branch,
            names[branch.repository_id],
            [freeze.id for freeze in freezes.get(branch.id, ())],
            known.get(branch.id, NEVER_VERIFIED),
            shown_blocking(blocking.get(branch.id)),
        )
        for branch in branches
    ]


def _view(
    branch: WatchedBranch,
    repository: str,
    freeze_ids: list[str],
    known: EnforcementStatus,
    blocking: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "id": branch.id,
        "repository_id": branch.repository_id,
        "repository": repository,
        "name": branch.name,
        "frozen": bool(freeze_ids),
        "freeze_ids": freeze_ids,
        "blocking": blocking,
        "check_name": branch.check_name,
        "enforcement": known,
        "settings": {"exceptions_allowed": branch.exceptions_allowed},
        "created_at": branch.created_at,
    }


def update(uow: UnitOfWork, branch_id: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Change a branch's settings and have its checks updated. Raise `branch_not_found`."""
    branch = get_branch(uow, branch_id, lock=True)
    before = branch.exceptions_allowed
    after = settings.get("exceptionsAllowed", before)
    if after != before:
        branch.exceptions_allowed = after
        mark_dirty(uow.session, [branch.id], uow.now)
        uow.wake("reconcile")
    shown = view(uow, branch)
    if after != before:
        uow.audit(
            "branch.updated",
            ("branch", branch.id, f"{shown['repository']}:{branch.name}"),
            before={"exceptionsAllowed": before},
            after={"exceptionsAllowed": after},
        )
    return shown
