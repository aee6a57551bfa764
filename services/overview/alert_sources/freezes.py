"""Alerts about freezes: checks that could not be written, and requests to be decided."""

from sqlalchemy import (
    String,
    case,
    cast,
    func,
    literal,
    select,
)

from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.web_addresses import EXCEPTIONS, FREEZE
from services.overview.alert_sources.columns import DECIDABLE, NOW, ORGANIZATION, Query, alert_columns, page

NOT_BLOCKED = "%s may not be blocked by the freeze “%s”: checks could not be written."
STILL_BLOCKED = "%s may still be blocked by the freeze “%s”, which has ended: checks could not be written."
RETRIED = " %s: %s They are retried automatically; the page of the freeze can retry them now."
REQUESTED = "%s requests to merge %s during a freeze: “%s”. Approve or deny it."
UNDECIDABLE = (
    "%s requests to merge %s during a freeze: “%s”. The plan no longer includes exceptions: withdraw the "
    "request, or change the plan."
)


def failed_targets() -> Query:
    """Return an alert per freeze with failed targets: not blocked while it is in force, still blocked after its end.

    Repositories that were removed from the installation are left out, because no checks are written there.
    """
    running = Freeze.is_in_force(NOW)
    since = case((running, Freeze.started_at), else_=func.coalesce(Freeze.ended_at, Freeze.ends_at))
    first = func.min(Repository.owner + "/" + Repository.name + ":" + WatchedBranch.name)
    message = func.format(
        case((running, NOT_BLOCKED), else_=STILL_BLOCKED) + RETRIED,
        case((func.count() == 1, "1 branch"), else_=func.concat(func.count(), " branches")),
        Freeze.reason,
        first,
        func.max(FreezeTarget.last_error_message),
    )
    query = select(
        *alert_columns(
            "failed_targets",
            case((running, "critical"), else_="warning"),
            since,
            ("freeze", Freeze.id, Freeze.reason),
            message,
            ("Open the freeze", page(FREEZE, Freeze.id)),
        )
    )
    return (
        query.join_from(FreezeTarget, Freeze, Freeze.id == FreezeTarget.freeze_id)
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .join(Installation, Installation.id == Repository.installation_id)
        .where(FreezeTarget.organization_id == ORGANIZATION, FreezeTarget.state == "failed")
        .where(Repository.removed_at.is_(None), Installation.state != "removed")
        .group_by(Freeze.id)
    )


def pending_requests() -> Query:
    """Return an alert per group of pending requests of an open pull request: they are decided together.

    If the plan no longer includes exceptions, requests cannot be decided, and the message proposes to revoke them.
    Repositories that were removed from the installation are left out.
    """
    row = PullRequestException
    name = Repository.owner + "/" + Repository.name + "#" + cast(PullRequest.number, String)
    requester = func.coalesce(func.min(row.requested_by["name"].astext), "A user")
    message = func.format(
        case((DECIDABLE, REQUESTED), else_=UNDECIDABLE),
        requester,
        name,
        func.min(row.reason),
    )
    query = select(
        *alert_columns(
            "pending_request",
            literal("warning"),
            func.min(func.coalesce(row.requested_at, row.created_at)),
            ("exception", func.min(row.id), name),
            message,
            ("Open the exceptions", page(EXCEPTIONS)),
            about=row.request_group_id,
        )
    )
    return (
        query.join_from(row, Freeze, Freeze.id == row.freeze_id)
        .join(PullRequest, PullRequest.id == row.pull_request_id)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .where(
            row.organization_id == ORGANIZATION,
            PullRequestException.has_state("pending", NOW, Freeze.is_in_force(NOW)),
        )
        .where(PullRequest.state == "open", Repository.removed_at.is_(None))
        .group_by(row.request_group_id, PullRequest.id, Repository.id)
    )
