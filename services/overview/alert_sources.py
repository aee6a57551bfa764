"""Sources of alerts: the stored ones, and one query for each type that is derived from the present state.

All queries have the same columns, and the parameters `organization`, `now` and `home` (a URL). They are built once.
"""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Select,
    String,
    Text,
    case,
    cast,
    func,
    literal,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.selectable import TextualSelect

from models.api_keys import ApiKey
from models.attention import AttentionItem
from models.audit import AuditEntry
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.access.entitlements import PLANS
from services.installations.views import NOT_REMOVED

_EXPIRES_SOON = "api_keys.expires_at - least(interval '14 days', (api_keys.expires_at - api_keys.created_at) / 4)"
"""Start of the alert for a key: two weeks before it expires, or a quarter of its lifetime if that is shorter."""
TYPES = ("failed_targets", "pending_request", "expiring_key", "installation_gone", "code_host_limit")
"""Types of alerts that are not stored."""

NOT_BLOCKED = "%s branches may not be blocked by the freeze “%s”: checks could not be written."
STILL_BLOCKED = "%s branches may still be blocked by the freeze “%s”, which has ended: checks could not be written."
RETRIED = " %s: %s They are retried automatically; to retry them now: POST /v1/freezes/%s/retry."
UNINSTALLED = (
    "The GitHub App was uninstalled from %s. Its freezes have ended, and no checks are written. Install it again."
)
SUSPENDED = "The GitHub App is suspended in %s. No checks are written; existing checks stay. Unsuspend it at GitHub."
REQUESTED = "%s requests to merge %s during a freeze: “%s”. Grant or deny it: POST /v1/exception-requests/%s/decide."
UNDECIDABLE = (
    "%s requests to merge %s during a freeze: “%s”. The plan no longer includes exceptions. Withdraw the "
    "request: "
    "POST /v1/exceptions/%s/revoke."
)
EXPIRING = "The API key “%s” expires on %s. Create a new key, update the clients that use this one, and revoke it."
LIMITED = (
    "GitHub limits our requests for %s until %s. %s branches wait for checks, which are written automatically then."
)

Query = Select[*tuple[Any, ...]]
_ORGANIZATION: ColumnElement[str] = literal_column(":organization", String)
_NOW: Any = literal_column("CAST(:now AS timestamptz)", DateTime(timezone=True))
_HOME: ColumnElement[str] = literal_column("CAST(:home AS text)", String)


def union_of_sources() -> TextualSelect:
    """Return all sources as one query with the columns id, type, severity, since, subject, message, action."""
    sources = (open_alerts, failed_targets, pending_requests, expiring_keys, gone_installation, limits)
    every = union_all(*(source() for source in sources))
    columns = {column.key: column.type for column in every.selected_columns if column.key}
    return text(sql_of(every)).columns(**columns)


def sql_of(query: Any) -> str:
    """Return a query as SQL with named parameters."""
    named = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    return str(query.compile(dialect=named, compile_kwargs={"literal_binds": True}))


def open_alerts() -> Query:
    """Return the stored open alerts."""
    row = AttentionItem
    columns = (row.id, row.type, row.severity, row.since, row.subject, row.message, row.action)
    return select(*columns).where(row.organization_id == _ORGANIZATION, row.cleared_at.is_(None))


def failed_targets() -> Query:
    """Return an alert per freeze with failed targets: not blocked while it is in force, still blocked after its end.

    Repositories that were removed from the installation are left out, because no checks are written there.
    """
    running = Freeze.is_in_force(_NOW)
    since = case((running, Freeze.started_at), else_=func.coalesce(Freeze.ended_at, Freeze.ends_at))
    first = func.min(Repository.owner + "/" + Repository.name + ":" + WatchedBranch.name)
    message = func.format(
        case((running, NOT_BLOCKED), else_=STILL_BLOCKED) + RETRIED,
        func.count(),
        Freeze.reason,
        first,
        func.max(FreezeTarget.last_error_message),
        Freeze.id,
    )
    query = select(
        *_columns(
            "failed_targets",
            case((running, "critical"), else_="warning"),
            since,
            ("freeze", Freeze.id, Freeze.reason),
            message,
            ("Open the freezes", _HOME),
        )
    )
    return (
        query.join_from(FreezeTarget, Freeze, Freeze.id == FreezeTarget.freeze_id)
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .join(Installation, Installation.id == Repository.installation_id)
        .where(FreezeTarget.organization_id == _ORGANIZATION, FreezeTarget.state == "failed")
        .where(Repository.removed_at.is_(None), Installation.state != "removed")
        .group_by(Freeze.id)
    )


