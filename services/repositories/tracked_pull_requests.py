"""Look-up of pull requests into watched branches of enabled repositories, by reference or id."""

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.orm import aliased

from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError, field_error
from rules.freezes.pull_references import read_reference
from services.core.unit_of_work import UnitOfWork
from services.github_access import client
from services.repositories.repositories import get_visible


class TrackedPullRequest(NamedTuple):
    """A pull request with its base branch and repository."""

    pull: PullRequest
    branch: WatchedBranch
    repository: Repository

    @property
    def head(self) -> tuple[str, str]:
        """Repository id and commit."""
        return self.pull.repository_id, self.pull.head_sha


def reference(row: TrackedPullRequest) -> dict[str, Any]:
    """Return what names a pull request in other objects, as the contract's object."""
    return {
        "id": row.pull.id,
        "repository": row.repository.full_name,
        "number": row.pull.number,
        "url": row.pull.url,
        "base_branch": row.pull.base_branch,
    }


def is_base() -> ColumnElement[bool]:
    """Return the condition that joins a pull request to its base branch."""
    return and_(WatchedBranch.repository_id == PullRequest.repository_id, WatchedBranch.name == PullRequest.base_branch)


def select_tracked(uow: UnitOfWork) -> Select[PullRequest, WatchedBranch, Repository]:
    """Return the query for pull requests into watched branches of enabled repositories."""
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


def read_head(uow: UnitOfWork, pull: PullRequest) -> list[TrackedPullRequest]:
    """Read a pull request again, and return the open ones on its head, whatever their base; their bases are watched."""
    this = aliased(PullRequest)
    shares = and_(PullRequest.state == "open", PullRequest.head_sha == this.head_sha)
    query = (
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, is_base())
        .join(this, this.repository_id == PullRequest.repository_id)
        .where(this.id == pull.id, or_(PullRequest.id == this.id, shares))
        .order_by(PullRequest.number)
        .execution_options(populate_existing=True)
    )
    found = [TrackedPullRequest(*row) for row in uow.session.execute(query)]
    if all(row.pull.id != pull.id for row in found):  # its base is not watched any more
        uow.session.refresh(pull)
    return [row for row in found if row.pull.state == "open"]


def find(
    uow: UnitOfWork, reference: str, repo: str | None, *, path: str, repo_path: str = "repo"
) -> TrackedPullRequest:
    """Return the pull request of a reference; `path` and `repo_path` locate the two values in the request.

    Raise `invalid_parameter` if the reference is malformed or of another repository than `repo`; `missing_parameter` if
    a bare number is ambiguous; `repository_not_found`; `pull_request_not_found`.
    """
    origins = client.origins(uow)
    read = read_reference(reference, origins)
    if read is None:
        message = f"must be the URL of a pull request at {origins[0]}, owner/repo#7, or 7"
        raise field_error(path, message)
    repository = _repository(uow, read.repository, repo, repo_path)
    query = select_tracked(uow).where(PullRequest.repository_id == repository.id, PullRequest.number == read.number)
    row = uow.session.execute(query).one_or_none()
    if row is None:
        raise ServiceError(
            "pull_request_not_found",
            f"Pull request {repository.full_name}#{read.number} not found. The repository must be enabled and the "
            "base branch watched.",
        )
    return TrackedPullRequest(*row)


def _repository(uow: UnitOfWork, named: str | None, repo: str | None, path: str) -> Repository:
    if named is None and repo is None:
        return _only_enabled(uow, path)
    repositories = {row.id: row for row in (get_visible(uow, name) for name in (named, repo) if name is not None)}
    if len(repositories) > 1:
        message = f"is a different repository than {named} in the reference"
        raise field_error(path, message)
    return next(iter(repositories.values()))


def _only_enabled(uow: UnitOfWork, path: str) -> Repository:
    enabled = uow.session.scalars(
        select(Repository)
        .where(Repository.organization_id == uow.organization, Repository.enabled, Repository.removed_at.is_(None))
        .limit(2)
    ).all()
    if len(enabled) != 1:
        message = "is required with a bare number, unless exactly one repository is enabled"
        raise field_error(path, message, code="missing_parameter")
    return enabled[0]
