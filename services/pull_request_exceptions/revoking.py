"""Revoking exceptions, and taking requests back. No plan is needed for it: what was allowed can always be forbidden."""

from collections.abc import Sequence

from models.exceptions import PullRequestException
from rules.errors import ServiceError
from rules.freezes.pull_request_exceptions import OPEN_STATES
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.locking import lock_group
from services.pull_request_exceptions.recording import record, told, write_checks
from services.pull_request_exceptions.rights import is_own, may_decide, require_decider
from services.pull_request_exceptions.states import get_exception, states_of

PUSHED = "It was pinned to a commit, and another was pushed."


def revoke(uow: UnitOfWork, exception_id: str, reason: str | None) -> Sequence[PullRequestException]:
    """End every row of an exception's group that is granted or pending; returns the rows ended.

    Whoever made a request may take it back while it is pending; the rest is for those who decide. Raises
    `exception_not_found`, `insufficient_permission`, `invalid_state` when nothing of it is open any more.
    """
    row = get_exception(uow, exception_id)
    decides = may_decide(uow)
    if not decides and not is_own(uow, row):
        require_decider(uow)
    group = lock_group(uow, row)
    states = states_of(uow, group)
    still_open = [one for one in group if states[one.id] in OPEN_STATES]
    if not still_open:
        raise ServiceError("invalid_state", f"There is nothing to revoke: this exception is {states[row.id]}.")
    if not decides:
        still_open = [one for one in still_open if states[one.id] == "pending" and is_own(uow, one)]
    if not still_open:
        require_decider(uow)
    revoke_rows(uow, still_open, reason=(reason or "").strip() or None)
    return still_open


def revoke_rows(uow: UnitOfWork, rows: Sequence[PullRequestException], *, reason: str | None) -> None:
    """Revoke locked open rows of one group, as the unit's actor, and have the checks written anew."""
    before = told(uow, rows)
    for row in rows:
        row.revoked_by, row.revoked_at = uow.actor.as_json(), uow.now
    record(uow, "revoked", rows, before, reason=reason)
    if any(row.decision == "granted" for row in rows):
        write_checks(uow, rows[0].branch_id)
