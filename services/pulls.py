"""Tracked pull requests: listing them, and finding the one that somebody names. `pull_views.py` shows them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.errors import Detail, ServiceError
from rules.pull_references import read_reference
from services.pages import Page, open_cursor, sign_cursor
from services.pull_views import Tracked, is_base, views
from services.repositories import visible
from services.unit import Unit

JUDGED_AT_ONCE = 200
"""Pull requests read at a time when only those of one verdict are wanted."""


@dataclass(frozen=True, slots=True)
class PullFilters:
    """Which pull requests a list shows; None: any."""

    state: str | None = None
    base: str | None = None
    verdict: str | None = None


def list_pulls(unit: Unit, reference: str, filters: PullFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of a repository's tracked pull requests, the highest number first.

    Raises `repository_not_found`. The verdict is no column: rows are judged until the page is full.
    """
    repository = visible(unit, reference)
    secret, bound = unit.surroundings.cursor_secret, ("list_pull_requests", unit.organization, (repository.id, filters))
    below = None if cursor is None else open_cursor(secret, bound, cursor)[0]
    size = limit + 1 if filters.verdict is None else max(limit + 1, JUDGED_AT_ONCE)
    shown: list[dict[str, Any]] = []
    while len(shown) <= limit:
        rows = _rows(unit, repository, filters, below, size)
        shown += [view for view in views(unit, rows) if filters.verdict in {None, view["verdict"]}]
        if len(rows) < size:
            break
        below = rows[-1].pull.number
    more = len(shown) > limit
    return Page(shown[:limit], sign_cursor(secret, bound, [shown[limit - 1]["number"]]) if more else None)


def _rows(unit: Unit, repository: Repository, filters: PullFilters, below: int | None, size: int) -> Sequence[Tracked]:
    query = _tracked(unit).where(PullRequest.repository_id == repository.id)
    if filters.state is not None:
        query = query.where(PullRequest.state == filters.state)
    if filters.base is not None:
        query = query.where(PullRequest.base_branch == filters.base)
    if below is not None:
        query = query.where(PullRequest.number < below)
    rows = unit.session.execute(query.order_by(PullRequest.number.desc()).limit(size))
    return [Tracked(*row) for row in rows]


def _tracked(unit: Unit) -> Select[PullRequest, WatchedBranch, Repository]:
    """Select pull requests into watched branches of enabled repositories."""
    return (
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, is_base())
        .where(
            PullRequest.organization_id == unit.organization,
            WatchedBranch.unwatched_at.is_(None),
            Repository.enabled,
            Repository.removed_at.is_(None),
        )
    )


def tracked(unit: Unit, pull_request_ids: Collection[str]) -> list[Tracked]:
    """Return those of the pull requests that go into watched branches of enabled repositories."""
    rows = unit.session.execute(_tracked(unit).where(PullRequest.id.in_(pull_request_ids)))
    return [Tracked(*row) for row in rows]


def look_up(unit: Unit, reference: str, repo: str | None) -> dict[str, Any]:
    """Return the pull request that a client names; see `find`."""
    return views(unit, [find(unit, reference, repo, path="ref")])[0]


def find(unit: Unit, reference: str, repo: str | None, *, path: str, repo_path: str = "repo") -> Tracked:
    """Return the pull request that `reference` names; `path` and `repo_path` are where the request holds the two.

    Raises `invalid_parameter` for a reference of no known form, or of another repository than `repo`;
    `missing_parameter` for a bare number that could be of several; `repository_not_found`; `pull_request_not_found`.
    """
    read = read_reference(reference)
    if read is None:
        message = "has to be the address of a pull request, owner/repo#7, or 7"
        raise _refused("invalid_parameter", path, message)
    repository = _repository(unit, read.repository, repo, repo_path)
    query = _tracked(unit).where(PullRequest.repository_id == repository.id, PullRequest.number == read.number)
    row = unit.session.execute(query).one_or_none()
    if row is None:
        raise ServiceError(
            "pull_request_not_found",
            f"Nothing is known of {repository.full_name}#{read.number}: the repository has to be enabled and the "
            "base branch watched.",
        )
    return Tracked(*row)


def _refused(code: str, path: str, message: str) -> ServiceError:
    """Return the refusal of a parameter, or of the property at a pointer, by its name."""
    return ServiceError(code, f"{path.removeprefix('/')} {message}.", details=(Detail(path, message, code),))


def _repository(unit: Unit, named: str | None, repo: str | None, path: str) -> Repository:
    if named is None and repo is None:
        return _only_enabled(unit, path)
    repositories = {row.id: row for row in (visible(unit, name) for name in (named, repo) if name is not None)}
    if len(repositories) > 1:
        message = f"is another repository than {named}, which the reference names"
        raise _refused("invalid_parameter", path, message)
    return next(iter(repositories.values()))


def _only_enabled(unit: Unit, path: str) -> Repository:
    enabled = unit.session.scalars(
        select(Repository)
        .where(Repository.organization_id == unit.organization, Repository.enabled, Repository.removed_at.is_(None))
        .limit(2)
    ).all()
    if len(enabled) != 1:
        message = "is needed beside a bare number, unless just one repository is enabled"
        raise _refused("missing_parameter", path, message)
    return enabled[0]
