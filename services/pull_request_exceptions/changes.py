"""What every change of an exception has in common: its locks, one audit entry, and new checks.

Locks are taken in one order: due windows, the freezes, the branch, the exceptions. A freeze is locked shared: it cannot
end meanwhile, and others may be granted exceptions from it at the same time. The branch is locked against every other
change of its exceptions, and against a freeze that begins: that one bumps the generation of the branch. After waiting,
the transaction goes on at the present instant. A freeze that came into force while it waited would have to be locked
after the branch; then all locks are released, and taken again in order.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import aliased

from models.checks import mark_dirty
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.queries import covering_freezes
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from rules.freezes.bypass import Push
from rules.freezes.verdict import CoveringFreeze
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.frozen_branch_requests import request_stops
from services.freezes.windows import begin_windows, due_on_branch, lock_windows
from services.repositories.tracked_pull_requests import TrackedPullRequest

MAX_LISTED = 20
REVOKED_BY_PUSH = "The exception was pinned to a commit, and another commit was pushed."

Facts = TypeVar("Facts")
Snapshot = Mapping[str, Any]
"""What the audit holds of an exception before and after a change."""


def lock_base(uow: UnitOfWork, branch_id: str) -> Sequence[CoveringFreeze]:
    """Lock a branch with the freezes that cover it, and return them, oldest first; due windows begin."""

    def covering() -> Sequence[CoveringFreeze]:
        return covering_freezes(uow.session, [branch_id], uow.now).get(branch_id, ())

    return _lock(
        uow,
        branch_id,
        covering,
        lambda freezes: [freeze.id for freeze in freezes],
        has_due=lambda freezes: any(not freeze.begun for freeze in freezes),
    )


def lock_group(uow: UnitOfWork, row: PullRequestException) -> Sequence[PullRequestException]:
    """Lock the exceptions of a group with their freezes and their branch, and return them, oldest first.

    The group of the exception is read under the locks as well: a grant makes one group of all that is pending.
    """
    same = aliased(PullRequestException)
    group_id = select(same.request_group_id).where(same.id == row.id).scalar_subquery()
    in_group = select(PullRequestException).where(
        PullRequestException.organization_id == uow.organization, PullRequestException.request_group_id == group_id
    )
    ordered = in_group.order_by(PullRequestException.id).execution_options(populate_existing=True)

    def group() -> Sequence[PullRequestException]:
        return uow.session.scalars(ordered).all()

    _lock(uow, row.branch_id, group, lambda rows: [row.freeze_id for row in rows])
    return uow.session.scalars(ordered.with_for_update()).all()


def _lock(
    uow: UnitOfWork,
    branch_id: str,
    read: Callable[[], Facts],
    freeze_ids_of: Callable[[Facts], Collection[str]],
    *,
    has_due: Callable[[Facts], bool] = lambda _facts: False,
) -> Facts:
    """Lock the freezes of what `read` returns, then the branch; return what is read under the locks.

    If it `has_due` windows, those that cover the branch begin: they are locked first of all.
    """
    while True:
        before = read()
        wanted = sorted(freeze_ids_of(before))
        with uow.session.begin_nested() as savepoint:
            due = lock_windows(uow, due_on_branch(uow, branch_id)) if has_due(before) else []
            freezes = select(Freeze.id).where(Freeze.id.in_(wanted)).order_by(Freeze.id)
            uow.session.execute(freezes.with_for_update(read=True))
            begin_windows(uow, due)
            branch = select(WatchedBranch).where(WatchedBranch.id == branch_id).with_for_update(key_share=True)
            uow.session.scalars(branch.execution_options(populate_existing=True)).one()
            uow.refresh_now()
            facts = read()
            if set(freeze_ids_of(facts)) <= set(wanted):
                return facts
            savepoint.rollback()


def require_permitted(tracked: TrackedPullRequest, freezes: Iterable[CoveringFreeze]) -> None:
    """Raise `exceptions_not_permitted`, naming the branch or the freezes, if one of them permits no exceptions."""
    base = f"{tracked.repository.full_name}:{tracked.branch.name}"
    if not tracked.branch.exceptions_allowed:
        raise ServiceError(
            "exceptions_not_permitted", f"The branch {base} ({tracked.branch.id}) does not permit exceptions."
        )
    without = [freeze for freeze in freezes if not freeze.exceptions_allowed]
    if without:
        listed = ", ".join(f"{freeze.id} ({freeze.reason})" for freeze in without[:MAX_LISTED])
        raise ServiceError("exceptions_not_permitted", f"Freezes that cover {base} permit no exceptions: {listed}.")


def audit_snapshots(uow: UnitOfWork, rows: Iterable[PullRequestException]) -> dict[str, Snapshot]:
    """Return, by id, what the audit holds of exceptions whose freezes are locked and in force."""
    return {
        row.id: {
            "state": row.state(uow.now, freeze_in_force=True),
            "expiresAt": row.expires_at,
            "pinToHead": row.pin_to_head,
            "headSha": row.head_sha,
        }
        for row in rows
    }


def audit_change(
    uow: UnitOfWork,
    action: str,
    rows: Sequence[PullRequestException],
    before: Mapping[str, Snapshot],
    *,
    name: str | None = None,
    sharing: Sequence[str] = (),
    details: Mapping[str, Any],
) -> None:
    """Write one audit entry on changed exceptions of one pull request; `before` lacks those that are new.

    `name` is that of the pull request, if the caller knows it; `sharing` names the other pull requests of its head that
    a grant lets in as well.
    """
    uow.session.flush()
    after = audit_snapshots(uow, rows)
    listed = [
        {"id": row.id, "freezeId": row.freeze_id, "before": before.get(row.id), "after": after[row.id]} for row in rows
    ]
    name = name or pull_request_name(uow, rows[0].pull_request_id)
    shared = {"sharedHeadWith": sharing[:MAX_LISTED]} if sharing else {}
    uow.audit(f"exception.{action}", _audit_target(rows, name), pullRequest=name, rows=listed, **details, **shared)


def others_on_head(uow: UnitOfWork, row: PullRequestException) -> list[str]:
    """Return the names of the other open pull requests of the commit into the same branch, which share the check."""
    same = aliased(PullRequest)
    query = (
        select(PullRequest.id)
        .join(same, (same.repository_id == PullRequest.repository_id) & (same.head_sha == PullRequest.head_sha))
        .where(same.id == row.pull_request_id, same.base_branch == PullRequest.base_branch, same.id != PullRequest.id)
        .where(PullRequest.state == "open")
        .order_by(PullRequest.number)
        .limit(MAX_LISTED)
    )
    pull_ids = uow.session.scalars(query).all()
    names = pull_request_names(uow, pull_ids) if pull_ids else {}
    return [names[pull_id] for pull_id in pull_ids]


def _audit_target(rows: Sequence[PullRequestException], name: str) -> tuple[str, str, str]:
    return "exception", rows[0].id if len(rows) == 1 else rows[0].request_group_id, name


def pull_request_name(uow: UnitOfWork, pull_request_id: str) -> str:
    """Return a pull request's name, `owner/repo#7`."""
    return pull_request_names(uow, [pull_request_id])[pull_request_id]


