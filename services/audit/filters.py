"""Which entries of the audit somebody sees: those of the plan's retention, narrowed by what they ask for.

Each filter has an index in each order: on `audit_entries` they end in (`at`, `id`), on `audit_seals` in (`sealed_at`,
`sequence`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import ColumnElement

from models.audit import AuditEntry, AuditSeal
from rules.access.entitlements import plan_named
from rules.audit.actions import ACTIONS
from rules.errors import Detail, ServiceError, merge_errors


@dataclass(frozen=True, slots=True)
class AuditFilters:
    """Which entries a list shows; None: any. `since` is the first instant shown, `until` the first that is not."""

    action: str | None = None
    actor_id: str | None = None
    target_id: str | None = None
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Asking(Protocol):
    """Who asks, and when: a unit, or a request that only reads."""

    @property
    def organization(self) -> str:
        """The organisation's id."""

    @property
    def plan(self) -> str:
        """The organisation's plan."""

    @property
    def now(self) -> datetime:
        """When."""


def shown_since(now: datetime, plan: str, filters: AuditFilters) -> datetime:
    """Return the first instant of which entries are shown: the client's, or the plan's where that is later."""
    kept = now - timedelta(days=plan_named(plan).audit_retention_days)
    return kept if filters.since is None else max(kept, filters.since)


def matching(
    since: datetime, organization_id: str, filters: AuditFilters, by: type[AuditEntry | AuditSeal] = AuditEntry
) -> list[ColumnElement[bool]]:
    """Return what an entry has to fulfil; `since` is what `shown_since` returns.

    `by` is the table in whose order entries are read, and whose indexes find them. Raises `invalid_parameter` for an
    action that there is not, and for a time that ends before it begins.
    """
    _check(filters)
    conditions = [AuditEntry.organization_id == organization_id, AuditEntry.at >= since]
    if filters.until is not None:
        conditions.append(AuditEntry.at < filters.until)
    if filters.action is not None:
        conditions.append(by.action == filters.action)
    for column, wanted in (
        (by.actor_id, filters.actor_id),
        (by.target_id, filters.target_id),
        (by.source, filters.source),
    ):
        if wanted is not None:
            conditions.append(column == wanted)
    return conditions


def _check(filters: AuditFilters) -> None:
    """Raise `invalid_parameter` with all that a client can mend of what it asks for."""
    faults = []
    if filters.action is not None and filters.action not in ACTIONS:
        faults.append(_refused("action", f"{filters.action!r} is no action; GET /v1/audit/actions lists them"))
    if filters.since is not None and filters.until is not None and filters.until <= filters.since:
        faults.append(_refused("to", "to must be later than from"))
    if faults:
        raise merge_errors(faults)


def _refused(name: str, message: str) -> ServiceError:
    return ServiceError("invalid_parameter", f"{message}.", details=(Detail(name, message, "invalid_parameter"),))
