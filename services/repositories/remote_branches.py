"""The branches of a repository as GitHub currently lists them, and which of them are watched.

A list is cached for 60 seconds in PostgreSQL, not in the process: so all processes return the same list, and GitHub is
asked once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from integrations.github import InstallationClient
from models.repositories import RemoteBranchList, Repository, WatchedBranch
from rules.errors import ServiceError
from services.core.pagination import read_cursor, sign_cursor
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork
from services.github_access import client as github_client
from services.repositories.repositories import get_visible

CACHE_LIFETIME = timedelta(seconds=60)
RESERVE = 0.1
"""Share of the hourly rate limit that is reserved for writing verdicts."""


def list_remote_branches(uow: UnitOfWork, reference: str, cursor: str | None, limit: int) -> dict[str, Any]:
    """Return a page of a repository's branches by name, at most 60 seconds old.

    Raise `repository_not_found`, GitHub's own errors, and `github_rate_limited` if the reserve is reached or GitHub
    asked us to wait.
    """
    repository = get_visible(uow, reference)
    secrets, bound = uow.ports[CursorSecret].accepted, ("list_remote_branches", uow.organization, repository.id)
    after = "" if cursor is None else read_cursor(secrets, bound, cursor)[0]
    branches, fetched_at = _cached(uow, repository) or _fetch(uow, repository)
    page = [branch for branch in branches if branch["name"] > after][: limit + 1]
    more = len(page) > limit
    return {
        "data": _with_watched(uow, repository, page[:limit]),
        "next_cursor": sign_cursor(secrets, bound, [page[limit - 1]["name"]]) if more else None,
        "fetched_at": fetched_at,
    }


def _cached(uow: UnitOfWork, repository: Repository) -> tuple[list[dict[str, Any]], datetime] | None:
    row = uow.session.get(RemoteBranchList, repository.id)
    return (row.branches, row.fetched_at) if row is not None and uow.now < row.fetched_at + CACHE_LIFETIME else None


def _fetch(uow: UnitOfWork, repository: Repository) -> tuple[list[dict[str, Any]], datetime]:
    """Fetch the list from GitHub; this holds the unit's database connection, but no lock."""
    client = github_client.client_of(uow, repository.installation_id)
    _require_budget(uow, client)
    listed = client.branches(repository.owner, repository.name)
    branches = [
        {"name": branch.name, "sha": branch.sha, "protected": branch.protected}
        for branch in sorted(listed, key=lambda branch: branch.name)
    ]
    if uow.actor.type != "support":  # read-only transaction
        _cache(uow, repository, branches)
    return branches, uow.now


def _require_budget(uow: UnitOfWork, client: InstallationClient) -> None:
    allowance = client.budget.rest
    if allowance.remaining is None or not allowance.limit or allowance.reset_at is None:
        return
    wait = allowance.reset_at - uow.now.timestamp()
    if wait > 0 and allowance.remaining < RESERVE * allowance.limit:
        message = "The remaining GitHub rate limit is reserved for freezes. Try again later."
        raise ServiceError("github_rate_limited", message, retry_after=wait)


def _cache(uow: UnitOfWork, repository: Repository, branches: list[dict[str, Any]]) -> None:
    new = insert(RemoteBranchList).values(
        repository_id=repository.id, organization_id=uow.organization, fetched_at=uow.now, branches=branches
    )
    replaced = {"fetched_at": new.excluded.fetched_at, "branches": new.excluded.branches}
    newer = RemoteBranchList.fetched_at < new.excluded.fetched_at
    uow.session.execute(new.on_conflict_do_update(index_elements=["repository_id"], set_=replaced, where=newer))


def _with_watched(uow: UnitOfWork, repository: Repository, branches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = uow.session.execute(
        select(WatchedBranch.name, WatchedBranch.id).where(
            WatchedBranch.repository_id == repository.id,
            WatchedBranch.unwatched_at.is_(None),
            WatchedBranch.name.in_([branch["name"] for branch in branches]),
        )
    )
    ids: dict[str, str] = {name: branch_id for name, branch_id in rows}  # noqa: C416 - rows are not pairs to a type checker
    return [{**branch, "watched": branch["name"] in ids, "branch_id": ids.get(branch["name"])} for branch in branches]
