"""Tracked pull requests: listing them, and looking one up by a reference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.pull_requests import PullRequest
from models.repositories import Repository
from services.core.pagination import Page, read_cursor, sign_cursor
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork
from services.pull_requests.views import views
from services.repositories.repositories import get_visible
from services.repositories.tracked_pull_requests import TrackedPullRequest, find, select_tracked

BATCH_SIZE = 200
"""Pull requests read at a time when a list is filtered by verdict."""


@dataclass(frozen=True, slots=True)
class PullFilters:
    """Which pull requests a list shows; None: any."""

    state: str | None = None
    base: str | None = None
    verdict: str | None = None


def list_pulls(uow: UnitOfWork, reference: str, filters: PullFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of a repository's tracked pull requests, the highest number first.

    Raise `repository_not_found`. The verdict is no column: verdicts are computed until the page is full.
    """
    repository = get_visible(uow, reference)
    secrets, bound = (
        uow.ports[CursorSecret].accepted,
        ("list_pull_requests", uow.organization, (repository.id, filters)),
    )
    below = None if cursor is None else read_cursor(secrets, bound, cursor)[0]
    size = limit + 1 if filters.verdict is None else max(limit + 1, BATCH_SIZE)
    shown: list[dict[str, Any]] = []
    while len(shown) <= limit:
        rows = _rows(uow, repository, filters, below, size)
        shown += [view for view in views(uow, rows) if filters.verdict in {None, view["verdict"]}]
        if len(rows) < size:
            break
        below = rows[-1].pull.number
    more = len(shown) > limit
    return Page(shown[:limit], sign_cursor(secrets, bound, [shown[limit - 1]["number"]]) if more else None)


def _rows(
    uow: UnitOfWork, repository: Repository, filters: PullFilters, below: int | None, size: int
) -> Sequence[TrackedPullRequest]:
    query = select_tracked(uow).where(PullRequest.repository_id == repository.id)
    if filters.state is not None:
        query = query.where(PullRequest.state == filters.state)
    if filters.base is not None:
        query = query.where(PullRequest.base_branch == filters.base)
    if below is not None:
        query = query.where(PullRequest.number < below)
    rows = uow.session.execute(query.order_by(PullRequest.number.desc()).limit(size))
    return [TrackedPullRequest(*row) for row in rows]


def lookup(uow: UnitOfWork, reference: str, repo: str | None) -> dict[str, Any]:
    """Return the pull request that a client names; see `find`."""
    return views(uow, [find(uow, reference, repo, path="ref")])[0]
