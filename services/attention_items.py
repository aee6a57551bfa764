"""Listing what needs attention: items that were raised and are open, and those that are read from what there is.

The second kind is never stored, so that it cannot outlive its cause: failed targets, requests that wait, keys that
expire, an installation that has gone, limits of the code host. Its ids follow from what it is about.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, String, case, cast, func, literal, literal_column, select, union_all
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.selectable import Subquery

from models.api_keys import ApiKey
from models.attention import AttentionItem
from models.audit import AuditEntry
from models.exception_states import state_is
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from services.attention import Severity
from services.installation_views import NOT_REMOVED, own
from services.pages import Page, page_of
from services.unit import Unit

_EXPIRES_SOON = "api_keys.expires_at - least(interval '14 days', (api_keys.expires_at - api_keys.created_at) / 4)"
"""From when on a key is told of: two weeks before its end, or a quarter of its life where that is less."""
TYPES = ("failed_targets", "pending_request", "expiring_key", "installation_gone", "code_host_limit")
"""Types of items that are not stored."""
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")

NOT_BLOCKED = "%s branches may not be blocked by the freeze “%s”: checks could not be written."
STILL_BLOCKED = "%s branches may still be blocked by the freeze “%s”, which has ended: checks could not be written."
TRIED_AGAIN = (
    " %s: %s They are tried again by themselves; once the cause has gone, POST /v1/freezes/%s/retry does at once."
)
UNINSTALLED = (
    "The GitHub App was uninstalled from %s: its freezes have ended, and no check is written. Install it again."
)
SUSPENDED = "The GitHub App is suspended in %s: no check is written, those that stand stay. Unsuspend it at GitHub."
REQUESTED = "%s asks that %s may merge during a freeze: %s Grant or deny it: POST /v1/exception-requests/%s/decide."
EXPIRING = "The API key “%s” expires on %s. Make another one for what uses it, and revoke this one."
LIMITED = "GitHub limits us in %s until %s; %s branches wait for their checks, which are written then by themselves."

Query = Select[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class AttentionFilters:
    """Which items a list shows; None: any."""

    type: str | None = None
    severity: str | None = None


def list_items(unit: Unit, filters: AttentionFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of what needs attention now, what began last first; raises `invalid_cursor`."""
    items = _items(unit)
    query = select(*items.c)
    if filters.type is not None:
        query = query.where(items.c.type == filters.type)
    if filters.severity is not None:
        query = query.where(items.c.severity == filters.severity)
    keys = (items.c.since, items.c.id)
    page = page_of(unit, "list_attention_items", filters, query, keys, cursor=cursor, limit=limit)
    return Page([dict(zip(items.c.keys(), row, strict=True)) for row in page.data], page.next_cursor)


def count_items(unit: Unit) -> Mapping[str, int]:
    """Return how many items there are of each severity."""
    items = _items(unit)
    found = {
        row[0]: row[1] for row in unit.session.execute(select(items.c.severity, func.count()).group_by("severity"))
    }
    return {severity: found.get(severity, 0) for severity in SEVERITIES}


def _items(unit: Unit) -> Subquery:
    sources = (_raised, _failed_targets, _requests, _expiring_keys, _installation, _limits)
    return union_all(*(source(unit) for source in sources)).subquery("items")


def _raised(unit: Unit) -> Query:
    row = AttentionItem
    columns = (row.id, row.type, row.severity, row.since, row.subject, row.message, row.action)
    return select(*columns).where(row.organization_id == unit.organization, row.cleared_at.is_(None))


def _failed_targets(unit: Unit) -> Query:
    """Return an item for each freeze: one in force may not block these branches, one that has ended may block them."""
    since = func.coalesce(Freeze.ended_at, Freeze.started_at)
    first = func.min(Repository.owner + "/" + Repository.name + ":" + WatchedBranch.name)
    message = func.format(
        case((Freeze.ended_at.is_(None), NOT_BLOCKED), else_=STILL_BLOCKED) + TRIED_AGAIN,
        func.count(),
        Freeze.reason,
        first,
        func.max(FreezeTarget.last_error_message),
        Freeze.id,
    )
    query = select(
        *_columns(
            "failed_targets",
            case((Freeze.ended_at.is_(None), "critical"), else_="warning"),
            since,
            ("freeze", Freeze.id, Freeze.reason),
            message,
            ("Open the freezes", literal(_home(unit))),
        )
    )
    return (
        query.join_from(FreezeTarget, Freeze, Freeze.id == FreezeTarget.freeze_id)
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(FreezeTarget.organization_id == unit.organization, FreezeTarget.state == "failed")
        .group_by(Freeze.id)
    )


