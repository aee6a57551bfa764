"""The ends of exceptions that follow from time and from pushes: expiry, the end of a freeze, a stale pin.

An exception ends by itself, to the second: its state follows from its instants. These functions record the end once,
audit it, and have the checks written again. Locks are taken in the order of `changes`: branches, then exceptions.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Integer, Select, and_, bindparam, not_, or_, select
from sqlalchemy.exc import OperationalError

from models.checks import lock_affected
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.queries import NOW, freezes_of_exceptions, is_one_of
from services.core.batch import for_each_isolated
from services.core.savepoints import in_savepoint
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.pull_request_exceptions.changes import (
    REVOKED_BY_PUSH,
    expire_row,
    pull_request_names,
    revoke_rows,
    schedule_checks,
)

BATCH_SIZE = 1000
"""Branches whose exceptions are ended before the database is read again."""

_STALE = and_(PullRequestException.pin_to_head, PullRequestException.head_sha != PullRequest.head_sha)
"""Pinned to a commit that is no longer the head of the pull request."""
_LASTS = PullRequestException.lasts(NOW, Freeze.is_in_force(NOW))
_OPEN = (
    select(PullRequestException)
    .join(Freeze, Freeze.id == PullRequestException.freeze_id)
    .join(PullRequest, PullRequest.id == PullRequestException.pull_request_id)
    .where(PullRequestException.is_open)
)
_LOCKED = (
    _OPEN.where(is_one_of(PullRequestException.branch_id, "branches"))
    .order_by(PullRequestException.id)
    .with_for_update(of=PullRequestException)
    .execution_options(populate_existing=True)
)
_ENDED = _LOCKED.where(not_(_LASTS))
_STALE_PINS = _LOCKED.where(_STALE, _LASTS)
_WITH_ENDS = (
    _OPEN.with_only_columns(PullRequestException.organization_id, PullRequestException.branch_id)
    .where(or_(not_(_LASTS), _STALE))
    .distinct()
    .limit(bindparam("limit", type_=Integer))
)


def end_exceptions(uow_factory: UnitOfWorkFactory) -> int:
    """Record the ends of exceptions, one transaction for each branch; return on how many branches.

    If that fails, the checks are scheduled nevertheless: they must not stay green because an end is not recorded.
    """
    ended = 0
    while True:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            found = find_expired_or_stale(uow)
        now_ended = for_each_isolated(sorted(found), lambda of: _try_end_on_branch(uow_factory, *of))
        if not now_ended:
            return ended
        ended += now_ended


def find_expired_or_stale(uow: UnitOfWork) -> Collection[tuple[str, str]]:
    """Return organisation and branch of exceptions whose end is to be recorded, `BATCH_SIZE` branches at most."""
    rows = uow.session.execute(_WITH_ENDS, {"now": uow.now, "limit": BATCH_SIZE})
    return {(organization_id, branch_id) for organization_id, branch_id in rows}


def _try_end_on_branch(uow_factory: UnitOfWorkFactory, organization_id: str, branch_id: str) -> int:
    caller = system_caller(organization_id)
    try:
        with uow_factory.open(caller) as uow:
            return end_on_branch(uow, branch_id)
    except OperationalError:
        raise
    except Exception:
        with uow_factory.open(caller) as uow:  # the exceptions have ended although that cannot be recorded
            schedule_checks(uow, [branch_id])
        raise


def end_on_branch(uow: UnitOfWork, branch_id: str) -> int:
    """Record every end of an exception for a branch of the organisation; return how many exceptions ended."""
    lock_affected(uow.session, [branch_id])
    uow.refresh_now()
    return _expire(uow, branch_id) + revoke_stale_pins(uow, [branch_id])


def _expire(uow: UnitOfWork, branch_id: str) -> int:
    rows = _lock(uow, _ENDED, [branch_id])
    freezes = freezes_of_exceptions(uow.session, rows)
    names = pull_request_names(uow, {row.pull_request_id for row in rows})
    for row in rows:
        freeze = freezes[row.freeze_id]
        ends = (row.expires_at, freeze.ended_at or freeze.ends_at, uow.now)
        expire_row(uow, row, min(end for end in ends if end is not None), names[row.pull_request_id])
    if any(row.decision == "granted" for row in rows):
        schedule_checks(uow, [branch_id])
    return len(rows)


def try_revoke_stale_pins(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Do `revoke_stale_pins` in a savepoint: a failure is logged, and left to `end_exceptions`."""
    in_savepoint(
        uow.session,
        lambda: revoke_stale_pins(uow, branch_ids),
        otherwise=lambda: 0,
        failure="stale pins of exceptions cannot be revoked",
    )


def revoke_stale_pins(uow: UnitOfWork, branch_ids: Collection[str]) -> int:
    """Revoke the open exceptions that are pinned to a commit which is no longer the head; return how many.

    A request for such a commit could not be granted any more. The branches are locked. No check has to be written: the
    check on the new head never followed from the pin to the old one.
    """
    stale = _lock(uow, _STALE_PINS, branch_ids) if branch_ids else ()
    groups: dict[tuple[str, str], list[PullRequestException]] = {}
    for row in stale:
        groups.setdefault((row.organization_id, row.request_group_id), []).append(row)
    for (organization_id, _group_id), rows in groups.items():
        with uow.act_as_service(organization_id=organization_id):
            head = uow.session.get_one(PullRequest, rows[0].pull_request_id, populate_existing=True).head_sha
            revoke_rows(uow, rows, reason=REVOKED_BY_PUSH, newHeadSha=head)
    return len(stale)


def next_end(uow: UnitOfWork) -> datetime | None:
    """Return when the next exception expires, so that the sweep is awake by then."""
    row = PullRequestException
    query = select(row.expires_at).where(row.is_open, row.expires_at > uow.now).order_by(row.expires_at).limit(1)
    return uow.session.scalar(query)


def _lock(
    uow: UnitOfWork, statement: Select[PullRequestException], branch_ids: Collection[str]
) -> Sequence[PullRequestException]:
    """Lock and return the exceptions that a statement selects, for locked branches."""
    return uow.session.scalars(statement, {"branches": list(branch_ids), "now": uow.now}).all()
