"""Granting exceptions that nobody asked for, or that somebody has asked for: a grant decides what is pending."""

from collections.abc import Sequence

from models.exceptions import PullRequestException
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.covering import Covered, Wanted, add_rows, cover, named
from services.pull_request_exceptions.recording import name_of, record, told, write_checks
from services.pull_request_exceptions.rights import check_own, require_decider


def grant(uow: UnitOfWork, pull_request: str, repo: str | None, wanted: Wanted) -> Sequence[PullRequestException]:
    """Let a pull request through every freeze that covers it, as one group: all of them, or none.

    Freezes that it has been granted an exception from already are left as they are. Raises `insufficient_permission`,
    `already_exists` when that is true of every one, and what `named` and `cover` raise.
    """
    require_decider(uow)
    covered = cover(uow, named(uow, pull_request, repo, wanted), wanted)
    pending = sorted(covered.pending, key=lambda row: row.id)
    if not pending and not covered.bare:
        raise ServiceError(
            "already_exists",
            f"{name_of(uow, covered.tracked.pull.id)} has been granted an exception from every freeze that covers "
            f"it: {', '.join(sorted(row.id for row in covered.rows.values()))}.",
        )
    own = check_own(uow, pending)
    before = told(uow, pending)
    group_id = pending[0].request_group_id if pending else new_id("exg")
    rows = [*pending, *add_rows(uow, covered, covered.bare, group_id)]
    for row in rows:
        _grant(uow, row, covered, group_id)
    record(uow, "granted", rows, before, reason=covered.wanted.reason, **({"selfApproved": True} if own else {}))
    write_checks(uow, covered.tracked.branch.id)
    return rows


def _grant(uow: UnitOfWork, row: PullRequestException, covered: Covered, group_id: str) -> None:
    wanted = covered.wanted
    row.request_group_id = group_id
    row.decision, row.decided_by, row.decided_at = "granted", uow.actor.as_json(), uow.now
    row.decision_reason = wanted.reason if row.requested_by is not None else None
    row.expires_at, row.pin_to_head = wanted.expires_at, bool(wanted.pin_to_head)
    row.head_sha = covered.tracked.pull.head_sha
