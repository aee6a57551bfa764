"""Exporting the audit as CSV (RFC 4180): header row, CRLF, UTF-8, from one state of the database, newest first.

PostgreSQL writes the rows (`COPY`), and we pass them on as they come. What people have given a name to may be taken for
a formula by a spreadsheet, and run: such a cell gets an apostrophe before whatever begins one. In `details`, which is
JSON, semicolons, after which another cell begins in some countries, are written as JSON's escape of them.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, LiteralString

from sqlalchemy import ColumnElement, Select, String, func, literal_column, select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from models.audit import AuditEntry
from rules.errors import ServiceError
from services.audit.filters import AuditFilters, matching, shown_since
from services.core.read_context import Download, ReadContext

MOST_ROWS = 500_000
BLOCK_BYTES = 1 << 16
_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]

_INSTANT = """to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
_UNSEEN = r'[[:space:][:cntrl:]"\u00AD\u200B-\u200F\u2060\uFEFF]*'
_FORMULA = rf"E'(^|[;\t\r\n])({_UNSEEN}[=+@\u2212\uFE62\uFE63\uFE66\uFE6B\uFF0B\uFF0D\uFF1D\uFF20-])'"
"""What begins a formula at the beginning of a cell; to some a semicolon, a tab or a line's end begins another one.

Blanks before it do not help, nor do quotes, which are none of CSV's where another cell begins in one of ours.
"""


def _plain(cell: str) -> str:
    return f"regexp_replace({cell}, {_FORMULA}, E'\\\\1''\\\\2', 'g')"


COLUMNS = {
    "id": "id",
    "at": _INSTANT,
    "action": "action",
    "source": "source",
    "actorType": "actor ->> 'type'",
    "actorId": _plain("actor ->> 'id'"),
    "actorName": _plain("actor ->> 'name'"),
    "targetType": "target ->> 'type'",
    "targetId": _plain("target ->> 'id'"),
    "targetName": _plain("target ->> 'name'"),
    "requestId": "request_id",
    "details": r"replace(CAST(details AS text), ';', '\u003b')",
}
"""Column → what it holds. Their names and order are the contract's; a new one comes last."""


class Export:
    """The rows of an export, in blocks."""

    def __init__(self, download: Download, rows: AsyncIterator[bytes]) -> None:
        self._download = download
        self._rows = rows

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the header at once, then blocks of some 64 KiB."""
        block: list[bytes] = []
        size, enough = 0, 0
        async for row in self._rows:
            block.append(row[:-1])
            size += len(row)
            if size > enough:
                block.append(b"")
                yield b"\r\n".join(block)
                block.clear()
                size, enough = 0, BLOCK_BYTES
        if block:
            block.append(b"")
            yield b"\r\n".join(block)

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._download.close()


async def export(context: ReadContext, filters: AuditFilters) -> Export:
    """Return the entries that the plan shows and the filters let through, the newest first.

    Raises `export_too_large` before anything is sent, `invalid_parameter` for an action that there is not, and whatever
    `Downloads.open` refuses.
    """
    since = shown_since(context.now, context.plan, filters)
    conditions = matching(since, context.organization, filters)
    download = await context.downloads.open(context.organization)
    try:
        counted = await download.fetch(*compiled(select(func.count().label("rows")).where(*conditions)))
        _refuse_too_many(counted[0]["rows"])
        query, values = compiled(entries(conditions))
        return Export(download, download.copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)", values))
    except BaseException:
        await download.close()
        raise


def _refuse_too_many(rows: int) -> None:
    if rows > MOST_ROWS:
        raise ServiceError(
            "export_too_large",
            f"The export would have {rows} rows, and may have {MOST_ROWS}. Narrow it with from and to.",
        )


def entries(conditions: list[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    """Return the query of the file's rows."""
    columns = [literal_column(source, String).label(name) for name, source in COLUMNS.items()]
    return (
        select(*columns).select_from(AuditEntry).where(*conditions).order_by(AuditEntry.at.desc(), AuditEntry.id.desc())
    )


def compiled(query: Select[*tuple[Any, ...]]) -> tuple[LiteralString, dict[str, Any]]:
    """Return a query as psycopg takes it; values are never part of its text."""
    written = query.compile(dialect=_DIALECT)
    return str(written), dict(written.params)
