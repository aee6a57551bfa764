"""What requesting and granting have in common: the pull request, what covers its base, and the rows that come of it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from models.exceptions import PullRequestException
from rules.errors import ServiceError, merge_errors
from rules.freezes.verdict import CoveringFreeze
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.freezes.start import checked_reason, require_future
from services.pull_request_exceptions.lapsing import record_end
from services.pull_request_exceptions.locking import lock_base, open_rows
from services.pull_request_exceptions.recording import name_of, write_checks
from services.pull_request_exceptions.revoking import PUSHED, revoke_rows
from services.repositories.tracked_pull_requests import TrackedPullRequest, find

MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody requests, or grants."""

    reason: str
    expires_at: datetime | None = None
    pin_to_head: bool | None = None
    """None: as suits who acts. A key, or an agent, means the commit that it has seen; a person the pull request."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A pull request, the freezes that cover its base, and its rows against them, all locked."""

    tracked: TrackedPullRequest
    wanted: Wanted
    freezes: Sequence[CoveringFreeze]
    rows: dict[str, PullRequestException]
    """By freeze: pending or granted ones."""

    @property
    def pending(self) -> list[PullRequestException]:
        """The requests that nobody has decided."""
        return [row for row in self.rows.values() if row.decision is None]

    @property
    def bare(self) -> list[str]:
        """The freezes that the pull request has neither an exception from nor a request for one."""
        return [freeze.id for freeze in self.freezes if freeze.id not in self.rows]


def named(uow: UnitOfWork, pull_request: str, repo: str | None, wanted: Wanted) -> TrackedPullRequest:
    """Return the pull request that a client names in a body; raises what `find` raises, with every fault's row."""
    try:
        return find(uow, pull_request, repo, path="/pullRequest", repo_path="/repo")
    except ServiceError as fault:
        if not fault.details:
            raise
        try:
            require_future(uow, wanted.expires_at, "expiresAt")
        except ServiceError as another:
            raise merge_errors([fault, another]) from None
        raise


def cover(uow: UnitOfWork, tracked: TrackedPullRequest, wanted: Wanted) -> Covered:
    """Lock what is concerned, and check that exceptions are possible; the unit goes on in the present.

    Raises `reason_required`, `invalid_parameter` (an end that is not in the future), `not_frozen`,
    `exceptions_not_permitted`.
    """
    reason = checked_reason(wanted.reason)
    freezes = lock_base(uow, tracked.branch.id)
    uow.session.refresh(tracked.pull)
    require_future(uow, wanted.expires_at, "expiresAt")
    if not freezes:
        raise ServiceError(
            "not_frozen", f"No freeze covers {_base(tracked)}; {name_of(uow, tracked.pull.id)} needs no exception."
        )
    require_permitted(tracked, freezes)
    rows = open_rows(uow, tracked.pull.id, tracked.branch.id, [freeze.id for freeze in freezes])
    for freeze_id in _end_what_is_over(uow, tracked, rows.values()):
        del rows[freeze_id]
    return Covered(tracked, Wanted(reason, wanted.expires_at, _pins(uow, wanted.pin_to_head)), freezes, rows)


def _end_what_is_over(uow: UnitOfWork, tracked: TrackedPullRequest, rows: Iterable[PullRequestException]) -> list[str]:
    """Record the end of rows whose time has passed, and of those for a commit that is no longer the head.

    They would stand in the way of new ones. Once an end is recorded, no sweeper comes back to it: where it was of a
    granted one, the checks are written anew. Returns their freezes.
    """
    late = [row for row in rows if row.expires_at is not None and row.expires_at <= uow.now]
    moved = [row for row in rows if row not in late and row.pin_to_head and row.head_sha != tracked.pull.head_sha]
    for row in late:
        record_end(uow, ("exception", row.id, name_of(uow, tracked.pull.id)), row, row.expires_at or uow.now)
    with uow.act_as_service():
        for row in moved:
            revoke_rows(uow, [row], reason=PUSHED)
    uow.session.flush()
    if any(row.decision == "granted" for row in late):
        write_checks(uow, tracked.branch.id)
    return [row.freeze_id for row in (*late, *moved)]


def _pins(uow: UnitOfWork, asked: bool | None) -> bool:  # noqa: FBT001 - a property of a body
    return asked if asked is not None else uow.actor.type == "api_key" or uow.caller.source == "mcp"


def require_permitted(tracked: TrackedPullRequest, freezes: Iterable[CoveringFreeze]) -> None:
    """Raise `exceptions_not_permitted`, naming what was set up without exceptions, if anything was."""
    if not tracked.branch.exceptions_allowed:
        raise ServiceError(
            "exceptions_not_permitted",
            f"The branch {_base(tracked)} ({tracked.branch.id}) is set to take no exceptions.",
        )
    without = [freeze for freeze in freezes if not freeze.exceptions_allowed]
    if without:
        named = ", ".join(f"{freeze.id} ({freeze.reason})" for freeze in without[:MOST_NAMED])
        raise ServiceError(
            "exceptions_not_permitted", f"No exceptions are permitted from what covers {_base(tracked)}: {named}."
        )


def _base(tracked: TrackedPullRequest) -> str:
    return f"{tracked.repository.full_name}:{tracked.branch.name}"


def add_rows(
    uow: UnitOfWork, covered: Covered, freeze_ids: Collection[str], group_id: str
) -> list[PullRequestException]:
    """Add rows, pending and of nobody yet, for freezes that the pull request has none for."""
    wanted = covered.wanted
    rows = [
        PullRequestException(
            id=new_id("exc"),
            organization_id=uow.organization,
            request_group_id=group_id,
            freeze_id=freeze_id,
            pull_request_id=covered.tracked.pull.id,
            branch_id=covered.tracked.branch.id,
            reason=wanted.reason,
            pin_to_head=bool(wanted.pin_to_head),
            head_sha=covered.tracked.pull.head_sha,
            created_at=uow.now,
            expires_at=wanted.expires_at,
        )
        for freeze_id in freeze_ids
    ]
    uow.session.add_all(rows)
    return rows
