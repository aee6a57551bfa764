"""Pull requests into watched branches of enabled repositories: found by what a client names, or by id."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, select

from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.errors import Detail, ServiceError
from rules.freezes.pull_references import read_reference
from services.core.unit_of_work import UnitOfWork
from services.repositories.repositories import visible


class TrackedPullRequest(NamedTuple):
    """A pull request with its base."""

    pull: PullRequest
    branch: WatchedBranch
    repository: Repository

    @property
    def head(self) -> tuple[str, str]:
        """Repository and commit."""
        return self.pull.repository_id, self.pull.head_sha


def is_base() -> ColumnElement[bool]:
    """Return the condition for the watched branch that a pull request goes into."""
    return and_(WatchedBranch.repository_id == PullRequest.repository_id, WatchedBranch.name == PullRequest.base_branch)


def select_tracked(uow: UnitOfWork) -> Select[PullRequest, WatchedBranch, Repository]:
    """Select pull requests into watched branches of enabled repositories."""
    return (
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, is_base())
        .where(
            PullRequest.organization_id == uow.organization,
            WatchedBranch.unwatched_at.is_(None),
            Repository.enabled,
            Repository.removed_at.is_(None),
        )
    )


def tracked(uow: UnitOfWork, pull_request_ids: Collection[str]) -> list[TrackedPullRequest]:
    """Return those of the pull requests that go into watched branches of enabled repositories."""
    rows = uow.session.execute(select_tracked(uow).where(PullRequest.id.in_(pull_request_ids)))
    return [TrackedPullRequest(*row) for row in rows]


def find(
    uow: UnitOfWork, reference: str, repo: str | None, *, path: str, repo_path: str = "repo"
) -> TrackedPullRequest:
    """Return the pull request that `reference` names; `path` and `repo_path` are where the request holds the two.

    Raises `invalid_parameter` for a reference of no known form, or of another repository than `repo`;
    `missing_parameter` for a bare number that could be of several; `repository_not_found`; `pull_request_not_found`.
    """
    read = read_reference(reference)
    if read is None:
        message = "has to be the address of a pull request, owner/repo#7, or 7"
        raise _refused("invalid_parameter", path, message)
    repository = _repository(uow, read.repository, repo, repo_path)
    query = select_tracked(uow).where(PullRequest.repository_id == repository.id, PullRequest.number == read.number)
    row = uow.session.execute(query).one_or_none()
    if row is None:
        raise ServiceError(
            "pull_request_not_found",
            f"Nothing is known of {repository.full_name}#{read.number}: the repository has to be enabled and the "
            "base branch watched.",
        )
    return TrackedPullRequest(*row)


def _refused(code: str, path: str, message: str) -> ServiceError:
    """Return the refusal of a parameter, or of the property at a pointer, by its name."""
    return ServiceError(code, f"{path.removeprefix('/')} {message}.", details=(Detail(path, message, code),))


def _repository(uow: UnitOfWork, named: str | None, repo: str | None, path: str) -> Repository:
    if named is None and repo is None:
        return _only_enabled(uow, path)
    repositories = {row.id: row for row in (visible(uow, name) for name in (named, repo) if name is not None)}
    if len(repositories) > 1:
        message = f"is another repository than {named}, which the reference names"
        raise _refused("invalid_parameter", path, message)
    return next(iter(repositories.values()))


def _only_enabled(uow: UnitOfWork, path: str) -> Repository:
    enabled = uow.session.scalars(
        select(Repository)
        .where(Repository.organization_id == uow.organization, Repository.enabled, Repository.removed_at.is_(None))
        .limit(2)
    ).all()
    if len(enabled) != 1:
        message = "is needed beside a bare number, unless just one repository is enabled"
        raise _refused("missing_parameter", path, message)
    return enabled[0]
