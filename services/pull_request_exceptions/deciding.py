"""Deciding on requests: granting or denying what is still pending of a group."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import EllipsisType

from models.exceptions import PullRequestException
from models.pull_requests import PullRequest
from models.queries import covering_freezes
from models.repositories import Repository, WatchedBranch
from rules.errors import Detail, ServiceError
from services.core.unit_of_work import UnitOfWork
from services.freezes.start import require_future
from services.pull_request_exceptions.covering import require_permitted
from services.pull_request_exceptions.locking import lock_group
from services.pull_request_exceptions.recording import record, told, write_checks
from services.pull_request_exceptions.rights import check_own, require_decider
from services.pull_request_exceptions.states import get_exception, states_of
from services.repositories.tracked_pull_requests import TrackedPullRequest


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decides."""

    granted: bool
    reason: str | None = None
    expires_at: datetime | EllipsisType | None = ...
    """`...`: as it was requested."""
    pin_to_head: bool | None = None
    """None: as it was requested."""
    only_this: bool = False


def decide(uow: UnitOfWork, exception_id: str, decision: Decision) -> Sequence[PullRequestException]:
    """Grant or deny every pending row of an exception's group, or this one alone; returns the rows decided.

    Raises `insufficient_permission` (also for a request of one's own), `exception_not_found`, `invalid_state` when
    nothing of it is pending, or its pinned commit is no longer the head, `exceptions_not_permitted` when the branch
    has meanwhile been set to take none, and `invalid_parameter`.
    """
    require_decider(uow)
    _require_sense(decision)
    row = get_exception(uow, exception_id)
    group = [one for one in lock_group(uow, row) if one.id == row.id or not decision.only_this]
    states = states_of(uow, group)
    pending = [one for one in group if states[one.id] == "pending"]
    if not pending:
        raise ServiceError("invalid_state", f"Nothing of this request is pending: it is {states[row.id]}.")
    own = check_own(uow, pending)
    before = told(uow, pending)
    if decision.granted:
        _grant(uow, pending, decision)
    for one in pending:
        one.decision = "granted" if decision.granted else "denied"
        one.decided_by, one.decided_at = uow.actor.as_json(), uow.now
        one.decision_reason = (decision.reason or "").strip() or None
    details = {"reason": pending[0].decision_reason, **({"selfApproved": True} if own else {})}
    record(uow, "granted" if decision.granted else "denied", pending, before, **details)
    if decision.granted:
        write_checks(uow, row.branch_id)
    return pending


def _require_sense(decision: Decision) -> None:
    """Raise `invalid_parameter` for what a denial has no use for."""
    given = {"expiresAt": decision.expires_at is not ..., "pinToHead": decision.pin_to_head is not None}
    message = "is for a grant; a denial has no use for it"
    useless = () if decision.granted else tuple(name for name, there in given.items() if there)
    if useless:
        details = tuple(Detail(f"/{name}", message, "invalid_parameter") for name in useless)
        raise ServiceError("invalid_parameter", f"{useless[0]} {message}.", details=details)


def _grant(uow: UnitOfWork, rows: Sequence[PullRequestException], decision: Decision) -> None:
    pull = uow.session.get_one(PullRequest, rows[0].pull_request_id, populate_existing=True)
    if decision.expires_at is not ...:
        require_future(uow, decision.expires_at, "expiresAt")
    _require_permitted(uow, pull, rows)
    for row in rows:
        if row.pin_to_head and row.head_sha != pull.head_sha:
            raise ServiceError(
                "invalid_state",
                f"The request is for the commit {row.head_sha}, and the head is {pull.head_sha} now; it has to be "
                "requested anew.",
            )
        if decision.expires_at is not ...:
            row.expires_at = decision.expires_at
        if decision.pin_to_head is not None:
            row.pin_to_head = decision.pin_to_head
        row.head_sha = pull.head_sha


def _require_permitted(uow: UnitOfWork, pull: PullRequest, rows: Sequence[PullRequestException]) -> None:
    branch = uow.session.get_one(WatchedBranch, rows[0].branch_id)
    tracked = TrackedPullRequest(pull, branch, uow.session.get_one(Repository, pull.repository_id))
    wanted = {row.freeze_id for row in rows}
    covering = covering_freezes(uow.session, [branch.id], uow.now).get(branch.id, ())
    require_permitted(tracked, [freeze for freeze in covering if freeze.id in wanted])
