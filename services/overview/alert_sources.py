"""Sources of alerts: the stored ones, and one query for each type that is derived from the present state.

All queries have the same columns, and parameters: `organization`, `now`, `home` (a URL), and of the plan in force
`plan` (its name), `decidable` (whether it includes exceptions), `branch_limit` and `schedule_limit`, and
`trial_ends_at` if it is to be announced. They are built once.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    DateTime,
    Integer,
    Interval,
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
    true,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.selectable import TextualSelect

from models.api_keys import ApiKey
from models.attention import AttentionItem
from models.audit import AuditEntry
from models.billing import PlanGrant, schedule_count, watched_branch_count
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.leases import LeaseHolder
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from models.stripe import StripeSubscription
from rules.billing.grants import TRIAL_NOTICE
from rules.billing.subscriptions import LIVE, UNPAID
from services.core.lease_holder import KINDS, PROCESS_PATIENCE, Kind
from services.installations.views import NOT_REMOVED
from services.reconcile.leases import BRANCHES

_EXPIRES_SOON = "api_keys.expires_at - least(interval '14 days', (api_keys.expires_at - api_keys.created_at) / 4)"
"""Start of the alert for a key: two weeks before it expires, or a quarter of its lifetime if that is shorter."""
TYPES = (
    "failed_targets",
    "pending_request",
    "expiring_key",
    "installation_gone",
    "code_host_limit",
    "enforcement_late",
    "process_down",
    "limit_exceeded",
    "trial_ending",
    "payment_failed",
    "subscription_unclear",
    "several_subscriptions",
)
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
LATE = (
    "%s branches in %s wait for their checks since %s, such as %s, although nothing prevents writing them. A freeze "
    "may not block there yet, or may still block after its end. The operator of the service has to start workers."
)
WORKER_DOWN = (
    "No worker of the service has responded since %s: checks are written late, or not at all. "
    "The operator of the service has to start one."
)
SWEEPER_DOWN = (
    "No sweeper of the service has responded since %s: windows do not begin, and lost work is not found. "
    "The operator of the service has to start one."
)
REDUCED = (
    "A %s of the service has not responded since %s, and was not replaced; the others do its work. "
    "The operator of the service has to start another one."
)
EXCEEDED = (
    "The %s plan includes %s %s, and you have %s. All of them go on as before, but none can be added. "
    "Change to a plan that includes more, or remove some."
)
TRIAL_ENDING = (
    "The trial of the %s plan ends on %s. Freezes, schedules and granted exceptions go on after it; features that your "
    "plan does not include then cannot be used, and nothing can be added over its limits."
)
UNPAID_PLAN = (
    "A payment for the %s plan failed. Pay it or change the payment method in the portal: POST /v1/billing/portal. The "
    "plan ends if it stays unpaid; freezes and schedules go on in any case."
)
UNCLEAR = (
    "The payment provider reports a subscription whose price or state is unknown here, or no longer has it. The last "
    "known plan goes on for a time. The operator of the service has to find out why."
)
SEVERAL = (
    "%s subscriptions are charged for this organisation. The best plan counts. Cancel the others in the portal: "
    "POST /v1/billing/portal."
)
WRITE_PATIENCE = "interval '60 seconds'"
"""For how long a branch may be due, and free to be worked on, until its enforcement is late."""
REREAD_PATIENCE = "interval '15 minutes'"
"""The same of a branch that is only read again: its checks are written, and a full resync makes all branches due."""
DEATHS_REPORTED = "interval '30 minutes'"
"""For how long a dead process is reported that was not replaced: the number that should run is not known."""

Query = Select[*tuple[Any, ...]]
_ORGANIZATION: ColumnElement[str] = literal_column(":organization", String)
_NOW: Any = literal_column("CAST(:now AS timestamptz)", DateTime(timezone=True))
_HOME: ColumnElement[str] = literal_column("CAST(:home AS text)", String)
_PLAN: ColumnElement[str] = literal_column("CAST(:plan AS text)", String)
_DECIDABLE: ColumnElement[bool] = literal_column("CAST(:decidable AS boolean)", Boolean)
_TRIAL_ENDS_AT: Any = literal_column("CAST(:trial_ends_at AS timestamptz)", DateTime(timezone=True))


def union_of_sources() -> TextualSelect:
    """Return all sources as one query with the columns id, type, severity, since, subject, message, action."""
    sources = (open_alerts, failed_targets, pending_requests, expiring_keys, gone_installation, limits)
    processes = [source(kind) for source in (missing_process, reduced_processes) for kind in KINDS]
    limited = (
        exceeded_limit("watchedBranches", "watched branches", "branch_limit", watched_branch_count(_ORGANIZATION)),
        exceeded_limit("schedules", "schedules", "schedule_limit", schedule_count(_ORGANIZATION)),
    )
    paid = (unpaid_subscriptions(), unclear_subscriptions(), several_subscriptions())
    every = union_all(
        *(source() for source in sources), late_enforcement(), *limited, ending_trial(), *paid, *processes
    )
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
    name = Repository.owner + "/" + Repository.name + "#" + cast(PullRequest.number, String)
    requester = func.coalesce(func.min(row.requested_by["name"].astext), "A user")
    message = func.format(
        case((_DECIDABLE, REQUESTED), else_=UNDECIDABLE),
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
        .where(
            row.organization_id == _ORGANIZATION,
            PullRequestException.has_state("pending", _NOW, Freeze.is_in_force(_NOW)),
        )
        .where(PullRequest.state == "open", Repository.removed_at.is_(None))
        .group_by(row.request_group_id, PullRequest.id, Repository.id)
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


def late_enforcement() -> Query:
    """Return an alert if branches have been due for too long that could be leased.

    Those of an installation that was paused count from the end of the pause: they waited for GitHub's rate limits.
    """
    unwritten = WatchedBranch.wanted_generation != WatchedBranch.written_generation
    since = func.greatest(WatchedBranch.due_at, Installation.paused_until)
    patience = case((unwritten, _interval(WRITE_PATIENCE)), else_=_interval(REREAD_PATIENCE))
    message = func.format(
        LATE,
        func.count(),
        Installation.account,
        _format_instant(func.min(since)),
        func.min(Repository.owner + "/" + Repository.name + ":" + WatchedBranch.name),
    )
    query = select(
        *_columns(
            "enforcement_late",
            literal("critical"),
            func.min(since),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("Open the overview", _HOME),
        )
    )
    return (
        query.join_from(WatchedBranch, Repository, Repository.id == WatchedBranch.repository_id)
        .join(Installation, Installation.id == Repository.installation_id)
        .where(WatchedBranch.organization_id == _ORGANIZATION, Installation.state == "active")
        .where(BRANCHES.is_available(_NOW), since <= _NOW - patience)
        .group_by(Installation.id)
    )


def exceeded_limit(limit: str, things: str, parameter: str, count: Select[int]) -> Query:
    """Return an alert if there are more things than the plan includes: since the last grant of a plan ended."""
    allowed: ColumnElement[int] = literal_column(f"CAST(:{parameter} AS integer)", Integer)
    used = count.scalar_subquery()
    ended_at = select(func.max(PlanGrant.until)).where(
        PlanGrant.organization_id == _ORGANIZATION, PlanGrant.until <= _NOW
    )
    query = select(
        *_columns(
            "limit_exceeded",
            literal("warning"),
            func.coalesce(ended_at.scalar_subquery(), Organization.created_at),
            ("organization", Organization.id, Organization.name),
            func.format(EXCEEDED, _PLAN, allowed, literal(things), used),
            ("Open the overview", _HOME),
            about=Organization.id + " " + literal(limit),
        )
    )
    return query.where(Organization.id == _ORGANIZATION, used > allowed)


def ending_trial() -> Query:
    """Return an alert if the trial ends soon, and the plan with it."""
    query = select(
        *_columns(
            "trial_ending",
            literal("warning"),
            _TRIAL_ENDS_AT - literal_column(f"interval '{TRIAL_NOTICE.days} days'", Interval),
            ("organization", Organization.id, Organization.name),
            func.format(TRIAL_ENDING, _PLAN, _format_instant(_TRIAL_ENDS_AT)),
            ("Open the overview", _HOME),
        )
    )
    return query.where(Organization.id == _ORGANIZATION, _TRIAL_ENDS_AT > _NOW)


def unpaid_subscriptions() -> Query:
    """Return an alert per subscription whose payment failed."""
    message = func.format(UNPAID_PLAN, func.coalesce(StripeSubscription.plan, ""))
    return _about_subscription("payment_failed", StripeSubscription.past_due_since, message).where(
        StripeSubscription.state.in_(sorted(UNPAID))
    )


def unclear_subscriptions() -> Query:
    """Return an alert per subscription that this version does not understand."""
    message: ColumnElement[str] = literal(UNCLEAR)
    return _about_subscription("subscription_unclear", StripeSubscription.unclear_since, message).where(
        StripeSubscription.unclear_since.is_not(None)
    )


def several_subscriptions() -> Query:
    """Return an alert if several subscriptions are charged: since the last of them was made."""
    row = StripeSubscription
    query = select(
        *_columns(
            "several_subscriptions",
            literal("warning"),
            func.max(row.created_at),
            ("organization", Organization.id, Organization.name),
            func.format(SEVERAL, func.count()),
            ("Open the overview", _HOME),
        )
    )
    return (
        query.join_from(row, Organization, Organization.id == row.organization_id)
        .where(row.organization_id == _ORGANIZATION, row.state.in_(sorted(LIVE)))
        .group_by(Organization.id)
        .having(func.count() > 1)
    )


def _about_subscription(kind: str, since: Any, message: ColumnElement[str]) -> Query:
    query = select(
        *_columns(
            kind,
            literal("warning"),
            since,
            ("organization", Organization.id, Organization.name),
            message,
            ("Open the overview", _HOME),
            about=StripeSubscription.id,
        )
    )
    return query.join_from(
        StripeSubscription, Organization, Organization.id == StripeSubscription.organization_id
    ).where(StripeSubscription.organization_id == _ORGANIZATION)


def missing_process(kind: Kind) -> Query:
    """Return an alert if no process of this kind runs: critical, unless sweepers do the work of the workers."""
    heartbeat = _last_heartbeat(kind)
    since = func.coalesce(heartbeat, Organization.created_at)
    severity: ColumnElement[str] = literal("critical")
    if kind == "worker":
        severity = case((_is_silent(_last_heartbeat("sweeper")), "critical"), else_="warning")
    message = func.format(WORKER_DOWN if kind == "worker" else SWEEPER_DOWN, _format_instant(since))
    return select(*_process_columns(kind, severity, since, message)).where(
        Organization.id == _ORGANIZATION, _is_silent(heartbeat)
    )


def reduced_processes(kind: Kind) -> Query:
    """Return an alert if a process of this kind did not end in order, others run, and none was started since then.

    Processes that were started replace as many, so one that crashes and is restarted again and again is not reported.
    """
    died = (
        select(func.count().label("count"), func.min(LeaseHolder.beat_at).label("since"))
        .where(LeaseHolder.kind == kind, LeaseHolder.stopped_at.is_(None))
        .where(_is_silent(LeaseHolder.beat_at), LeaseHolder.beat_at > _NOW - _interval(DEATHS_REPORTED))
        .subquery()
    )
    started = select(func.count()).where(LeaseHolder.kind == kind, LeaseHolder.started_at > died.c.since)
    message = func.format(REDUCED, kind, _format_instant(died.c.since))
    return (
        select(*_process_columns(kind, literal("warning"), died.c.since, message))
        .join_from(Organization, died, died.c.count > started.correlate(died).scalar_subquery())
        .where(Organization.id == _ORGANIZATION, ~_is_silent(_last_heartbeat(kind)))
    )


def _last_heartbeat(kind: Kind) -> Any:
    return select(func.max(LeaseHolder.beat_at)).where(LeaseHolder.kind == kind).scalar_subquery()


def _is_silent(heartbeat: Any) -> ColumnElement[bool]:
    """Return the condition of a last heartbeat that is too long ago, or that never was."""
    return func.coalesce(heartbeat <= _NOW - _interval(PROCESS_PATIENCE), true())


def _process_columns(
    kind: Kind, severity: ColumnElement[str], since: ColumnElement[Any], message: ColumnElement[str]
) -> tuple[ColumnElement[Any], ...]:
    subject, action = ("process", literal(kind), literal(kind)), ("Open the overview", _HOME)
    about = Organization.id + " " + literal(kind)
    return _columns("process_down", severity, since, subject, message, action, about=about)


def _interval(value: str) -> ColumnElement[timedelta]:
    return literal_column(value, Interval)


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
