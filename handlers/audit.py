"""Operations of the tag Audit."""

from datetime import datetime
from typing import Any, Literal

from schemas.replies import StreamedReply
from services.audit import exporting, listing
from services.audit.filters import AuditFilters
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork


def list_audit_entries(
    uow: UnitOfWork, order: Literal["asc", "desc"], limit: int, cursor: str | None, **filters: Any
) -> listing.AuditPage:
    """List what was done, the newest first, or in the order of the seals."""
    return listing.list_entries(uow, _filters(filters), order, cursor, limit)


def list_audit_actions(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List every action that an entry can have, and what it means."""
    return listing.list_actions(uow, cursor, limit)


async def export_audit(context: ReadContext, **filters: Any) -> StreamedReply:
    """Export entries as CSV."""
    stream = await exporting.export(context, _filters(filters))
    name = f"audit-{context.now.date().isoformat()}.csv"
    headers = {
        "Content-Type": "text/csv; charset=utf-8; header=present",
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return StreamedReply(headers, stream)


def _filters(given: dict[str, Any]) -> AuditFilters:
    since: datetime | None = given.pop("from")
    until: datetime | None = given.pop("to")
    return AuditFilters(**given, since=since, until=until)