def pull_request_names(uow: UnitOfWork, pull_request_ids: Collection[str]) -> dict[str, str]:
    """Return the names of pull requests, by id."""
    query = (
        select(PullRequest.id, PullRequest.number, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .where(PullRequest.id.in_(pull_request_ids))
    )
    rows = uow.session.execute(query)
    return {pull_id: f"{repository.full_name}#{number}" for pull_id, number, repository in rows}


def schedule_checks(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Have the checks on the heads into locked branches evaluated and written again."""
    mark_dirty(uow.session, sorted(branch_ids), uow.now)
    request_stops(uow, branch_ids)
    uow.wake("reconcile")


def revoke_rows(uow: UnitOfWork, rows: Sequence[PullRequestException], *, reason: str | None, **details: Any) -> None:
    """Revoke locked open exceptions of one group as the caller."""
    before = audit_snapshots(uow, rows)
    for row in rows:
        row.revoked_by, row.revoked_at = uow.actor.as_json(), uow.now
    audit_change(uow, "revoked", rows, before, details={"reason": reason, **details})


def expire_row(uow: UnitOfWork, row: PullRequestException, ended_at: datetime, name: str) -> None:
    """Record the end of a locked exception whose time has passed; the audit names the service."""
    row.expired_at = ended_at
    change = {
        "id": row.id,
        "freezeId": row.freeze_id,
        "before": {"state": row.decision or "pending"},
        "after": {"state": "expired", "endedAt": ended_at},
    }
    with uow.act_as_service():
        uow.audit("exception.expired", ("exception", row.id, name), rows=[change])


def mark_used(uow: UnitOfWork, exception_ids: Collection[str], push: Push) -> None:
    """Record, once, the merge that exceptions of one pull request have allowed; `usedAt` is by GitHub's clock."""
    row = PullRequestException
    unused = select(row).where(row.id.in_(exception_ids), row.used_at.is_(None)).order_by(row.id).with_for_update()
    rows = uow.session.scalars(unused).all() if exception_ids else []
    for one in rows:
        one.used_at, one.used_commit = push.instant, push.commit
    if not rows:
        return
    name = pull_request_name(uow, rows[0].pull_request_id)
    uow.audit(
        "exception.used",
        _audit_target(rows, name),
        pullRequest=name,
        commit=push.commit,
        landedAt=push.instant,
        rows=[{"id": one.id, "freezeId": one.freeze_id} for one in rows],
    )
