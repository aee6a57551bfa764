"""The ends of exceptions that nobody decides on: their time, the end of their freeze, a push to what was pinned.

An exception ends by itself, to the second: whoever judges reads its instants. What is done here is to write that down
once, with its audit, and to have the checks written anew. Locks are taken in the order of `locking`: branches, then
exceptions.
"""

import logging
from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Select, and_, not_, or_, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import SQLCoreOperations

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.queries import mark_dirty
from rules.access.permissions import SYSTEM
from services.core.row_locks import lock_branches
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.lapsing import record_end
from services.pull_request_exceptions.recording import names_of, record, told
from services.pull_request_exceptions.revoking import PUSHED
from services.pull_request_exceptions.states import freezes_of

logger = logging.getLogger(__name__)

AT_ONCE = 1000


def ended_or_moved(uow: UnitOfWork) -> Collection[tuple[str, str]]:
    """Return organisation and branch of exceptions whose end is to be recorded, `AT_ONCE` branches at most."""
    row = PullRequestException
    found = _open().with_only_columns(row.organization_id, row.branch_id).where(or_(not_(_lasts(uow.now)), _MOVED))
    branches = found.order_by(None).distinct().limit(AT_ONCE)
    return {(organization_id, branch_id) for organization_id, branch_id in uow.session.execute(branches)}


def end(uow: UnitOfWork, branch_id: str) -> int:
    """Record every end of an exception for a branch of the unit's organisation; returns how many rows it changed."""
    lock_branches(uow, [branch_id])
    uow.refresh_now()
    return _end(uow, [branch_id]) + revoke_moved(uow, [branch_id])


def next_end(uow: UnitOfWork) -> datetime | None:
    """Return when the next exception ends by its own time, so that nobody sleeps past it."""
    row = PullRequestException
    query = select(row.expires_at).where(row.is_open, row.expires_at > uow.now).order_by(row.expires_at).limit(1)
    return uow.session.scalar(query)


def _lasts(now: datetime) -> SQLCoreOperations[bool]:
    return PullRequestException.lasts(now, Freeze.is_in_force(now))


_MOVED = and_(PullRequestException.pin_to_head, PullRequestException.head_sha != PullRequest.head_sha)
"""Pinned to a commit that is not the head of its pull request any more."""


def _open() -> Select[PullRequestException]:
    row = PullRequestException
    joined = select(row).join(Freeze, Freeze.id == row.freeze_id)
    return (
        joined.join(PullRequest, PullRequest.id == row.pull_request_id)
        .where(PullRequestException.is_open)
        .order_by(row.id)
    )


def _locked(
    uow: UnitOfWork, branch_ids: Collection[str], which: SQLCoreOperations[bool]
) -> Sequence[PullRequestException]:
    """Lock and return open rows of branches that are locked."""
    query = _open().where(PullRequestException.branch_id.in_(branch_ids), which)
    locking = query.with_for_update(of=PullRequestException).execution_options(populate_existing=True)
    return uow.session.scalars(locking).all()


def _end(uow: UnitOfWork, branch_ids: Collection[str]) -> int:
    rows = _locked(uow, branch_ids, not_(_lasts(uow.now)))
    freezes, names = freezes_of(uow, rows), names_of(uow, {row.pull_request_id for row in rows})
    for row in rows:
        freeze = freezes[row.freeze_id]
        ends = (row.expires_at, freeze.ended_at or freeze.ends_at, uow.now)
        ended_at = min(end for end in ends if end is not None)
        record_end(uow, ("exception", row.id, names[row.pull_request_id]), row, ended_at)
    raised = sorted({row.branch_id for row in rows if row.decision == "granted"})
    if raised:
        mark_dirty(uow.session, raised, uow.now)
        uow.wake("reconcile")
    return len(rows)


def see_pushes(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Do `revoke_moved` for whoever must go on whatever happens: what fails here is left to `end_exceptions`."""
    try:
        with uow.session.begin_nested():
            revoke_moved(uow, branch_ids)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        logger.exception("pinned exceptions cannot be looked at")


def revoke_moved(uow: UnitOfWork, branch_ids: Collection[str]) -> int:
    """Revoke the open rows that are pinned to a commit which their pull request has left; returns how many.

    A request for such a commit could not be granted any more. The branches are locked. Nothing has to be written anew:
    a check on the new head never heeded the pin to the old.
    """
    pinned = _locked(uow, branch_ids, and_(_MOVED, _lasts(uow.now))) if branch_ids else ()
    groups: dict[tuple[str, str], list[PullRequestException]] = {}
    for row in pinned:
        groups.setdefault((row.organization_id, row.request_group_id), []).append(row)
    for (organization_id, _group_id), rows in groups.items():
        with uow.act_as_service(organization_id=organization_id):
            _revoke(uow, rows)
    return len(pinned)


def _revoke(uow: UnitOfWork, rows: Sequence[PullRequestException]) -> None:
    before = told(uow, rows)
    for row in rows:
        row.revoked_by, row.revoked_at = SYSTEM.as_json(), uow.now
    head = uow.session.get_one(PullRequest, rows[0].pull_request_id, populate_existing=True).head_sha
    record(uow, "revoked", rows, before, reason=PUSHED, newHeadSha=head)
