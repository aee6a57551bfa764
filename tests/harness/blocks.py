"""How many blocks statements read, which shows what grows with a table where a time would only vary."""

import re
from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy import Engine, event


class Blocks:
    """The blocks that PostgreSQL has read for statements, and how it has run them, as it says itself."""

    def __init__(self) -> None:
        self.number = 0
        self.plans: list[str] = []

    def watch(self, engine: Engine) -> Engine:
        """Have each connection of an engine report."""
        settings = {"log_min_duration": 0, "log_analyze": "on", "log_buffers": "on", "log_timing": "off"}

        def connect(connection: psycopg.Connection, _record: Any) -> None:
            connection.execute("LOAD 'auto_explain'")
            for name, value in settings.items():
                connection.execute(f"SET auto_explain.{name} = {value}")
            connection.execute("SET client_min_messages = log")
            connection.commit()
            connection.add_notice_handler(lambda notice: self._add(notice.message_primary or ""))

        event.listen(engine, "connect", connect)
        return engine

    def _add(self, plan: str) -> None:
        self.plans.append(plan)
        if total := re.search(r"Buffers: shared ([^\n]*)", plan):
            self.number += sum(map(int, re.findall(r"(?:hit|read)=(\d+)", total[1])))

    def of(self, call: Callable[[], object]) -> int:
        """Return the blocks of a call, once the server process has read its catalogue; keep the plans of it alone."""
        call()
        self.number = 0
        self.plans.clear()
        call()
        return self.number
