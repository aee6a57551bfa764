"""The lock that shows PostgreSQL that this process lives, and so whose leases still count.

A process takes a number of its own and holds the advisory lock of that number on a connection that it uses for nothing
else. PostgreSQL drops the lock as soon as that connection ends, which on one host is the moment at which the process
dies, however it dies; where a host or the network is lost, TCP keep-alives end it within half a minute. A process whose
connection broke counts as dead: its leases are gone, and it takes another number before it acquires new ones.

A connection pooler would hand the session, and the lock with it, to others: such an address is refused.
"""

import logging
from datetime import datetime, timedelta
from threading import Lock

from sqlalchemy import Connection, Engine, text
from sqlalchemy.orm import Session

logger = logging.getLogger(__name__)

LOCK_CLASS = 1_279_545_683
"""The first half of the keys of these advisory locks; the second is the holder's number."""
_LOCKS = (
    "SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 "  # noqa: S608 - a constant
    f"AND l.classid = {LOCK_CLASS} "
    "AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
)
IS_ALIVE = f"EXISTS ({_LOCKS} AND l.objid = CAST(:holder AS oid))"
"""SQL: whether the process `:holder` holds its lock."""
DEAD_HOLDERS = f"""
    ARRAY(SELECT h.id FROM lease_holders h
          WHERE h.ended_at IS NOT NULL OR NOT EXISTS ({_LOCKS} AND l.objid = CAST(h.id AS oid)))
"""  # noqa: S608 - constants of ours
"""SQL: the numbers of the processes that are dead. Once dead is dead for ever: numbers are never used twice."""

_ENTER = text("INSERT INTO lease_holders DEFAULT VALUES RETURNING id, pg_backend_pid() AS backend")
_LOCK = text(f"SELECT pg_advisory_lock({LOCK_CLASS}, :holder)")
_BACKEND = text("SELECT pg_backend_pid()")
_HELD = text(f"SELECT {IS_ALIVE}")
_MARK_DEAD = text(
    f"UPDATE lease_holders SET ended_at = :now WHERE ended_at IS NULL AND id = ANY({DEAD_HOLDERS})"  # noqa: S608 - the same
)
_REMOVE = text("DELETE FROM lease_holders WHERE ended_at < :before")
KEPT = timedelta(minutes=30)
"""Longer than any lease: until then one may name the dead process."""


def remove_dead_holders(session: Session, now: datetime) -> None:
    """Remove the processes that were found dead so long ago that no lease can name them."""
    session.execute(_MARK_DEAD, {"now": now})
    session.execute(_REMOVE, {"before": now - KEPT})


class PooledConnectionError(Exception):
    """The address leads to a connection pooler: sessions are shared, so no lock shows which process lives."""

    def __init__(self) -> None:
        super().__init__(
            "DATABASE_DIRECT_URL must lead to PostgreSQL itself: a connection pooler in between shares sessions, "
            "and a lock of the session would not show whether this process lives"
        )


class HolderLock:
    """The number of this process, and the lock that it holds on `engine`, which pools nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mutex = Lock()
        self._connection: Connection | None = None
        self._number: int | None = None

    def number(self, session: Session) -> int:
        """Return the number of this process, a new one if PostgreSQL has noticed that the connection broke."""
        with self._mutex:
            if self._number is None or not session.scalar(_HELD, {"holder": self._number}):
                self._number = self._take()
            return self._number

    def take(self) -> None:
        """Take the lock now; raise PooledConnectionError if the address leads to a pooler."""
        with self._mutex:
            self._number = self._take()

    def _take(self) -> int:
        if self._connection is not None:
            logger.warning("the connection of lease holder %s broke: its leases are lost", self._number)
            self._connection.invalidate()
            self._connection.close()
        self._connection = None
        connection = self._engine.connect()
        try:
            number, backend = connection.execute(_ENTER).one()
            connection.execute(_LOCK, {"holder": number})
            connection.commit()
            self._require_own_session(connection, backend)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        self._connection = connection
        return int(number)

    def _require_own_session(self, connection: Connection, backend: int) -> None:
        """Raise PooledConnectionError unless the connection keeps its session while it is idle, and while others work.

        A pooler gives an idle client's session to the next one, and the idle one another session after that.
        """
        with self._engine.connect() as other:
            others = other.scalar(_BACKEND)
            own = connection.scalar(_BACKEND)
            connection.commit()
        if others == backend or own != backend:
            raise PooledConnectionError
