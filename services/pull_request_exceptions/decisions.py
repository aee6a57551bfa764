"""Decisions on exceptions: granting, denying and revoking them, and who may do that.

A key decides by its scope, a person by the role that the organisation requires. A request of one's own is decided by
another person, unless the organisation allows self-approval; the audit then says so. Own is what the person behind the
actor requested: with a key that they made, or with their account at GitHub. Revoking needs no plan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import EllipsisType

from models.exceptions import PullRequestException
from models.pull_requests import PullRequest
from models.queries import covering_freezes, exception_states
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import role_reaches
from rules.access.persons import Sameness, same_person
from rules.errors import Detail, ServiceError
from rules.freezes.pull_request_exceptions import OPEN_STATES
from rules.ids import new_id
from services.core.lookups import get_exception, get_organization_settings, role_of_caller
from services.core.unit_of_work import UnitOfWork
from services.freezes.start import require_future
from services.identity.github_links import person_behind
from services.pull_request_exceptions.changes import (
    audit_change,
    audit_snapshots,
    lock_group,
    others_on_head,
    require_permitted,
    revoke_rows,
    schedule_checks,
)
from services.pull_request_exceptions.requests import (
    ExceptionInput,
    MadeExceptions,
    add_rows,
    find_pull_request,
    lock_pull_request,
)
from services.repositories.tracked_pull_requests import TrackedPullRequest


@dataclass(frozen=True, slots=True)
class ExceptionDecision:
    """A decision on a request."""

    granted: bool
    reason: str | None = None
    expires_at: datetime | EllipsisType | None = ...
    """`...`: as it was requested."""
    pin_to_head: bool | None = None
    """None: as it was requested."""
    only_this: bool = False


def grant(uow: UnitOfWork, pull_request: str, repo: str | None, wanted: ExceptionInput) -> MadeExceptions:
    """Let the pull request that a client names pass every freeze that covers it.

    Raise `insufficient_permission`, and what `find_pull_request` and `grant_for` raise.
    """
    require_decider(uow)
    return grant_for(uow, find_pull_request(uow, pull_request, repo, wanted), wanted)


def grant_for(uow: UnitOfWork, tracked: TrackedPullRequest, wanted: ExceptionInput) -> MadeExceptions:
    """Let a pull request pass every freeze that covers it, as one group: all of them, or none.

    The caller has been checked to be a decider. Pending requests are granted; freezes from which it has an exception
    are left out. Raise `already_exists` if that is true of every freeze, and what `lock_pull_request` raises.
    """
    locked = lock_pull_request(uow, tracked, wanted)
    pending, tracked, wanted = locked.pending, locked.tracked, locked.wanted
    if not pending and not locked.uncovered_freezes:
        raise ServiceError(
            "already_exists",
            f"{locked.name} has an exception from every freeze that covers it: {locked.listed}.",
        )
    self_approved = check_self_approval(uow, pending, locked.settled)
    before = audit_snapshots(uow, pending)
    group_id = pending[0].request_group_id if pending else new_id("exg")
    rows = [*pending, *add_rows(uow, locked, locked.uncovered_freezes, group_id)]
    for row in rows:
        row.request_group_id = group_id
        row.decision, row.decided_by, row.decided_at = "granted", uow.actor.as_json(), uow.now
        row.decided_through = uow.caller.source
        row.decision_reason = wanted.reason if row.requested_by is not None else None
        row.expires_at, row.pin_to_head = wanted.expires_at, bool(wanted.pin_to_head)
        row.head_sha = tracked.pull.head_sha
    details = {"reason": wanted.reason, **self_approved}
    audit_change(uow, "granted", rows, before, name=locked.name, sharing=locked.sharing, details=details)
    schedule_checks(uow, [tracked.branch.id])
    return MadeExceptions(rows, locked)


def decide(uow: UnitOfWork, exception_id: str, decision: ExceptionDecision) -> Sequence[PullRequestException]:
    """Grant or deny every pending request of an exception's group, or only this one; return those decided.

    Raise `insufficient_permission` (also for a request of one's own), `exception_not_found`, `invalid_state` if nothing
    is pending or the pinned commit is no longer the head, `exceptions_not_permitted` if the branch was meanwhile set to
    permit none, and `invalid_parameter`.
    """
    require_decider(uow)
    _forbid_grant_terms(decision)
    row = get_exception(uow, exception_id)
    group = [one for one in lock_group(uow, row) if one.id == row.id or not decision.only_this]
    states = exception_states(uow.session, group, uow.now)
    pending = [one for one in group if states[one.id] == "pending"]
    if not pending:
        raise ServiceError("invalid_state", f"The request is not pending any more: it is {states[row.id]}.")
    self_approved = check_self_approval(uow, pending) if decision.granted else check_self_denial(uow, pending)
    before = audit_snapshots(uow, pending)
    if decision.granted:
        _set_terms(uow, pending, decision)
    for one in pending:
        one.decision = "granted" if decision.granted else "denied"
        one.decided_by, one.decided_at = uow.actor.as_json(), uow.now
        one.decided_through = uow.caller.source
        one.decision_reason = (decision.reason or "").strip() or None
    action = "granted" if decision.granted else "denied"
    sharing = others_on_head(uow, row) if decision.granted else []
    details = {"reason": pending[0].decision_reason, **self_approved}
    audit_change(uow, action, pending, before, sharing=sharing, details=details)
    if decision.granted:
        schedule_checks(uow, [row.branch_id])
    return pending


def _forbid_grant_terms(decision: ExceptionDecision) -> None:
    """Raise `invalid_parameter` if a denial has properties that only a grant can have."""
    given = {"expiresAt": decision.expires_at is not ..., "pinToHead": decision.pin_to_head is not None}
    message = "is not allowed with a denial"
    names = () if decision.granted else tuple(name for name, is_given in given.items() if is_given)
    if names:
        details = tuple(Detail(f"/{name}", message, "invalid_parameter") for name in names)
        raise ServiceError("invalid_parameter", f"{names[0]} {message}.", details=details)


def _set_terms(uow: UnitOfWork, rows: Sequence[PullRequestException], decision: ExceptionDecision) -> None:
    """Give pending requests the end and the pin of a grant, if they may be granted."""
    pull = uow.session.get_one(PullRequest, rows[0].pull_request_id, populate_existing=True)
    if decision.expires_at is not ...:
        require_future(uow, decision.expires_at, "expiresAt")
    branch = uow.session.get_one(WatchedBranch, rows[0].branch_id)
    tracked = TrackedPullRequest(pull, branch, uow.session.get_one(Repository, pull.repository_id))
    freeze_ids = {row.freeze_id for row in rows}
    covering = covering_freezes(uow.session, [branch.id], uow.now).get(branch.id, ())
    require_permitted(tracked, [freeze for freeze in covering if freeze.id in freeze_ids])
    for row in rows:
        if row.pin_to_head and row.head_sha != pull.head_sha:
            raise ServiceError(
                "invalid_state",
                f"The request is pinned to commit {row.head_sha}, and the head is {pull.head_sha} now; request the "
                "exception again.",
            )
        if decision.expires_at is not ...:
            row.expires_at = decision.expires_at
        if decision.pin_to_head is not None:
            row.pin_to_head = decision.pin_to_head
        row.head_sha = pull.head_sha


def revoke(uow: UnitOfWork, exception_id: str, reason: str | None) -> Sequence[PullRequestException]:
    """Revoke every exception of a group that is granted or pending; return those revoked.

    The requester may withdraw a pending request; everything else is for those who decide. Raise `exception_not_found`,
    `insufficient_permission`, `invalid_state` if nothing of the group is open any more.
    """
    row = get_exception(uow, exception_id)
    decides = may_decide(uow)
    if not decides and not is_requester(uow, row):
        require_decider(uow)
    group = lock_group(uow, row)
    states = exception_states(uow.session, group, uow.now)
    still_open = [one for one in group if states[one.id] in OPEN_STATES]
    if not still_open:
        raise ServiceError("invalid_state", f"The exception cannot be revoked: it is {states[row.id]}.")
    if not decides:
        still_open = [one for one in still_open if states[one.id] == "pending" and is_requester(uow, one)]
    if not still_open:
        require_decider(uow)
    revoke_rows(uow, still_open, reason=(reason or "").strip() or None)
    if any(one.decision == "granted" for one in still_open):
        schedule_checks(uow, [row.branch_id])
    return still_open


def may_decide(uow: UnitOfWork) -> bool:
    """Return True if the caller may grant, deny and revoke; the scope of a key was checked before."""
    if uow.actor.type == "api_key":
        return True
    return role_reaches(role_of_caller(uow), get_organization_settings(uow).approval)


def require_decider(uow: UnitOfWork) -> None:
    """Raise `insufficient_permission` unless the caller may grant, deny and revoke."""
    if not may_decide(uow):
        raise ServiceError(
            "insufficient_permission",
            "Granting, denying and revoking exceptions requires the role "
            f"{get_organization_settings(uow).approval} in this organisation.",
        )


def is_requester(uow: UnitOfWork, row: PullRequestException) -> bool:
    """Return True if the person behind the caller made this request."""
    return _compared_with_caller(uow, [row]) == {"same"}


def check_self_approval(
    uow: UnitOfWork, pending: Iterable[PullRequestException], settled: Iterable[PullRequestException] = ()
) -> dict[str, bool | None]:
    """Return what the audit says of a grant to one's own request: nothing if no request is the caller's.

    `selfApproved` is null of a request from an account at GitHub of which nobody knows whether it is the caller's.
    Raise `insufficient_permission` for a request that is or may be one's own, and for one that was settled before and
    is one's own, unless the organisation has set `selfApproval`.
    """
    found = _compared_with_caller(uow, pending)
    if "same" in found or "same" in _compared_with_caller(uow, settled):
        _require_self_approval(uow, "You have requested this exception: another person has to decide on it.")
        return {"selfApproved": True}
    if "unknown" in found:
        _require_self_approval(
            uow,
            "This was requested at GitHub, with an account that may be yours: it belongs to no member, and your own "
            "account is not known here. Deny the request and grant an exception in your own name, or let a member "
            "decide who has connected the GitHub App with their own account.",
        )
        return {"selfApproved": None}
    return {}


def check_self_denial(uow: UnitOfWork, pending: Iterable[PullRequestException]) -> dict[str, bool | None]:
    """Return what the audit says of a denial; raise `insufficient_permission` for a request that is one's own."""
    if "same" not in _compared_with_caller(uow, pending):
        return {}
    return check_self_approval(uow, pending)


def _require_self_approval(uow: UnitOfWork, message: str) -> None:
    if not get_organization_settings(uow).self_approval:
        raise ServiceError("insufficient_permission", message)


def _compared_with_caller(uow: UnitOfWork, rows: Iterable[PullRequestException]) -> set[Sameness]:
    """Return how the requesters compare with the caller."""
    requesters = [row.requested_by for row in rows if row.requested_by is not None]
    if not requesters:
        return set()
    caller = person_behind(uow, uow.actor.as_json())
    return {same_person(person_behind(uow, each), caller) for each in requesters}
