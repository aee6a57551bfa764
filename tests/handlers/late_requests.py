"""Requests that meet the revocation of their credential: their body comes late, or they are sent meanwhile."""

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPResponse
from threading import Event
from typing import Any, LiteralString, Self

import httpx
import psycopg
from psycopg import sql

from tests.conftest import as_libpq
from tests.handlers.callers import Caller
from tests.harness.concurrency import PATIENCE, eventually, meanwhile, results_of

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def ok(response: httpx.Response) -> None:
    assert response.is_success, response.text


class SlowRequest:
    """A POST whose headers have been checked, and whose body has not been sent."""

    def __init__(self, caller: Caller, path: str, body: Any, headers: Mapping[str, str] | None = None) -> None:
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = caller.http.base_url
        self._socket = socket.create_connection((url.host, url.port or 80), timeout=PATIENCE)
        given = {
            "Host": "127.0.0.1",
            "Authorization": f"Bearer {caller.token}",
            "Content-Type": "application/json",
            **(headers or {}),
            "Content-Length": str(len(self._body)),
            "Expect": "100-continue",
        }
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
        self._socket.sendall("\r\n".join(lines).encode())
        received = b""
        while not received.endswith(CONTINUE):  # sent once the body is awaited, which is after the credential
            piece = self._socket.recv(1024)
            assert piece, received
            received += piece

    def response(self) -> tuple[int, Any]:
        """Send the body, and return status and content."""
        self._socket.sendall(self._body)
        with self._socket, HTTPResponse(self._socket, method="POST") as response:
            response.begin()
            content = json.loads(response.read())
        return response.status, content

    def finish(self) -> tuple[int, str | None]:
        """Send the body, and return the status and the code of an error."""
        status, content = self.response()
        return status, content["error"]["code"] if status >= 400 else None


def hammer(write: Callable[[], int], revoke: Callable[[], httpx.Response]) -> set[int]:
    """Write in four threads until each is refused, and revoke meanwhile; return the statuses of the writes.

    Each thread writes once after the revocation at most, so that one without effect is seen and keeps nothing going.
    """
    begun, revoked = Event(), Event()

    def write_until_refused(over: Event) -> list[int]:
        statuses: list[int] = []
        while not over.is_set():
            is_last = revoked.is_set()
            statuses.append(write())
            begun.set()
            if is_last or statuses[-1] >= 400:
                break
        return statuses

    with meanwhile(*[write_until_refused] * 4) as writers:
        assert begun.wait(PATIENCE)
        ok(revoke())
        revoked.set()
        return {status for statuses in results_of(writers) for status in statuses}


class HeldLock:
    """A lock of `services/core/authorization_locks.py` that another transaction holds for the time of the block."""

    def __init__(self, database: str, kind: str, *ids: str, shared: bool) -> None:
        """Hold it as a write does (`shared`), or as a revocation."""
        self._connection = psycopg.connect(as_libpq(database))
        function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        statement = sql.SQL("SELECT {}(authorization_lock(%s, VARIADIC %s::text[]))").format(sql.Identifier(function))
        self._connection.execute(statement, (kind, list(ids)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def release(self, statement: LiteralString = "SELECT", parameters: Sequence[str] = ()) -> None:
        """Commit the transaction after a last statement."""
        self._connection.execute(statement, parameters)
        self._connection.commit()

    def wait_for_waiting(self, number: int) -> None:
        """Return once so many transactions wait for a lock of any kind. Raise AssertionError if they never do."""
        statement = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        eventually(lambda: self._waiting(statement) >= number)

    def _waiting(self, statement: LiteralString) -> int:
        self._connection.execute("SELECT pg_stat_clear_snapshot()")
        row = self._connection.execute(statement).fetchone()
        return int(row[0]) if row else 0
