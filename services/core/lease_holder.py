"""The lock and the heartbeat that show PostgreSQL that this process lives, and so whose leases still count.

A process takes a number of its own and holds the advisory lock of that number on a connection that it uses for nothing
else. PostgreSQL drops the lock as soon as that connection ends, which on one host is the moment at which the process
dies, however it dies; where a host or the network is lost, TCP keep-alives end it within half a minute. A process whose
connection broke counts as dead: its leases are gone, and it takes another number before it acquires new ones.

A process that is stopped, or whose host hangs, keeps its lock. So a thread writes a heartbeat every two seconds, and a
process without one for eight is silent: others acquire its work. Unlike a dead one it may wake and continue, with what
has not been acquired by others. The API reads the same heartbeats to report that no worker runs.

A connection pooler would hand the session, and the lock with it, to others: such an address is refused.
"""

import logging
from datetime import datetime, timedelta
from threading import Event, Lock, Thread
from time import monotonic
from typing import LiteralString

import sqlalchemy.exc
from sqlalchemy import Connection, Engine, TextClause, text
from sqlalchemy.orm import Session

from models.requests import WINDOWS

logger = logging.getLogger(__name__)

BEAT_INTERVAL = 2.0
"""Seconds between two heartbeats."""
MAX_SILENCE = timedelta(seconds=8)
"""A process without a heartbeat for longer is silent: it is stopped, or cannot reach the database."""
PROCESS_TIMEOUT: LiteralString = "interval '30 seconds'"
"""For how long all processes of a kind may be silent: one that died is started again within seconds by a supervisor."""
RUNNING_KINDS: LiteralString = f"""
    SELECT 'worker' AS kind, bool_or(beat_at > clock_timestamp() - {PROCESS_TIMEOUT}) AS runs
    FROM lease_holders WHERE kind = 'worker' HAVING count(*) > 0
    UNION ALL
    SELECT 'sweeper', done_at > clock_timestamp() - {PROCESS_TIMEOUT} FROM periodic_tasks WHERE name = '{WINDOWS}'
"""  # noqa: S608 - constants of ours
"""SQL: whether a worker runs, and whether any process looks at windows (`sweeper`); a row each once there was one."""
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
"""SQL: the numbers of the processes that are dead, and stay so: no number is used twice."""
_RECENT = f"statement_timestamp() - interval '{MAX_SILENCE.total_seconds():.0f} seconds'"
LOST_HOLDERS = f"""
    ARRAY(SELECT h.id FROM lease_holders h
          WHERE h.ended_at IS NOT NULL OR h.beat_at < {_RECENT}
             OR NOT EXISTS ({_LOCKS} AND l.objid = CAST(h.id AS oid)))
"""  # noqa: S608 - constants of ours
"""SQL: the numbers of the processes that are dead or silent."""

_ENTER = text("INSERT INTO lease_holders (kind) VALUES ('worker') RETURNING id, pg_backend_pid() AS backend")
_BEAT = text("UPDATE lease_holders SET beat_at = clock_timestamp() WHERE id = :holder")
_STOP = text("UPDATE lease_holders SET stopped_at = clock_timestamp() WHERE id = :holder")
_RUNS = text(
    f"SELECT EXISTS (SELECT FROM lease_holders h WHERE h.kind = 'worker' AND h.beat_at >= {_RECENT} "  # noqa: S608
    f"AND EXISTS ({_LOCKS} AND l.objid = CAST(h.id AS oid)))"
)
_LOCK = text(f"SELECT pg_advisory_lock({LOCK_CLASS}, :holder)")
_BACKEND = text("SELECT pg_backend_pid()")
_HELD = text(f"SELECT {IS_ALIVE}")
_MARK_DEAD = text(
    f"UPDATE lease_holders SET ended_at = :now WHERE ended_at IS NULL AND id = ANY({DEAD_HOLDERS})"  # noqa: S608 - the same
)
_REMOVE = text(
    "DELETE FROM lease_holders h WHERE ended_at < :before "
    "AND EXISTS (SELECT FROM lease_holders n WHERE n.kind IS NOT DISTINCT FROM h.kind AND n.id > h.id)"
)
DEAD_HOLDER_RETENTION = timedelta(minutes=30)
"""Longer than any lease: until then one may name the dead process."""


def remove_dead_holders(session: Session, now: datetime) -> None:
    """Remove the processes that were found dead so long ago that no lease can name them; the last of a kind stays."""
    session.execute(_MARK_DEAD, {"now": now})
    session.execute(_REMOVE, {"before": now - DEAD_HOLDER_RETENTION})


def worker_runs(session: Session) -> bool:
    """Return whether a worker holds its lock and has a recent heartbeat."""
    return bool(session.scalar(_RUNS))


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
        self._beaten = monotonic()

    def number(self, session: Session) -> int:
        """Return the number of this process, a new one if PostgreSQL has noticed that the connection broke."""
        with self._mutex:
            if self._number is None or not session.scalar(_HELD, {"holder": self._number}):
                self._number = self._take()
            elif monotonic() - self._beaten > MAX_SILENCE.total_seconds() / 2:
                self._beat()  # it was stopped, and others would take at once what it acquires now
            return self._number

    def beat(self) -> None:
        """Write a heartbeat, under a new number if the connection broke."""
        with self._mutex:
            try:
                self._beat()
            except sqlalchemy.exc.SQLAlchemyError:
                self._number = self._take()
                self._beat()

    def stop(self) -> None:
        """Record that this process ends in order."""
        with self._mutex:
            self._write(_STOP)

    def _beat(self) -> None:
        self._beaten = monotonic()
        self._write(_BEAT)

    def _write(self, statement: TextClause) -> None:
        if self._connection is None:
            self._number = self._take()
        if self._connection is not None:
            self._connection.execute(statement, {"holder": self._number})
            self._connection.commit()

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
            _require_own_session(self._engine, connection, backend)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        self._connection = connection
        return int(number)


def require_direct_connection(engine: Engine) -> None:
    """Raise PooledConnectionError unless connections of the engine, which pools nothing, lead to PostgreSQL itself."""
    with engine.connect() as connection:
        backend = connection.scalars(_BACKEND).one()
        connection.commit()
        _require_own_session(engine, connection, backend)


def _require_own_session(engine: Engine, connection: Connection, backend: int) -> None:
    """Raise PooledConnectionError unless the connection keeps its session while it is idle, and while others work.

    A pooler gives an idle client's session to the next one, and the idle one another session after that.
    """
    with engine.connect() as other:
        others = other.scalar(_BACKEND)
        own = connection.scalar(_BACKEND)
        connection.commit()
    if others == backend or own != backend:
        raise PooledConnectionError


class Heartbeat:
    """The thread that writes the heartbeats of this process until it is stopped."""

    def __init__(self, lock: HolderLock) -> None:
        self._lock = lock
        self._ended = Event()
        self._thread = Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the heartbeats, and record that this process ends in order."""
        self._ended.set()
        self._thread.join(MAX_SILENCE.total_seconds())
        try:
            if not self._thread.is_alive():
                self._lock.stop()
        except sqlalchemy.exc.SQLAlchemyError as error:
            logger.warning("the end of this process was not recorded: %s", error)

    def _run(self) -> None:
        available = True
        while not self._ended.is_set():
            try:
                self._lock.beat()
                available = True
            except sqlalchemy.exc.SQLAlchemyError as error:
                if available:
                    logger.warning("the heartbeat was not written: %s", error)
                available = False
            except PooledConnectionError:
                if available:
                    logger.exception("the lock of this process is shared")
                available = False
            self._ended.wait(BEAT_INTERVAL)
