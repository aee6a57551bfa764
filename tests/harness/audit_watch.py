"""Looks at the audit after every success of every operation in the tests of handlers."""

from typing import Any

import httpx
import psycopg

from schemas.contract import load_contract
from tools.fuzz.audited import QUERY, AuditedAction, audit_error


class AuditWatch:
    """Fails where a success has left in the audit anything but what the contract says."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def __call__(self, operation_id: str, response: httpx.Response) -> None:
        if not response.is_success or "Idempotency-Replayed" in response.headers:
            return
        rows = self._connection.execute(QUERY + "%s", (response.headers["X-Request-Id"],)).fetchall()
        found = audit_error(load_contract().operations[operation_id], [AuditedAction(*row) for row in rows])
        assert found is None, found
