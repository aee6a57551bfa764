"""What every change of exceptions leaves behind: one audit entry with each row before and after, and new checks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from models.exceptions import PullRequestException
from models.pull_requests import PullRequest
from models.queries import mark_dirty
from models.repositories import Repository
from services.core.unit_of_work import UnitOfWork

Told = Mapping[str, Any]


def told(uow: UnitOfWork, rows: Iterable[PullRequestException]) -> dict[str, Told]:
    """Return, by id, what the audit says of rows whose freezes are locked and in force."""
    return {row.id: _told(uow, row) for row in rows}


def _told(uow: UnitOfWork, row: PullRequestException) -> dict[str, Any]:
    return {
        "state": row.state(uow.now, freeze_in_force=True),
        "expiresAt": row.expires_at,
        "pinToHead": row.pin_to_head,
        "headSha": row.head_sha,
    }


def record(
    uow: UnitOfWork, action: str, rows: Sequence[PullRequestException], before: Mapping[str, Told], **details: Any
) -> None:
    """Write one audit entry on rows of one pull request that were changed; `before` lacks those that are new."""
    uow.session.flush()
    after = told(uow, rows)
    listed = [
        {"id": row.id, "freezeId": row.freeze_id, "before": before.get(row.id), "after": after[row.id]} for row in rows
    ]
    first = rows[0]
    target_id = first.id if len(rows) == 1 else first.request_group_id
    name = name_of(uow, first.pull_request_id)
    uow.audit(f"exception.{action}", ("exception", target_id, name), pullRequest=name, rows=listed, **details)


def name_of(uow: UnitOfWork, pull_request_id: str) -> str:
    """Return a pull request's name, `owner/repo#7`."""
    return names_of(uow, [pull_request_id])[pull_request_id]


def names_of(uow: UnitOfWork, pull_request_ids: Collection[str]) -> dict[str, str]:
    """Return the names of pull requests, by id."""
    query = (
        select(PullRequest.id, PullRequest.number, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .where(PullRequest.id.in_(pull_request_ids))
    )
    rows = uow.session.execute(query)
    return {pull_id: f"{repository.full_name}#{number}" for pull_id, number, repository in rows}


def write_checks(uow: UnitOfWork, branch_id: str) -> None:
    """Have the checks on the heads into a locked branch written anew."""
    mark_dirty(uow.session, [branch_id], uow.now)
    uow.wake("reconcile")
