"""Requesting exceptions: for one pull request, from each freeze that covers its base; all of them, or none."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import and_, or_, select

from models.exceptions import PullRequestException
from rules.errors import ServiceError, errors_of, merge_errors
from rules.freezes.verdict import CoveringFreeze
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.freezes.start import checked_reason, require_future
from services.pull_request_exceptions.changes import (
    REVOKED_BY_PUSH,
    audit_change,
    expire_row,
    lock_base,
    pull_request_name,
    require_permitted,
    revoke_rows,
    schedule_checks,
)
from services.repositories.tracked_pull_requests import TrackedPullRequest, find, read_head


@dataclass(frozen=True, slots=True)
class ExceptionInput:
    """What a client requests, or grants."""

    reason: str
    expires_at: datetime | None = None
    pin_to_head: bool | None = None
    """None: the default of the caller. A key or an agent means the commit that it saw, a person the pull request."""


@dataclass(frozen=True, slots=True)
class LockedPullRequest:
    """A pull request, the freezes that cover its base, and its open exceptions from them, all locked."""

    tracked: TrackedPullRequest
    on_head: Sequence[TrackedPullRequest]
    """The open pull requests on its head, whatever their base."""
    wanted: ExceptionInput
    freezes: Sequence[CoveringFreeze]
    rows: dict[str, PullRequestException]
    """By freeze: pending or granted exceptions."""
    settled: Sequence[PullRequestException]
    """The requests for it, from the same freezes, that were withdrawn, revoked or denied."""

    @property
    def name(self) -> str:
        """The name of the pull request, `owner/repo#7`."""
        return f"{self.tracked.repository.full_name}#{self.tracked.pull.number}"

    @property
    def sharing(self) -> list[str]:
        """The names of the others on its head into the same branch: a success lets them in as well."""
        pull = self.tracked.pull
        others = (row for row in self.on_head if row.pull.id != pull.id and row.pull.base_branch == pull.base_branch)
        return [f"{row.repository.full_name}#{row.pull.number}" for row in others]

    @property
    def pending(self) -> list[PullRequestException]:
        """The requests that are not decided, oldest first."""
        return sorted((row for row in self.rows.values() if row.decision is None), key=lambda row: row.id)

    @property
    def uncovered_freezes(self) -> list[str]:
        """The freezes that the pull request has neither an exception from nor a request for one."""
        return [freeze.id for freeze in self.freezes if freeze.id not in self.rows]

    @property
    def listed(self) -> str:
        """The ids of the open exceptions, as a message lists them."""
        return ", ".join(sorted(row.id for row in self.rows.values()))


@dataclass(frozen=True, slots=True)
class MadeExceptions:
    """Exceptions that were requested or granted just now."""

    rows: Sequence[PullRequestException]
    locked: LockedPullRequest


def request(uow: UnitOfWork, pull_request: str, repo: str | None, wanted: ExceptionInput) -> MadeExceptions:
    """Request exceptions for the pull request that a client names.

    Raise what `find_pull_request` and `request_for` raise.
    """
    return request_for(uow, find_pull_request(uow, pull_request, repo, wanted), wanted)


def request_for(uow: UnitOfWork, tracked: TrackedPullRequest, wanted: ExceptionInput) -> MadeExceptions:
    """Request, as the caller, an exception from each freeze that covers a pull request.

    Freezes from which it has an exception, or a request for one, are left out. Raise `already_exists` if that is true
    of every freeze, and what `lock_pull_request` raises.
    """
    locked = lock_pull_request(uow, tracked, wanted)
    if not locked.uncovered_freezes:
        raise ServiceError(
            "already_exists",
            f"{locked.name} has an exception, or a pending request for one, from every freeze that covers it: "
            f"{locked.listed}.",
        )
    rows = add_rows(uow, locked, locked.uncovered_freezes, new_id("exg"))
    for row in rows:
        row.requested_by, row.requested_at = uow.actor.as_json(), uow.now
    audit_change(uow, "requested", rows, {}, name=locked.name, details={"reason": locked.wanted.reason})
    return MadeExceptions(rows, locked)


def find_pull_request(
    uow: UnitOfWork, pull_request: str, repo: str | None, wanted: ExceptionInput
) -> TrackedPullRequest:
    """Return the pull request that a client names in a body; raise what `find` raises, with all invalid properties."""
    try:
        return find(uow, pull_request, repo, path="/pullRequest", repo_path="/repo")
    except ServiceError as error:
        if not error.details:
            raise
        others = errors_of(partial(require_future, uow, wanted.expires_at, "expiresAt"))
        raise merge_errors([error, *others]) from None


def lock_pull_request(uow: UnitOfWork, tracked: TrackedPullRequest, wanted: ExceptionInput) -> LockedPullRequest:
    """Lock a pull request with its freezes and exceptions, and check that exceptions are possible.

    Raise `validation_failed`, `invalid_parameter` (an end that is not in the future), `not_frozen`,
    `exceptions_not_permitted`.
    """
    reason = checked_reason(wanted.reason, "validation_failed")
    freezes = lock_base(uow, tracked.branch.id)
    on_head = read_head(uow, tracked.pull)
    require_future(uow, wanted.expires_at, "expiresAt")
    if not freezes:
        raise ServiceError(
            "not_frozen",
            f"No freeze covers {tracked.repository.full_name}:{tracked.branch.name}; "
            f"{pull_request_name(uow, tracked.pull.id)} needs no exception.",
        )
    require_permitted(tracked, freezes)
    rows, settled = _lock_rows(uow, tracked, [freeze.id for freeze in freezes])
    for freeze_id in _end_outdated(uow, tracked, rows.values()):
        del rows[freeze_id]
    by_default = uow.actor.type == "api_key" or uow.caller.source == "mcp"
    pins = by_default if wanted.pin_to_head is None else wanted.pin_to_head
    terms = ExceptionInput(reason, wanted.expires_at, pins)
    return LockedPullRequest(tracked, on_head, terms, freezes, rows, settled)


def _lock_rows(
    uow: UnitOfWork, tracked: TrackedPullRequest, freeze_ids: Collection[str]
) -> tuple[dict[str, PullRequestException], list[PullRequestException]]:
    """Lock and return exceptions of a pull request: by freeze those whose end is not recorded; requests not granted."""
    row = PullRequestException
    is_settled = and_(row.requested_by.is_not(None), row.decision.is_distinct_from("granted"))
    query = select(row).where(
        row.pull_request_id == tracked.pull.id,
        row.branch_id == tracked.branch.id,
        row.freeze_id.in_(freeze_ids),
        or_(row.is_open, is_settled),
    )
    locking = query.order_by(row.id).with_for_update().execution_options(populate_existing=True)
    found = uow.session.scalars(locking).all()
    is_open = {each.freeze_id: each for each in found if each.is_open}
    return is_open, [each for each in found if each.requested_by is not None and each.decision != "granted"]


def _end_outdated(uow: UnitOfWork, tracked: TrackedPullRequest, rows: Iterable[PullRequestException]) -> list[str]:
    """Record the end of exceptions whose time has passed or whose pinned commit is no longer the head.

    An open exception prevents a new one from the same freeze. The sweep does not see an end that is recorded here,
    so the checks are scheduled here as well. Return the freezes of these exceptions.
    """
    late = [row for row in rows if row.expires_at is not None and row.expires_at <= uow.now]
    stale = [row for row in rows if row not in late and row.pin_to_head and row.head_sha != tracked.pull.head_sha]
    for row in late:
        expire_row(uow, row, row.expires_at or uow.now, pull_request_name(uow, tracked.pull.id))
    with uow.act_as_service():
        for row in stale:
            revoke_rows(uow, [row], reason=REVOKED_BY_PUSH)
    uow.session.flush()
    if any(row.decision == "granted" for row in (*late, *stale)):
        schedule_checks(uow, [tracked.branch.id])
    return [row.freeze_id for row in (*late, *stale)]


def add_rows(
    uow: UnitOfWork, locked: LockedPullRequest, freeze_ids: Collection[str], group_id: str
) -> list[PullRequestException]:
    """Add pending exceptions from freezes; the caller of this function says who requested or granted them."""
    wanted = locked.wanted
    rows = [
        PullRequestException(
            id=new_id("exc"),
            organization_id=uow.organization,
            request_group_id=group_id,
            freeze_id=freeze_id,
            pull_request_id=locked.tracked.pull.id,
            branch_id=locked.tracked.branch.id,
            reason=wanted.reason,
            pin_to_head=bool(wanted.pin_to_head),
            head_sha=locked.tracked.pull.head_sha,
            created_at=uow.now,
            expires_at=wanted.expires_at,
        )
        for freeze_id in freeze_ids
    ]
    uow.session.add_all(rows)
    return rows
