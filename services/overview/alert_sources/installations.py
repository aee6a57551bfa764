"""Alerts about the App's installation: gone, limited by GitHub, or served too late."""

from sqlalchemy import (
    String,
    case,
    cast,
    func,
    literal,
    select,
)

from models.audit import AuditEntry
from models.checks import Check
from models.installations import Installation
from models.repositories import Repository, WatchedBranch
from rules import web_addresses
from rules.freezes.blocking import MAX_WRITE_DELAY
from services.installations.views import NOT_REMOVED
from services.overview.alert_sources.columns import (
    NOW,
    ORGANIZATION,
    Query,
    alert_columns,
    counted,
    format_instant,
    interval,
    page,
)
from services.reconcile.leases import CHECKS

UNINSTALLED = (
    "The GitHub App was uninstalled from %s. Its freezes have ended, and no checks are written. Install it again."
)
SUSPENDED = "The GitHub App is suspended in %s. No checks are written; existing checks stay. Unsuspend it at GitHub."
LIMITED = "GitHub limits our requests for %s until %s. Checks of %s wait, and are written automatically then."
LATE = (
    "Checks of %s in %s wait since %s, such as those of %s, although nothing prevents writing them. A freeze "
    "may not block there yet, or may still block after its end. The operator of the service has to start workers."
)
MAX_REREAD_DELAY = "interval '15 minutes'"
"""For how long a branch may be due that is only read again: its checks are written, and a full resync makes all due."""


def gone_installation() -> Query:
    """Return an alert if the organisation's installation is suspended or removed; the audit has the instant."""
    changed_at = select(func.max(AuditEntry.at)).where(
        AuditEntry.organization_id == ORGANIZATION,
        AuditEntry.target_id == cast(Installation.id, String),
        AuditEntry.action == "installation." + Installation.state,
    )
    template = case((Installation.state == "removed", UNINSTALLED), else_=SUSPENDED)
    message = func.format(template, Installation.account)
    query = select(
        *alert_columns(
            "installation_gone",
            literal("critical"),
            func.coalesce(changed_at.correlate(Installation).scalar_subquery(), Installation.created_at),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("Connect GitHub", page(web_addresses.INSTALLED)),
        )
    )
    order = (NOT_REMOVED.desc(), Installation.created_at.desc(), Installation.id.desc())
    newest = (
        select(Installation.id)
        .where(Installation.organization_id == ORGANIZATION)
        .order_by(*order)
        .limit(1)
        .scalar_subquery()
    )
    return query.where(Installation.id == newest, Installation.state != "active")


def paused_installation() -> Query:
    """Return an alert if GitHub's rate limit pauses the installation, with the number of branches that wait."""
    waiting = (
        select(func.count())
        .select_from(Check)
        .where(
            Check.installation_id == Installation.id,
            Check.branch_id.is_not(None),
            Check.written_generation < Check.wanted_generation,
        )
    )
    message = func.format(
        LIMITED,
        Installation.account,
        format_instant(Installation.paused_until),
        counted(waiting.correlate(Installation).scalar_subquery(), "branch", "branches"),
    )
    query = select(
        *alert_columns(
            "code_host_limit",
            literal("warning"),
            func.coalesce(Installation.paused_since, Installation.created_at),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("See the watched branches", page(web_addresses.BRANCHES)),
        )
    )
    return query.where(
        Installation.organization_id == ORGANIZATION, Installation.state == "active", Installation.paused_until > NOW
    )


def late_enforcement() -> Query:
    """Return an alert if checks have been due for too long that could be leased.

    Those of an installation that was paused count from the end of the pause: they waited for GitHub's rate limits.
    """
    unwritten = Check.wanted_generation != Check.written_generation
    since = func.greatest(Check.due_at, Installation.paused_until)
    longest = case(
        (unwritten, interval(f"interval '{MAX_WRITE_DELAY.total_seconds():.0f} seconds'")),
        else_=interval(MAX_REREAD_DELAY),
    )
    message = func.format(
        LATE,
        counted(func.greatest(func.count(Check.branch_id), 1), "branch", "branches"),
        Installation.account,
        format_instant(func.min(since)),
        func.min(Repository.owner + "/" + Repository.name + ":" + func.coalesce(WatchedBranch.name, Check.name)),
    )
    query = select(
        *alert_columns(
            "enforcement_late",
            literal("critical"),
            func.min(since),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("See the watched branches", page(web_addresses.BRANCHES)),
        )
    )
    return (
        query.join_from(Check, Repository, Repository.id == Check.repository_id)
        .join(Installation, Installation.id == Check.installation_id)
        .outerjoin(WatchedBranch, WatchedBranch.id == Check.branch_id)
        .where(Check.organization_id == ORGANIZATION, Installation.state == "active")
        .where(CHECKS.is_available(NOW), since <= NOW - longest)
        .group_by(Installation.id)
    )
