"""A PostgreSQL that accepts connections and bytes, and answers nothing.

The kernel acknowledges what a stopped or stuck server does not read, so no timeout of TCP ends the wait. A statement of
ours may rightly take seconds. So while one has waited for a second, a thread asks PostgreSQL for a sign of life on a
connection of its own. If none comes, every operation that waits fails, and so does every new one, until it answers.
"""

import logging
import threading
import traceback
from functools import cache
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn

logger = logging.getLogger(__name__)

R = TypeVar("R")

SUSPICIOUS_SECONDS = 1.0
"""An operation that has waited for so long has PostgreSQL checked."""
PING_SECONDS = 2
"""PostgreSQL has so long to answer; the least timeout of a connection that libpq knows."""
PING_INTERVAL_SECONDS = 0.5
_TICK_SECONDS = 0.1
"""A waiting operation looks at the clock so often (psycopg's interval)."""


class DatabaseOutageError(psycopg.OperationalError):
    """PostgreSQL does not answer; the connection is closed, and whether the last statement had an effect is unknown."""


class OutageDetector:
    """Knows whether PostgreSQL at one address answers, and checks it only while an operation waits."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._suspected_at = 0.0
        self._outage = False

    @property
    def outage(self) -> bool:
        """True from an unanswered ping until the next answered one."""
        return self._outage

    def suspect(self) -> None:
        """Have PostgreSQL pinged, now and for as long as this is called."""
        self._suspected_at = monotonic()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._watch, name="database-outages", daemon=True)
                    self._thread.start()

    def raise_if_outage(self) -> None:
        """Raise DatabaseOutageError during an outage."""
        if self._outage:
            raise DatabaseOutageError("PostgreSQL does not answer")

    def watch(self, pgconn: PGconn, operation: PQGen[R], answer_timeout: float | None) -> PQGen[R]:
        """Run an operation of psycopg; close its connection and raise DatabaseOutageError in an outage.

        `answer_timeout` is a number of seconds after which it fails in any case.
        """
        if self._outage:
            pgconn.finish()
            raise DatabaseOutageError("PostgreSQL does not answer")
        waited = 0.0
        try:
            wanted = next(operation)
            while True:
                ready = yield wanted
                if not ready:
                    waited += _TICK_SECONDS
                    self._check(pgconn, waited, answer_timeout)
                wanted = operation.send(ready)
        except StopIteration as end:
            result: R = end.value
            return result

    def _check(self, pgconn: PGconn, waited: float, answer_timeout: float | None) -> None:
        if waited >= SUSPICIOUS_SECONDS:
            self.suspect()
        if self._outage or (answer_timeout is not None and waited > answer_timeout):
            pgconn.finish()
            raise DatabaseOutageError(f"PostgreSQL has not answered for {waited:.0f} seconds")

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            self._set_outage(not self._answers())
            with self._lock:
                if not self._outage and monotonic() - self._suspected_at > SUSPICIOUS_SECONDS:
                    self._thread = None
                    return
            pause.wait(PING_INTERVAL_SECONDS)

    def _set_outage(self, outage: bool) -> None:  # noqa: FBT001 - the value to set
        if outage != self._outage:
            logger.warning("PostgreSQL %s", "does not answer" if outage else "answers again")
        self._outage = outage

    def _answers(self) -> bool:
        """True unless PostgreSQL stays silent; an error is an answer."""
        began = monotonic()
        try:
            connection = _Ping.connect(self._address, autocommit=True, connect_timeout=PING_SECONDS)
            try:
                connection.execute("SELECT 1")
            finally:
                connection.pgconn.finish()
        except psycopg.Error as error:
            close_abandoned(error)
            return monotonic() - began < PING_SECONDS
        return True


class _Ping(psycopg.Connection[Any]):
    """A connection on which nothing takes longer than a ping may."""

    def wait(self, gen: PQGen[R], interval: float = _TICK_SECONDS, timeout: float | None = PING_SECONDS) -> R:
        return super().wait(gen, interval, timeout)


def close_abandoned(error: psycopg.Error) -> None:
    """Close the connection that psycopg was opening when it gave up.

    Its frame refers to the error, and so to itself: the socket would stay open until the next garbage collection.
    """
    traceback.clear_frames(error.__traceback__)


@cache
def outage_detector(address: str) -> OutageDetector:
    """Return the detector of an address, one for each process."""
    return OutageDetector(address)
