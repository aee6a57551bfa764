"""Tracked pull requests as clients see them: may they be merged, because of what, and does the code host show it.

The verdict comes from `rules.verdict` on the same facts as the reconciler's: a head that several pull requests share
under one check name is judged with all of them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, select, tuple_

from models.pull_requests import HeadCheck, PullRequest
from models.queries import covering_freezes
from models.repositories import Repository, WatchedBranch
from rules.errors import Detail, ServiceError
from rules.pull_references import read_reference
from rules.verdict import Claim, Verdict, judge
from services.pages import Page, open_cursor, sign_cursor
from services.repositories import visible
from services.unit import Unit

JUDGED_AT_ONCE = 200
"""Pull requests read at a time when only those of one verdict are wanted."""
WAITING = frozenset({"github_rate_limited", "github_secondary_rate_limit"})
"""Errors that pass by themselves: the check is late, it has not failed."""


class Tracked(NamedTuple):
    """A pull request with its base."""

    pull: PullRequest
    branch: WatchedBranch
    repository: Repository


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
        .join(WatchedBranch, _is_base())
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


def _is_base() -> Any:
    return and_(WatchedBranch.repository_id == PullRequest.repository_id, WatchedBranch.name == PullRequest.base_branch)


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
        raise ServiceError("invalid_parameter", f"{_name(path)} {message}.", details=(Detail(path, message),))
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


def _name(path: str) -> str:
    """Return what a parameter, or a property at a pointer, is called."""
    return path.removeprefix("/")


def _repository(unit: Unit, named: str | None, repo: str | None, path: str) -> Repository:
    if named is None and repo is None:
        return _only_enabled(unit, path)
    repositories = {row.id: row for row in (visible(unit, name) for name in (named, repo) if name is not None)}
    if len(repositories) > 1:
        message = f"is another repository than {named}, which the reference names"
        raise ServiceError("invalid_parameter", f"{_name(path)} {message}.", details=(Detail(path, message),))
    return next(iter(repositories.values()))


def _only_enabled(unit: Unit, path: str) -> Repository:
    enabled = unit.session.scalars(
        select(Repository)
        .where(Repository.organization_id == unit.organization, Repository.enabled, Repository.removed_at.is_(None))
        .limit(2)
    ).all()
    if len(enabled) != 1:
        message = "is needed beside a bare number, unless just one repository is enabled"
        raise ServiceError("missing_parameter", f"{_name(path)} {message}.", details=(Detail(path, message),))
    return enabled[0]


def views(unit: Unit, rows: Sequence[Tracked]) -> list[dict[str, Any]]:
    """Return pull requests as the contract's objects: three queries, however many they are."""
    siblings = _siblings(unit, rows)
    concerned = {row.branch.id for row in rows} | {row.branch.id for group in siblings.values() for row in group}
    freezes = covering_freezes(unit.session, concerned, unit.now)
    checks = _checks(unit, rows)
    shown = []
    for row in rows:
        others = [other for other in siblings.get(_head(row.pull), ()) if other.pull.id != row.pull.id]
        sharing = [row, *(other for other in others if other.branch.check_name == row.branch.check_name)]
        verdict = judge(Claim(each.branch.name, each.pull.number, freezes.get(each.branch.id, ())) for each in sharing)
        freeze_ids = [freeze.id for freeze in freezes.get(row.branch.id, ())]
        check = checks.get((*_head(row.pull), row.branch.check_name))
        shown.append(_view(row, others, freeze_ids, verdict, check))
    return shown


def _head(pull: PullRequest) -> tuple[str, str]:
    return pull.repository_id, pull.head_sha


def _siblings(unit: Unit, rows: Sequence[Tracked]) -> dict[tuple[str, str], list[Tracked]]:
    """Return the open pull requests on each head, whatever their base."""
    heads = {_head(row.pull) for row in rows}
    query = (
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, _is_base())
        .where(PullRequest.state == "open", tuple_(PullRequest.repository_id, PullRequest.head_sha).in_(heads))
        .order_by(PullRequest.number)
    )
    found: dict[tuple[str, str], list[Tracked]] = {}
    for row in unit.session.execute(query) if heads else ():
        found.setdefault(_head(row[0]), []).append(Tracked(*row))
    return found


def _checks(unit: Unit, rows: Sequence[Tracked]) -> dict[tuple[str, str, str], HeadCheck]:
    wanted = {(*_head(row.pull), row.branch.check_name) for row in rows}
    key = tuple_(HeadCheck.repository_id, HeadCheck.head_sha, HeadCheck.check_name)
    found = unit.session.scalars(select(HeadCheck).where(key.in_(wanted))) if wanted else ()
    return {(check.repository_id, check.head_sha, check.check_name): check for check in found}


def _view(
    row: Tracked, others: Sequence[Tracked], freeze_ids: list[str], verdict: Verdict, check: HeadCheck | None
) -> dict[str, Any]:
    pull = row.pull
    return {
        **_reference(row),
        "title": pull.title,
        "author": pull.author,
        "branch_id": row.branch.id,
        "head_sha": pull.head_sha,
        "state": pull.state,
        "verdict": "blocked" if verdict.blocking else "allowed",
        "freeze_ids": freeze_ids,
        "exception_ids": [],
        "check": {"state": _check_state(row, verdict, check), "written_at": check.written_at if check else None},
        "shared_head_with": [_reference(other) for other in others],
    }


def _reference(row: Tracked) -> dict[str, Any]:
    return {
        "id": row.pull.id,
        "repository": row.repository.full_name,
        "number": row.pull.number,
        "url": row.pull.url,
        "base_branch": row.pull.base_branch,
    }


def _check_state(row: Tracked, verdict: Verdict, check: HeadCheck | None) -> str:
    """Tell whether the code host shows the verdict; on the head of a closed pull request nothing more is written."""
    if check is not None and (check.conclusion == verdict.conclusion or row.pull.state != "open"):
        return "written"
    error = row.branch.last_error_code
    return "failed" if error is not None and row.branch.attempts > 0 and error not in WAITING else "pending"