def pending_requests() -> Query:
    """Return an alert per group of pending requests of an open pull request: they are decided together.

    If the plan no longer includes exceptions, requests cannot be decided, and the message proposes to revoke them.
    Repositories that were removed from the installation are left out.
    """
    row = PullRequestException
    deciding = [plan.name for plan in PLANS.values() if "pr_exceptions" in plan.entitlements]
    name = Repository.owner + "/" + Repository.name + "#" + cast(PullRequest.number, String)
    requester = func.coalesce(func.min(row.requested_by["name"].astext), "A user")
    message = func.format(
        case((Organization.plan.in_(deciding), REQUESTED), else_=UNDECIDABLE),
        requester,
        name,
        func.min(row.reason),
        func.min(row.id),
    )
    query = select(
        *_columns(
            "pending_request",
            literal("warning"),
            func.min(func.coalesce(row.requested_at, row.created_at)),
            ("exception", func.min(row.id), name),
            message,
            ("Open the pull request", PullRequest.url),
            about=row.request_group_id,
        )
    )
    return (
        query.join_from(row, Freeze, Freeze.id == row.freeze_id)
        .join(PullRequest, PullRequest.id == row.pull_request_id)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(Organization, Organization.id == row.organization_id)
        .where(
            row.organization_id == _ORGANIZATION,
            PullRequestException.has_state("pending", _NOW, Freeze.is_in_force(_NOW)),
        )
        .where(PullRequest.state == "open", Repository.removed_at.is_(None))
        .group_by(row.request_group_id, PullRequest.id, Repository.id, Organization.id)
    )


def expiring_keys() -> Query:
    """Return an alert per API key that expires soon."""
    since = literal_column(_EXPIRES_SOON, ApiKey.expires_at.type)
    message = func.format(
        EXPIRING,
        ApiKey.name,
        _format_instant(ApiKey.expires_at),
    )
    subject = ("api_key", ApiKey.id, ApiKey.name)
    action = ("Open the API keys", _HOME)
    query = select(*_columns("expiring_key", literal("warning"), since, subject, message, action))
    return query.where(
        ApiKey.organization_id == _ORGANIZATION,
        ApiKey.revoked_at.is_(None),
        ApiKey.expires_at > _NOW,
        since <= _NOW,
    )


def gone_installation() -> Query:
    """Return an alert if the organisation's installation is suspended or removed; the audit has the instant."""
    changed_at = select(func.max(AuditEntry.at)).where(
        AuditEntry.organization_id == _ORGANIZATION,
        AuditEntry.target_id == cast(Installation.id, String),
        AuditEntry.action == "installation." + Installation.state,
    )
    template = case((Installation.state == "removed", UNINSTALLED), else_=SUSPENDED)
    message = func.format(template, Installation.account)
    query = select(
        *_columns(
            "installation_gone",
            literal("critical"),
            func.coalesce(changed_at.correlate(Installation).scalar_subquery(), Installation.created_at),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("Connect GitHub", _HOME),
        )
    )
    order = (NOT_REMOVED.desc(), Installation.created_at.desc(), Installation.id.desc())
    newest = (
        select(Installation.id)
        .where(Installation.organization_id == _ORGANIZATION)
        .order_by(*order)
        .limit(1)
        .scalar_subquery()
    )
    return query.where(Installation.id == newest, Installation.state != "active")


def limits() -> Query:
    """Return an alert if GitHub's rate limit pauses the installation, with the number of branches that wait."""
    waiting = (
        select(func.count())
        .select_from(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(
            Repository.installation_id == Installation.id,
            WatchedBranch.written_generation < WatchedBranch.wanted_generation,
        )
    )
    message = func.format(
        LIMITED,
        Installation.account,
        _format_instant(Installation.paused_until),
        waiting.correlate(Installation).scalar_subquery(),
    )
    query = select(
        *_columns(
            "code_host_limit",
            literal("warning"),
            func.coalesce(Installation.paused_since, Installation.created_at),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("See waiting branches", _HOME),
        )
    )
    return query.where(
        Installation.organization_id == _ORGANIZATION, Installation.state == "active", Installation.paused_until > _NOW
    )


def _columns(  # noqa: PLR0917 - the columns of an alert
    kind: str,
    severity: ColumnElement[str],
    since: ColumnElement[Any],
    subject: tuple[str, Any, Any],
    message: ColumnElement[str],
    action: tuple[str, Any],
    about: Any = None,
) -> tuple[ColumnElement[Any], ...]:
    """Return the columns of a derived alert; its id is a digest of `about`, or else of the id of the subject."""
    key = func.convert_to(literal(f"{kind} ") + (subject[1] if about is None else about), "UTF8")
    digest = func.left(func.encode(func.sha256(key), "hex"), 26)
    return (
        (literal("att_") + digest).label("id"),
        literal(kind, Text).label("type"),
        severity.label("severity"),
        since.label("since"),
        func.jsonb_build_object("type", subject[0], "id", subject[1], "name", subject[2], type_=JSONB).label("subject"),
        message.label("message"),
        func.jsonb_build_object("label", action[0], "url", action[1], type_=JSONB).label("action"),
    )


def _format_instant(instant: Any) -> ColumnElement[str]:
    return func.to_char(func.timezone("UTC", instant), literal_column("""'YYYY-MM-DD HH24:MI "UTC"'"""))
