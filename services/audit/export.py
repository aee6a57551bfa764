"""The audit as CSV (RFC 4180): header row, CRLF, UTF-8, from one snapshot of the database, newest first.

PostgreSQL writes the rows (`COPY`), and we stream them as they come. A spreadsheet may run a name that users chose as a
formula (CSV injection): an apostrophe is put before everything that starts one. Semicolons separate cells in some
locales; in `details`, which is JSON, they are written as a JSON escape.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, LiteralString

from sqlalchemy import ColumnElement, Select, String, func, literal_column, select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from models.audit import AuditEntry
from rules.errors import ServiceError
from services.audit.filters import AuditFilters, conditions_for, is_named, shown_since
from services.core.read_context import Download, ReadContext

MAX_ROWS = 500_000
BLOCK_BYTES = 1 << 16
_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]

_INSTANT = """to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
_UNSEEN = r'[[:space:][:cntrl:]"\u00AD\u200B-\u200F\u2060\uFEFF]*'
_FORMULA = rf"E'(^|[;\t\r\n])({_UNSEEN}[=+@\u2212\uFE62\uFE63\uFE66\uFE6B\uFF0B\uFF0D\uFF1D\uFF20-])'"
"""Characters that start a formula at the start of a cell; for some spreadsheets a semicolon, tab or newline starts one.

Blanks and quotes may precede them: a quote inside one of our cells is an ordinary character, even where a spreadsheet
starts a new cell.
"""


def _escape_formula(cell: str) -> str:
    return f"regexp_replace({cell}, {_FORMULA}, E'\\\\1''\\\\2', 'g')"


COLUMNS = {
    "id": "id",
    "at": _INSTANT,
    "action": "action",
    "source": "source",
    "actorType": "actor ->> 'type'",
    "actorId": _escape_formula("actor ->> 'id'"),
    "actorName": _escape_formula("actor ->> 'name'"),
    "targetType": "target ->> 'type'",
    "targetId": _escape_formula("target ->> 'id'"),
    "targetName": _escape_formula("target ->> 'name'"),
    "requestId": "request_id",
    "details": r"replace(CAST(details AS text), ';', '\u003b')",
}
"""Column → SQL expression. Names and order are part of the contract; a new column is added at the end."""


class Export:
    """The rows of an export, in blocks of bytes."""

    def __init__(self, download: Download, rows: AsyncIterator[bytes]) -> None:
        self._download = download
        self._rows = rows

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the header at once, then blocks of about 64 KiB."""
        block: list[bytes] = []
        size, threshold = 0, 0
        async for row in self._rows:
            block.append(row[:-1])
            size += len(row)
            if size > threshold:
                block.append(b"")
                yield b"\r\n".join(block)
                block.clear()
                size, threshold = 0, BLOCK_BYTES
        if block:
            block.append(b"")
            yield b"\r\n".join(block)

    async def aclose(self) -> None:
        """Return the connection to the pool."""
        await self._download.close()


async def export(context: ReadContext, filters: AuditFilters) -> Export:
    """Return the entries within the plan's retention that match the filters, newest first.

    Raise `export_too_large` before anything is sent, `invalid_parameter` for an unknown action, and the errors of
    `Downloads.open`.
    """
    since = shown_since(context.now, context.plan, filters)
    conditions = conditions_for(since, context.organization, filters)
    if filters.q is not None:
        conditions.append(is_named(AuditEntry, filters.q))
    download = await context.downloads.open(context.organization)
    try:
        counted = await download.fetch(*compiled(select(func.count().label("rows")).where(*conditions)))
        _require_within_limit(counted[0]["rows"])
        query, values = compiled(entries(conditions))
        return Export(download, download.copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)", values))
    except BaseException:
        await download.close()
        raise


def _require_within_limit(rows: int) -> None:
    if rows > MAX_ROWS:
        raise ServiceError(
            "export_too_large",
            f"The export would have {rows} rows. The maximum is {MAX_ROWS}. Narrow it with from and to.",
        )


def entries(conditions: list[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    """Return the query of the file's rows."""
    columns = [literal_column(source, String).label(name) for name, source in COLUMNS.items()]
    return (
        select(*columns).select_from(AuditEntry).where(*conditions).order_by(AuditEntry.at.desc(), AuditEntry.id.desc())
    )


def compiled(query: Select[*tuple[Any, ...]]) -> tuple[LiteralString, dict[str, Any]]:
    """Return a query's text and parameters for psycopg; values are never part of the text."""
    statement = query.compile(dialect=_DIALECT)
    return str(statement), dict(statement.params)
