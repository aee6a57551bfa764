"""Filters of the audit: the entries within the plan's retention, narrowed by the request.

Each filter but `q` has an index in each order: on `audit_entries` they end in (`at`, `id`), on `audit_seals` in
(`sealed_at`, `sequence`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_

from models.audit import AuditEntry, AuditSeal
from models.queries import any_of
from rules.audit.actions import ACTIONS
from rules.billing.plans import Plan
from rules.errors import errors_of, field_error, merge_errors
from services.core.ranges import require_range


@dataclass(frozen=True, slots=True)
class AuditFilters:
    """Filters of a list; None matches all. `since` is the first instant included, `until` the first one excluded."""

    action: str | None = None
    """One action, or several that commas separate."""
    actor_id: str | None = None
    target_id: str | None = None
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    q: str | None = None
    """What the name of the actor or of the target has in it; the one filter without an index."""

    @property
    def actions(self) -> Sequence[str]:
        """The actions of which entries are shown; none: all."""
        return () if self.action is None else sorted(set(self.action.split(",")))


def shown_since(now: datetime, plan: Plan, filters: AuditFilters) -> datetime:
    """Return the first instant of which entries are shown: the later one of the client's and the plan's."""
    kept = now - timedelta(days=plan.audit_retention_days)
    return kept if filters.since is None else max(kept, filters.since)


def conditions_for(
    since: datetime, organization_id: str, filters: AuditFilters, by: type[AuditEntry | AuditSeal] = AuditEntry
) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of the filters; `since` is the result of `shown_since`.

    `by` is the table in whose order entries are read, and whose indexes are used. Raise `invalid_parameter` for an
    unknown action, and for a time range that ends before it starts.
    """
    _validate(filters)
    conditions = [AuditEntry.organization_id == organization_id, AuditEntry.at >= since]
    if filters.until is not None:
        conditions.append(AuditEntry.at < filters.until)
    if filters.actions:  # an equation with one is what an index gives the order of
        first, *more = filters.actions
        conditions.append(by.action == (any_of(filters.actions) if more else first))
    for column, value in (
        (by.actor_id, filters.actor_id),
        (by.target_id, filters.target_id),
        (by.source, filters.source),
    ):
        if value is not None:
            conditions.append(column == value)
    return conditions


def is_named(row: type[AuditEntry], words: str) -> ColumnElement[bool]:
    """Return the condition that the name of actor or target has the words in it."""
    return or_(*(each["name"].astext.icontains(words, autoescape=True) for each in (row.actor, row.target)))


def _validate(filters: AuditFilters) -> None:
    """Raise `invalid_parameter` with all errors of the filters."""
    errors = []
    if unknown := [action for action in filters.actions if action not in ACTIONS]:
        message = f"{unknown[0]!r} is not a known action; GET /v1/audit/actions lists them"
        errors.append(field_error("action", message, message=f"{message}."))
    errors += errors_of(lambda: require_range(filters.since, filters.until, ("from", "to")))
    if errors:
        raise merge_errors(errors)
