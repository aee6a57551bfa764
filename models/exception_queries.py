"""Which exceptions hold: granted, not revoked, their time not passed, and their freeze in force."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest


@dataclass(frozen=True, slots=True)
class Standing:
    """An exception that holds now, for a pull request into one branch and against one freeze."""

    id: str
    freeze_id: str
    pull_request_id: str
    branch_id: str
    pinned_sha: str | None
    """The only head that it holds for; None: for every one."""
    granted_by: str
    """The name of whoever granted it."""
    expires_at: datetime | None
    """When it ends before its freeze does."""
    number: int
    head_sha: str
    """Number and head of the pull request, as it was last seen."""

    def holds_for(self, sha: str) -> bool:
        """Tell whether it allows this commit of the pull request."""
        return self.pinned_sha in {None, sha}


def standing(session: Session, pull_request_ids: Collection[str], now: datetime) -> list[Standing]:
    """Return the exceptions of these pull requests that hold at `now`, the oldest first."""
    return _read(session, PullRequestException.pull_request_id.in_(pull_request_ids), now) if pull_request_ids else []


def standing_against(
    session: Session, freeze_ids: Collection[str], branch_ids: Collection[str], now: datetime
) -> list[Standing]:
    """Return the exceptions from these freezes for pull requests into these branches that hold at `now`."""
    if not freeze_ids or not branch_ids:
        return []
    row = PullRequestException
    return _read(session, and_(row.freeze_id.in_(freeze_ids), row.branch_id.in_(branch_ids)), now)


def _read(session: Session, condition: ColumnElement[bool], now: datetime) -> list[Standing]:
    row = PullRequestException
    rows = session.execute(
        select(
            row.id,
            row.freeze_id,
            row.pull_request_id,
            row.branch_id,
            row.pin_to_head,
            row.head_sha,
            row.decided_by,
            row.expires_at,
            PullRequest.number,
            PullRequest.head_sha,
        )
        .join(Freeze, Freeze.id == row.freeze_id)
        .join(PullRequest, PullRequest.id == row.pull_request_id)
        .where(condition, row.is_active(now, Freeze.is_in_force(now)))
        .order_by(row.created_at, row.id)
    )
    return [
        Standing(
            id=exception_id,
            freeze_id=freeze_id,
            pull_request_id=pull_request_id,
            branch_id=branch_id,
            pinned_sha=(pinned or "") if pins else None,
            granted_by=_name(by),
            expires_at=expires_at,
            number=number,
            head_sha=head_sha,
        )
        for exception_id, freeze_id, pull_request_id, branch_id, pins, pinned, by, expires_at, number, head_sha in rows
    ]


def _name(actor: dict[str, Any] | None) -> str:
    """Return how an actor is called; an exception of nobody still holds."""
    return str((actor or {}).get("name") or "somebody")
