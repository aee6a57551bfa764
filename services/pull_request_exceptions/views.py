"""Showing exceptions: the contract's `PullRequestException` object."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.freezes.pull_request_exceptions import ExceptionState
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.effects import reasons_against
from services.pull_request_exceptions.states import freezes_of, get_exception

_AS_IT_IS = (
    "id",
    "request_group_id",
    "freeze_id",
    "branch_id",
    "reason",
    "head_sha",
    "pin_to_head",
    "requested_by",
    "requested_at",
    "decided_by",
    "decided_at",
    "decision_reason",
    "expires_at",
    "revoked_by",
    "revoked_at",
    "used_at",
    "used_commit",
)


def show(uow: UnitOfWork, exception_id: str) -> dict[str, Any]:
    """Return one exception, in whatever state; raises `exception_not_found`."""
    return views(uow, [get_exception(uow, exception_id)])[0]


def views(uow: UnitOfWork, rows: Sequence[PullRequestException]) -> list[dict[str, Any]]:
    """Return exceptions as the contract's objects: a few queries, however many they are."""
    freezes = freezes_of(uow, rows)
    states = {row.id: row.state(uow.now, freeze_in_force=freezes[row.freeze_id].is_in_force(uow.now)) for row in rows}
    places = _places(uow, rows)
    granted = [row for row in rows if states[row.id] == "granted"]
    pulls = {row.pull_request_id: places[row.id][0] for row in granted}
    against = reasons_against(uow, granted, pulls) if granted else {}
    shown = []
    for row in rows:
        pull, repository, branch = places[row.id]
        shown.append(
            {name: getattr(row, name) for name in _AS_IT_IS}
            | {
                "state": states[row.id],
                "effective": row.id in against and against[row.id] is None,
                "ineffective_reason": against.get(row.id),
                "branch": branch.name,
                "pull_request": {
                    "id": pull.id,
                    "repository": repository.full_name,
                    "number": pull.number,
                    "url": pull.url,
                    "title": pull.title,
                },
                "expired_at": _expired_at(row, freezes[row.freeze_id], states[row.id]),
            }
        )
    return shown


def _places(
    uow: UnitOfWork, rows: Sequence[PullRequestException]
) -> dict[str, tuple[PullRequest, Repository, WatchedBranch]]:
    query = (
        select(PullRequestException.id, PullRequest, Repository, WatchedBranch)
        .join(PullRequest, PullRequest.id == PullRequestException.pull_request_id)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, WatchedBranch.id == PullRequestException.branch_id)
        .where(PullRequestException.id.in_([row.id for row in rows]))
    )
    return {found: (pull, repository, branch) for found, pull, repository, branch in uow.session.execute(query)}


def _expired_at(row: PullRequestException, freeze: Freeze, its_state: ExceptionState) -> datetime | None:
    """Return when an expired exception came to its end, also before that is recorded."""
    if its_state != "expired":
        return None
    ends = (row.expires_at, freeze.ended_at or freeze.ends_at)
    return row.expired_at or min(end for end in ends if end is not None)
