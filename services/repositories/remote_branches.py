"""Branches as the code host lists them at this moment, and which of them are watched.

A list is kept for 60 seconds in PostgreSQL rather than in the process: it then holds for all processes together, so
that a client sees one list whichever process answers, and the code host is asked once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from integrations.github import InstallationClient
from models.repositories import RemoteBranchList, Repository, WatchedBranch
from rules.errors import ServiceError
from services.core.pagination import open_cursor, sign_cursor
from services.core.unit_of_work import Unit
from services.github_access import client as codehost
from services.repositories.repositories import visible

KEPT = timedelta(seconds=60)
RESERVE = 0.1
"""Share of the hourly allowance that is left to the writing of verdicts."""


def list_remote_branches(unit: Unit, reference: str, cursor: str | None, limit: int) -> dict[str, Any]:
    """Return a page of a repository's branches by name, at most 60 seconds old.

    Raises `repository_not_found`, what the code host answers, and `github_rate_limited` to keep a reserve, or while the
    code host wants quiet.
    """
    repository = visible(unit, reference)
    secret, bound = unit.surroundings.cursor_secret, ("list_remote_branches", unit.organization, repository.id)
    after = "" if cursor is None else open_cursor(secret, bound, cursor)[0]
    branches, fetched_at = _kept(unit, repository) or _fetched(unit, repository)
    page = [branch for branch in branches if branch["name"] > after][: limit + 1]
    more = len(page) > limit
    return {
        "data": _views(unit, repository, page[:limit]),
        "next_cursor": sign_cursor(secret, bound, [page[limit - 1]["name"]]) if more else None,
        "fetched_at": fetched_at,
    }


def _kept(unit: Unit, repository: Repository) -> tuple[list[dict[str, Any]], datetime] | None:
    row = unit.session.get(RemoteBranchList, repository.id)
    return (row.branches, row.fetched_at) if row is not None and unit.now < row.fetched_at + KEPT else None


def _fetched(unit: Unit, repository: Repository) -> tuple[list[dict[str, Any]], datetime]:
    """Ask the code host; this unit's database connection is held for the length of the call, but no lock."""
    client = codehost.client_of(unit, repository.installation_id)
    _require_budget(unit, client)
    listed = client.branches(repository.owner, repository.name)
    branches = [
        {"name": branch.name, "sha": branch.sha, "protected": branch.protected}
        for branch in sorted(listed, key=lambda branch: branch.name)
    ]
    if unit.actor.type != "support":  # whose transactions cannot write
        _keep(unit, repository, branches)
    return branches, unit.now


def _require_budget(unit: Unit, client: InstallationClient) -> None:
    allowance = client.budget.rest
    if allowance.remaining is None or not allowance.limit or allowance.reset_at is None:
        return
    wait = allowance.reset_at - unit.now.timestamp()
    if wait > 0 and allowance.remaining < RESERVE * allowance.limit:
        message = "What is left of the code host's hourly allowance is kept for verdicts. Try again later."
        raise ServiceError("github_rate_limited", message, retry_after=wait)


def _keep(unit: Unit, repository: Repository, branches: list[dict[str, Any]]) -> None:
    new = insert(RemoteBranchList).values(
        repository_id=repository.id, organization_id=unit.organization, fetched_at=unit.now, branches=branches
    )
    replaced = {"fetched_at": new.excluded.fetched_at, "branches": new.excluded.branches}
    newer = RemoteBranchList.fetched_at < new.excluded.fetched_at
    unit.session.execute(new.on_conflict_do_update(index_elements=["repository_id"], set_=replaced, where=newer))


def _views(unit: Unit, repository: Repository, branches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = unit.session.execute(
        select(WatchedBranch.name, WatchedBranch.id).where(
            WatchedBranch.repository_id == repository.id,
            WatchedBranch.unwatched_at.is_(None),
            WatchedBranch.name.in_([branch["name"] for branch in branches]),
        )
    )
    ids: dict[str, str] = {name: branch_id for name, branch_id in rows}  # noqa: C416 - rows are no pairs to a type checker
    return [{**branch, "watched": branch["name"] in ids, "branch_id": ids.get(branch["name"])} for branch in branches]
