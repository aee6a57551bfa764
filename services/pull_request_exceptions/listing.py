"""Lists of exceptions, and of the requests among them that wait for a decision."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from rules.errors import ServiceError
from rules.freezes.pull_request_exceptions import ExceptionState
from services.core.lookups import get_freeze, get_repository
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.views import views


@dataclass(frozen=True, slots=True)
class ExceptionFilters:
    """Which exceptions a list shows; None: any."""

    state: ExceptionState | None = None
    repo: str | None = None
    branch_id: str | None = None
    freeze_id: str | None = None
    pull_request_id: str | None = None
    request_group_id: str | None = None


def list_exceptions(uow: UnitOfWork, operation: str, filters: ExceptionFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of exceptions, the newest first; `operation` is the list that its cursors belong to.

    Raises `invalid_cursor`, `repository_not_found`, `branch_not_found`, `freeze_not_found`, `pull_request_not_found`,
    `exception_not_found` (no such group).
    """
    query = _filtered(uow, filters)
    keys = (PullRequestException.created_at, PullRequestException.id)
    page = page_of(uow, operation, filters, query, keys, cursor=cursor, limit=limit)
    return Page(views(uow, page.data), page.next_cursor)


def _filtered(uow: UnitOfWork, filters: ExceptionFilters) -> Select[Any]:
    row = PullRequestException
    query = select(row).join(Freeze, Freeze.id == row.freeze_id).where(row.organization_id == uow.organization)
    if filters.state is not None:
        query = query.where(PullRequestException.has_state(filters.state, uow.now, Freeze.is_in_force(uow.now)))
    if filters.repo is not None:
        pulls = select(PullRequest.id).where(PullRequest.repository_id == get_repository(uow, filters.repo).id)
        query = query.where(row.pull_request_id.in_(pulls))
    if filters.freeze_id is not None:
        query = query.where(row.freeze_id == get_freeze(uow, filters.freeze_id).id)
    if filters.branch_id is not None:
        query = query.where(row.branch_id == _known(uow, WatchedBranch, filters.branch_id, "branch_not_found"))
    if filters.pull_request_id is not None:
        known = _known(uow, PullRequest, filters.pull_request_id, "pull_request_not_found")
        query = query.where(row.pull_request_id == known)
    if filters.request_group_id is not None:
        query = query.where(row.request_group_id == _known_group(uow, filters.request_group_id))
    return query


def _known(uow: UnitOfWork, kind: type[WatchedBranch] | type[PullRequest], known_id: str, code: str) -> str:
    query = select(kind.id).where(kind.id == known_id, kind.organization_id == uow.organization)
    if uow.session.scalar(query) is None:
        raise ServiceError(code, f"Nothing of this organisation has the id {known_id!r}.")
    return known_id


def _known_group(uow: UnitOfWork, group_id: str) -> str:
    row = PullRequestException
    query = select(row.id).where(row.organization_id == uow.organization, row.request_group_id == group_id)
    if uow.session.scalar(query.limit(1)) is None:
        raise ServiceError("exception_not_found", f"No exception of this organisation is of the group {group_id!r}.")
    return group_id
