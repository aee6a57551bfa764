"""Lists of audit entries: newest first, or in the order of their seals for clients that follow the audit.

No entry is inserted late into the order of the seals: numbers are assigned after the commit, and appear in order. A
client that has read up to a position has therefore read everything before it, including entries of long transactions.
The newest-first list is ordered by the instant of the change, and shows an entry as soon as it is committed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import aliased

from models.audit import AuditEntry, AuditSeal
from rules.audit.actions import ACTIONS
from rules.errors import field_error
from services.audit.filters import AuditFilters, conditions_for, is_named, shown_since
from services.audit.hash_chain import LATE
from services.core.pagination import Page, page_of, page_of_listed, sign_cursor
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork

_OPERATION = "list_audit_entries"
_BEGINNING = (datetime(1970, 1, 1, tzinfo=UTC), 0)
_LAST = datetime.max.replace(tzinfo=UTC)
# Rare and frequent values need different query plans; one generic plan would fit neither.
_CUSTOM_PLAN = text("SET LOCAL plan_cache_mode TO force_custom_plan")
MAX_SEARCHED = 10_000
"""Entries in which names are looked for."""
_SEALED = (AuditSeal.sealed_at, AuditSeal.sequence)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of entries, and the cursor for entries that are sealed later."""

    data: Sequence[dict[str, Any]]
    next_cursor: str | None
    follow_cursor: str | None
    """Only in the order of seals: the position after the last entry read, also if no page follows yet."""


def list_entries(
    uow: UnitOfWork, filters: AuditFilters, order: Literal["asc", "desc"], cursor: str | None, limit: int
) -> AuditPage:
    """Return a page of the entries within the plan's retention.

    `desc`: newest first. `asc`: sealed entries in the order of their seals.
    Names (`q`) are looked for in the newest `MAX_SEARCHED` entries that the other filters match, and not in that order.
    Raise `invalid_cursor`, `invalid_parameter` (unknown action; a name in the order of the seals).
    """
    if filters.q is not None and order == "asc":
        message = "q finds entries newest first only, not in the order of their seals"
        raise field_error("q", message, message=f"{message}.")
    ascending = order == "asc"
    since = shown_since(uow.now, uow.plan, filters)
    conditions = conditions_for(since, uow.organization, filters, AuditSeal if ascending else AuditEntry)
    row = AuditEntry
    if filters.q is not None:
        row = _newest(conditions)
        conditions = [is_named(row, filters.q)]
    query = select(row, AuditSeal).join(AuditSeal, AuditSeal.entry_id == row.id, isouter=not ascending)
    query = query.where(*conditions)
    if ascending:
        query = query.where(*_seal_range(uow, since, filters.until))
    uow.session.execute(_CUSTOM_PLAN)
    keys = _SEALED if ascending else (row.at, row.id)
    bound = {**asdict(filters), "order": order}
    page = page_of(uow, _OPERATION, bound, query, keys, cursor=cursor, limit=limit, ascending=ascending)
    data = [_to_json(entry, seal) for entry, seal in page.data]
    return AuditPage(data, page.next_cursor, _follow_cursor(uow, bound, page, cursor) if ascending else None)


def _newest(conditions: Sequence[ColumnElement[bool]]) -> type[AuditEntry]:
    """Return the newest entries that meet the conditions, as a table of their own, which is read first."""
    newest = select(AuditEntry).where(*conditions).order_by(AuditEntry.at.desc(), AuditEntry.id.desc())
    return aliased(AuditEntry, newest.limit(MAX_SEARCHED).subquery("newest"))


def _seal_range(uow: UnitOfWork, since: datetime, until: datetime | None) -> list[ColumnElement[bool]]:
    """Return conditions on the seals that entries of a time range can have, so that no others are read.

    A seal is never older than its entry, and at most `LATE` younger unless it is marked as late. The last late one of
    the range is found by a partial index.
    """
    of_organization = AuditSeal.organization_id == uow.organization
    conditions = [of_organization, AuditSeal.sealed_at >= since]
    if until is not None:
        late = select(func.max(AuditSeal.sealed_at)).join(AuditEntry, AuditEntry.id == AuditSeal.entry_id)
        last = uow.session.scalar(late.where(of_organization, AuditSeal.late, AuditEntry.at < until))
        end = min(until, _LAST - LATE) + LATE
        conditions.append(AuditSeal.sealed_at <= (end if last is None else max(end, last)))
    return conditions


def _follow_cursor(uow: UnitOfWork, bound: dict[str, Any], page: Page, cursor: str | None) -> str:
    if page.data:
        _entry, seal = page.data[-1]
        position: tuple[datetime, int] = (seal.sealed_at, seal.sequence)
    elif cursor is not None:
        return cursor
    else:
        position = _BEGINNING
    return sign_cursor(uow.ports[CursorSecret].accepted, (_OPERATION, uow.organization, bound), position)


def _to_json(entry: AuditEntry, seal: AuditSeal | None) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": entry.at,
        "action": entry.action,
        "actor": entry.actor,
        "source": entry.source,
        "target": entry.target,
        "request_id": entry.request_id,
        "details": entry.details,
        "seal": None if seal is None else {"sequence": seal.sequence, "hash": seal.hash.hex()},
    }


def list_actions(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the vocabulary in alphabetical order. Raise `invalid_cursor`."""
    actions = [{"action": action, "meaning": ACTIONS[action]} for action in sorted(ACTIONS)]
    return page_of_listed(uow, "list_audit_actions", actions, cursor, limit)
