"""Changes of one branch by clients of the classic service: freezing, unfreezing, and the pull requests let through.

The changes of a branch take turns, by an advisory lock that comes before all others, so that what a client wants is
compared with what there is then. `user_name` is recorded as a claim beside the key, which is the actor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.queries import covering_freezes
from rules.billing.plans import require_feature
from rules.errors import ServiceError
from rules.freezes.limits import FreezeLimits
from rules.freezes.reasons import is_reason
from rules.freezes.verdict import CoveringFreeze
from services.compatibility import branches
from services.compatibility.branches import Row
from services.core.named_locks import acquire_lock
from services.core.unit_of_work import UnitOfWork
from services.freezes.end import end_own_freezes, own_freezes
from services.freezes.start import NewFreeze, start
from services.freezes.windows import begin_windows, due_on_branch, lock_windows
from services.github_access.client import installation_of
from services.pull_request_exceptions import decisions
from services.pull_request_exceptions.requests import ExceptionInput
from services.repositories.tracked_pull_requests import TrackedPullRequest, find

MAX_REASON_LENGTH = 1000
MAX_LISTED = 20
"""Freezes that an answer names."""


@dataclass(frozen=True, slots=True)
class BranchChange:
    """What a client wants of a branch."""

    frozen: bool | None = None
    """None: as it is."""
    unblocked_prs: Sequence[int] | None = None
    """The numbers of all pull requests that may merge. None: as they are."""
    user_name: str = ""
    note: str = ""

    def reason_of_freeze(self) -> str:
        """Return the reason of a freeze: the note, if it is long enough to be one alone."""
        if is_reason(self.note):
            return self.note
        by = f"Frozen by {self.user_name}" if self.user_name else "Frozen through the compatibility API"
        return (f"{by}: {self.note}" if self.note else by)[:MAX_REASON_LENGTH]

    def reason_of_exceptions(self) -> str:
        """Return the reason of granted and revoked exceptions: the note, if it is long enough to be one."""
        if is_reason(self.note):
            return self.note
        return f"Let through by {self.user_name or 'a client'} (compatibility API)"


def change(uow: UnitOfWork, account: str, repository: str, branch: str, wanted: BranchChange) -> dict[str, Any]:
    """Change a branch and return it.

    Raise `repository_not_found`, `branch_not_found`; for `frozen=true` the errors of `installation_of`; for
    `frozen=false` `invalid_state` if only freezes of other branches as well cover it; for `unblocked_prs` those of
    `_let_through`.
    """
    rows = branches.find(uow, account, repository, branch)
    if wanted.frozen is None and wanted.unblocked_prs is None:
        return branches.view(uow, rows)
    branch_id = rows[0]["branch_id"]
    acquire_lock(uow, f"compatibility {branch_id}")
    ended = False
    with uow.impersonate(claimed_by=wanted.user_name or None):
        if wanted.frozen:
            _freeze(uow, branch_id, wanted)
        elif wanted.frozen is False:
            ended = bool(end_own_freezes(uow, branch_id, wanted.note or None))
        if wanted.unblocked_prs is not None and wanted.frozen is not False:
            _let_through(uow, branches.find(uow, account, repository, branch), wanted)
    uow.session.flush()
    rows = branches.find(uow, account, repository, branch)
    shown = branches.view(uow, rows)
    if wanted.frozen is False and shown["frozen"]:
        still = _covering(uow, branch_id)
        if not ended:
            raise _not_ended(shown, still)
        shown["still_frozen_by"] = [{"id": freeze.id, "reason": freeze.reason} for freeze in still[:MAX_LISTED]]
    return shown


def _freeze(uow: UnitOfWork, branch_id: str, wanted: BranchChange) -> None:
    installation_of(uow)
    if own_freezes(uow, branch_id):
        return
    if wanted.unblocked_prs is not None:  # windows are locked before freezes, those before their branches
        due = lock_windows(uow, due_on_branch(uow, branch_id))
        covering = select(Freeze.id).where(Freeze.id.in_([freeze.id for freeze in _covering(uow, branch_id)]))
        uow.session.execute(covering.order_by(Freeze.id).with_for_update(read=True))
        begin_windows(uow, due)
    scope = {"type": "branch", "branchId": branch_id}
    start(uow, NewFreeze(scope, wanted.reason_of_freeze()), max_targets=uow.ports[FreezeLimits].max_targets)


def _not_ended(shown: dict[str, Any], still: Sequence[CoveringFreeze]) -> ServiceError:
    listed = ", ".join(f"{freeze.id} ({freeze.reason})" for freeze in still[:MAX_LISTED])
    return ServiceError(
        "invalid_state",
        f"{shown['repository']} {shown['branch']} stays frozen by freezes that cover other branches as well; end them "
        f"by their ids: {listed}",
    )


def _covering(uow: UnitOfWork, branch_id: str) -> Sequence[CoveringFreeze]:
    return covering_freezes(uow.session, [branch_id], uow.now).get(branch_id, ())


def _let_through(uow: UnitOfWork, rows: Sequence[Row], wanted: BranchChange) -> None:
    """Grant and revoke exceptions, so that exactly the wanted pull requests and those of others may merge.

    Nothing is stored while the branch is not frozen. Raise `pull_request_not_found`, `feature_not_available` and
    `exceptions_not_permitted`.
    """
    if all(row["id"] is None for row in rows):
        return
    numbers = set(wanted.unblocked_prs or ())
    tracked = [_tracked(uow, rows[0], number) for number in sorted(numbers)]
    reason = wanted.reason_of_exceptions()
    already = branches.let_through(rows)
    for pull_request in tracked:
        if pull_request.pull.number not in already:
            require_feature(uow.plan, "pr_exceptions")
            decisions.require_decider(uow)
            decisions.grant_for(uow, pull_request, ExceptionInput(reason))
    row = PullRequestException
    granted = (
        select(row)
        .join(Freeze, Freeze.id == row.freeze_id)
        .join(PullRequest, PullRequest.id == row.pull_request_id)
        .where(
            row.branch_id == rows[0]["branch_id"],
            row.decided_through == "compat",
            row.is_active(uow.now, Freeze.is_in_force(uow.now)),
            PullRequest.number.not_in(numbers),
        )
        .order_by(row.id)
    )
    groups = {one.request_group_id: one.id for one in uow.session.scalars(granted)}
    for exception_id in groups.values():
        decisions.revoke(uow, exception_id, reason)


def _tracked(uow: UnitOfWork, row: Row, number: int) -> TrackedPullRequest:
    found = find(uow, f"{row['repository']}#{number}", None, path="unblocked_prs")
    if found.branch.id != row["branch_id"]:
        raise ServiceError(
            "pull_request_not_found", f"Pull request {row['repository']}#{number} goes into {found.branch.name}."
        )
    return found
