"""Plans of statements as the service runs them: as its own role, under row-level security, also inside functions."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from services.core.read_context import Parameters

MAX_ROWS_OF_A_SCAN = 100
_SETTINGS = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}


@dataclass
class Plans:
    """The plans of everything that was run: each statement, and those of the functions that it calls."""

    found: list[dict[str, Any]] = field(default_factory=list)

    @property
    def scanned(self) -> set[str]:
        """The tables that were read as a whole, except those of a few rows, for which no index is of use."""
        scans = (node for node in self._nodes() if node["Node Type"] == "Seq Scan" and node["Actual Loops"])
        return {
            node["Relation Name"]
            for node in scans
            if node["Actual Rows"] + node.get("Rows Removed by Filter", 0) > MAX_ROWS_OF_A_SCAN
        }

    @property
    def blocks(self) -> int:
        """How many blocks were read. The plan of a statement counts those of its functions as well."""
        plans: list[dict[str, int]] = [one["Plan"] for one in self.found]
        return max(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)

    def _nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [one["Plan"] for one in self.found]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", ())


class ExplainingReader:
    """Runs queries like the reader of requests, and keeps the plan of each."""

    def __init__(self, connection: psycopg.Connection[dict[str, Any]]) -> None:
        self._connection = connection
        self.plans: list[Plans] = []

    async def fetch(
        self, sql: LiteralString, parameters: Parameters = (), organization_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of one query."""
        with as_role(self._connection, "change_freeze_app", organization_id or "") as plans:
            rows = self._connection.execute(sql, parameters).fetchall()
        self.plans.append(plans)
        return rows


@contextmanager
def as_role(connection: psycopg.Connection[Any], role: str, organization_id: str = "") -> Iterator[Plans]:
    """Act as a role and yield the plans of what is run."""
    plans = Plans()

    def note(notice: psycopg.errors.Diagnostic) -> None:
        text = notice.message_primary or ""
        if "plan:\n" in text:
            plans.found.append(json.loads(text.partition("plan:\n")[2]))

    connection.execute("SELECT set_config('app.organization_id', %s, false)", (organization_id,))
    connection.execute("SELECT set_config('role', %s, false)", (role,))
    connection.add_notice_handler(note)
    try:
        yield plans
    finally:
        connection.remove_notice_handler(note)
        connection.execute("RESET ROLE")


@contextmanager
def explaining(database_url: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """Open a connection of a superuser that reports the plan of each statement."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("LOAD 'auto_explain'")
        for name, value in _SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        yield connection
