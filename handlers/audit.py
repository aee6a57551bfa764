"""Operations of the tag Audit."""

from datetime import datetime
from typing import Any, Literal

from services.audit import listing
from services.audit.filters import AuditFilters
from services.pages import Page
from services.unit import Unit


def list_audit_entries(
    unit: Unit, order: Literal["asc", "desc"], limit: int, cursor: str | None, **filters: Any
) -> listing.AuditPage:
    """List what was done, the newest first, or in the order of the seals."""
    since: datetime | None = filters.pop("from")
    until: datetime | None = filters.pop("to")
    wanted = AuditFilters(**filters, since=since, until=until)
    return listing.list_entries(unit, wanted, order, cursor, limit)


def list_audit_actions(unit: Unit, limit: int, cursor: str | None) -> Page:
    """List every action that an entry can have, and what it means."""
    return listing.list_actions(unit, cursor, limit)