def _requests(unit: Unit) -> Query:
    """Return an item for each group of requests whose pull request is open: they are decided together."""
    row = PullRequestException
    name = Repository.owner + "/" + Repository.name + "#" + cast(PullRequest.number, String)
    somebody = func.coalesce(func.min(row.requested_by["name"].astext), "Somebody")
    message = func.format(
        REQUESTED,
        somebody,
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
        .where(row.organization_id == unit.organization, state_is("pending", unit.now), PullRequest.state == "open")
        .group_by(row.request_group_id, PullRequest.id, Repository.id)
    )


def _expiring_keys(unit: Unit) -> Query:
    since = literal_column(_EXPIRES_SOON, ApiKey.expires_at.type)
    message = func.format(
        EXPIRING,
        ApiKey.name,
        _told(ApiKey.expires_at),
    )
    subject = ("api_key", ApiKey.id, ApiKey.name)
    action = ("Open the API keys", literal(_home(unit)))
    query = select(*_columns("expiring_key", literal("warning"), since, subject, message, action))
    return query.where(
        ApiKey.organization_id == unit.organization,
        ApiKey.revoked_at.is_(None),
        ApiKey.expires_at > unit.now,
        since <= unit.now,
    )


def _installation(unit: Unit) -> Query:
    """Return the organisation's installation, where it is suspended or was removed; since when, the audit tells."""
    told = select(func.max(AuditEntry.at)).where(
        AuditEntry.organization_id == unit.organization,
        AuditEntry.target_id == cast(Installation.id, String),
        AuditEntry.action == "installation." + Installation.state,
    )
    words = case((Installation.state == "removed", UNINSTALLED), else_=SUSPENDED)
    message = func.format(words, Installation.account)
    query = select(
        *_columns(
            "installation_gone",
            literal("critical"),
            func.coalesce(told.correlate(Installation).scalar_subquery(), Installation.created_at),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("Connect GitHub", literal(_home(unit))),
        )
    )
    order = (NOT_REMOVED.desc(), Installation.created_at.desc(), Installation.id.desc())
    newest = select(Installation.id).where(own(unit)).order_by(*order).limit(1).scalar_subquery()
    return query.where(Installation.id == newest, Installation.state != "active")


def _limits(unit: Unit) -> Query:
    """Return an installation that the code host has told to hold back, and how many branches wait for that."""
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
        _told(Installation.paused_until),
        waiting.correlate(Installation).scalar_subquery(),
    )
    query = select(
        *_columns(
            "code_host_limit",
            literal("warning"),
            func.coalesce(Installation.paused_since, Installation.created_at),
            ("installation", cast(Installation.id, String), Installation.account),
            message,
            ("See what waits", literal(_home(unit))),
        )
    )
    return query.where(own(unit), Installation.state == "active", Installation.paused_until > unit.now)


def _columns(  # noqa: PLR0917 - an item has these columns
    kind: str,
    severity: ColumnElement[str],
    since: ColumnElement[Any],
    subject: tuple[str, Any, Any],
    message: ColumnElement[str],
    action: tuple[str, Any],
    about: Any = None,
) -> tuple[ColumnElement[Any], ...]:
    """Return the columns of an item that is not stored; its id follows from what it is about, else from its subject."""
    key = func.convert_to(literal(f"{kind} ") + (subject[1] if about is None else about), "UTF8")
    digest = func.left(func.encode(func.sha256(key), "hex"), 26)
    return (
        (literal("att_") + digest).label("id"),
        literal(kind, String).label("type"),
        severity.label("severity"),
        since.label("since"),
        func.jsonb_build_object("type", subject[0], "id", subject[1], "name", subject[2], type_=JSONB).label("subject"),
        message.label("message"),
        func.jsonb_build_object("label", action[0], "url", action[1], type_=JSONB).label("action"),
    )


def _told(instant: Any) -> ColumnElement[str]:
    return func.to_char(func.timezone("UTC", instant), literal_column("""'YYYY-MM-DD HH24:MI "UTC"'"""))


def _home(unit: Unit) -> str:
    return f"{unit.surroundings.web_url}/"
