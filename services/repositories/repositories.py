"""Repositories as clients see them: list, show, preview globs. Enabling is in `enablement.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Select, func, select

from models.queries import is_frozen
from models.repositories import Repository, WatchedBranch
from rules.errors import Detail, ServiceError
from rules.freezes.globs import compile_globs
from services.core.lookups import find_repositories, get_repository
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.verdicts.lights import LightCounts, lights_of_repositories

MAX_PREVIEWED = 100
"""Repositories listed in a preview of globs."""


@dataclass(frozen=True, slots=True)
class RepositoryFilters:
    """Filters of a list of repositories; None means any."""

    enabled: bool | None = None
    archived: bool | None = None
    frozen: bool | None = None
    q: str | None = None
    sort: Literal["newest", "name"] = "newest"


def get_visible(uow: UnitOfWork, reference: str) -> Repository:
    """Return a repository that the installation covers, by `rep_…` or `owner/name`.

    Raise `repository_not_found`, also if it is no longer covered.
    """
    repository = get_repository(uow, reference)
    if repository.removed_at is not None:
        raise ServiceError(
            "repository_not_found", f"Repository {reference!r} is no longer covered by the installation."
        )
    return repository


def get_all_visible(uow: UnitOfWork, references: Sequence[str]) -> dict[str, Repository]:
    """Return the repositories of a list in the body, by the pointer of their first mention, in order.

    Raise `invalid_parameter`, with the pointer of each unknown reference.
    """
    found = {name: row for name, row in find_repositories(uow, references).items() if row.removed_at is None}
    unknown = tuple(
        Detail(f"/repositories/{index}", f"repository {name!r} not found", "invalid_parameter")
        for index, name in enumerate(references)
        if name not in found
    )
    if unknown:
        message = f"The list references unknown repositories: {unknown[0].message}."
        raise ServiceError("invalid_parameter", message, details=unknown)
    first: dict[str, int] = {}
    for index, name in enumerate(references):
        first.setdefault(found[name].id, index)
    return {f"/repositories/{index}": found[references[index]] for index in first.values()}


def list_repositories(uow: UnitOfWork, filters: RepositoryFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of repositories, newest first or by name."""
    by_name = filters.sort == "name"
    keys = (Repository.full_name_key if by_name else Repository.created_at, Repository.id)
    query = _filtered(uow, filters)
    page = page_of(uow, "list_repositories", filters, query, keys, cursor=cursor, limit=limit, ascending=by_name)
    return Page(views(uow, page.data), page.next_cursor)


def _filtered(uow: UnitOfWork, filters: RepositoryFilters) -> Select[Repository]:
    query = select(Repository).where(Repository.organization_id == uow.organization, Repository.removed_at.is_(None))
    if filters.enabled is not None:
        query = query.where(Repository.enabled.is_(filters.enabled))
    if filters.archived is not None:
        query = query.where(Repository.archived.is_(filters.archived))
    if filters.frozen is not None:
        has_frozen = Repository.id.in_(_frozen_repositories(uow))
        query = query.where(has_frozen if filters.frozen else ~has_frozen)
    if filters.q is not None:
        query = query.where(func.strpos(Repository.full_name_key, func.lower(filters.q)) > 0)
    return query


def _frozen_repositories(uow: UnitOfWork) -> Select[str]:
    return select(WatchedBranch.repository_id).where(is_frozen(uow.session, uow.organization, uow.now))


def show(uow: UnitOfWork, reference: str) -> dict[str, Any]:
    """Return a repository. Raise `repository_not_found`."""
    return views(uow, [get_visible(uow, reference)])[0]


def views(uow: UnitOfWork, repositories: Sequence[Repository]) -> list[dict[str, Any]]:
    """Return repositories as in the API, with two queries for all their branches.

    In one, lights would be computed again for every branch where the planner takes the tables for empty, as they are
    when many repositories are enabled at first.
    """
    ids = [repository.id for repository in repositories]
    frozen = is_frozen(uow.session, uow.organization, uow.now)
    rows = uow.session.execute(
        select(WatchedBranch.repository_id, func.count(), func.bool_or(frozen))
        .where(WatchedBranch.repository_id.in_(ids), WatchedBranch.unwatched_at.is_(None))
        .group_by(WatchedBranch.repository_id)
    )
    lights = lights_of_repositories(uow, ids)
    branches = {
        repository_id: (count, is_any_frozen, lights.get(repository_id))  # unwatched meanwhile: none
        for repository_id, count, is_any_frozen in rows
    }
    return [_view(repository, *branches.get(repository.id, (0, False, None))) for repository in repositories]


def _view(
    repository: Repository,
    watched: int,
    frozen: bool,  # noqa: FBT001 - a column of a row
    lights: LightCounts | None,
) -> dict[str, Any]:
    return {
        "id": repository.id,
        "full_name": repository.full_name,
        "owner": repository.owner,
        "name": repository.name,
        "default_branch": repository.default_branch,
        "private": repository.private,
        "archived": repository.archived,
        "enabled": repository.enabled,
        "frozen": frozen,
        "watched_branch_count": watched,
        "light": lights.worst if repository.enabled and lights else None,
        "unknown": bool(repository.enabled and lights and lights.worst_is_unknown),
        "settings": {"auto_watch": repository.auto_watch},
        "synced_at": repository.synced_at,
    }


def preview_glob(uow: UnitOfWork, patterns: list[str]) -> dict[str, Any]:
    """Return the repositories that the patterns match, enabled or not. Raise `invalid_glob` with pointers."""
    glob = compile_globs(patterns, "repository", "/patterns")
    rows = uow.session.execute(
        select(Repository.id, Repository.owner, Repository.name, Repository.enabled).where(
            Repository.organization_id == uow.organization, Repository.removed_at.is_(None)
        )
    )
    named = ((f"{owner}/{name}", repository_id, enabled) for repository_id, owner, name, enabled in rows)
    matches = sorted((row for row in named if glob.matches(row[0])), key=lambda row: (row[0].lower(), row[1]))
    return {
        "repository_count": len(matches),
        "repositories": [
            {"id": repository_id, "full_name": full_name, "enabled": enabled}
            for full_name, repository_id, enabled in matches[:MAX_PREVIEWED]
        ],
        "truncated": len(matches) > MAX_PREVIEWED,
    }
