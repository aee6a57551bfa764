"""Requesting exceptions: somebody asks, and somebody else decides."""

from collections.abc import Sequence

from models.exceptions import PullRequestException
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.covering import Wanted, add_rows, cover, named
from services.pull_request_exceptions.recording import name_of, record
from services.repositories.tracked_pull_requests import TrackedPullRequest


def request(uow: UnitOfWork, pull_request: str, repo: str | None, wanted: Wanted) -> Sequence[PullRequestException]:
    """Request exceptions for the pull request that a client names; raises what `named` and `request_for` raise."""
    return request_for(uow, named(uow, pull_request, repo, wanted), wanted)


def request_for(uow: UnitOfWork, tracked: TrackedPullRequest, wanted: Wanted) -> Sequence[PullRequestException]:
    """Request, as the unit's actor, an exception from each freeze that covers a pull request: all of them, or none.

    Freezes for which it has an exception, or a request, already are left as they are. Raises `already_exists` when
    that is true of every one, and what `cover` raises.
    """
    covered = cover(uow, tracked, wanted)
    if not covered.bare:
        raise ServiceError(
            "already_exists",
            f"{name_of(uow, tracked.pull.id)} has been granted, or waits for, an exception from every freeze that "
            f"covers it: {', '.join(sorted(row.id for row in covered.rows.values()))}.",
        )
    rows = add_rows(uow, covered, covered.bare, new_id("exg"))
    for row in rows:
        row.requested_by, row.requested_at = uow.actor.as_json(), uow.now
    record(uow, "requested", rows, {}, reason=covered.wanted.reason)
    return rows
