"""Cursors that report each statement as a span: its text, which has placeholders, and never its parameters."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Self

import psycopg
from psycopg.abc import Params

from app.logs import redact
from integrations.spans import Span, child_span

MAX_STATEMENT_LENGTH = 2000


def statement_span(query: Any) -> AbstractContextManager[Span]:
    """Begin the span of a statement."""
    text = query if isinstance(query, str) else query.decode() if isinstance(query, bytes) else "a composed statement"
    words = " ".join(text[:MAX_STATEMENT_LENGTH].split())
    attributes = {"db.system.name": "postgresql", "db.query.text": redact(words)}
    return child_span(f"PostgreSQL {words.partition(' ')[0].upper()}", attributes)


class ReportingCursor(psycopg.Cursor[Any]):
    """A cursor for threads."""

    def execute(self, query: Any, params: Params | None = None, **options: Any) -> Self:
        """Run a statement."""
        with statement_span(query):
            return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Iterable[Params], *, returning: bool = False) -> None:
        """Run a statement with many sets of parameters."""
        with statement_span(query):
            super().executemany(query, params_seq, returning=returning)


class AsyncReportingCursor(psycopg.AsyncCursor[Any]):
    """A cursor for the event loop."""

    async def execute(self, query: Any, params: Params | None = None, **options: Any) -> Self:
        """Run a statement."""
        with statement_span(query):
            return await super().execute(query, params, **options)
