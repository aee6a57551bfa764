"""Operations of the tag Audit."""

from datetime import datetime
from typing import Any, Literal

from schemas.replies import StreamedReply
from services.audit import entries, export
from services.audit.filters import AuditFilters
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork


def list_audit_entries(
    uow: UnitOfWork, order: Literal["asc", "desc"], limit: int, cursor: str | None, **filters: Any
) -> entries.AuditPage:
    """List entries, newest first or in the order of their seals."""
    return entries.list_entries(uow, _parse_filters(filters), order, cursor, limit)


def list_audit_actions(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List all audit actions with their meanings."""
    return entries.list_actions(uow, cursor, limit)


async def export_audit(context: ReadContext, **filters: Any) -> StreamedReply:
    """Export the matching entries as CSV."""
    stream = await export.export(context, _parse_filters(filters))
    name = f"audit-{context.now.date().isoformat()}.csv"
    headers = {
        "Content-Type": "text/csv; charset=utf-8; header=present",
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return StreamedReply(headers, stream)


def _parse_filters(values: dict[str, Any]) -> AuditFilters:
    since: datetime | None = values.pop("from")
    until: datetime | None = values.pop("to")
    return AuditFilters(**values, since=since, until=until)
