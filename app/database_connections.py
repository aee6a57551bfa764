"""Opening connections to PostgreSQL: each new one is verified, and one on which the server falls silent is given up.

A connection is refused (`DatabaseNotReadyError`) if the database is not one of UTF-8, if its role could see the rows of
every organisation, or if the schema is older than this release. A newer schema does not stop a process that runs, since
the next release is being started; a process that starts accepts it if the schema says that this release may use it.
"""

import asyncio
import select
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, NoReturn, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import class_row
from sqlalchemy import make_url

from app.database_outages import OutageDetector, R, close_abandoned, outage_detector
from app.database_spans import AsyncReportingCursor, ReportingCursor
from integrations.spans import has_tracer

VERSIONS = Path(__file__).parents[1] / "migrations" / "versions"
_REVISIONS = sorted(file.name.partition("_")[0] for file in VERSIONS.glob("[0-9]*_*.py"))
RELEASE_REVISION = _REVISIONS[-1]
"""The revision of the schema that this release is written for."""
FIRST_REVISION = _REVISIONS[0]
"""The oldest revision that this release can upgrade."""
FIRST_RELEASE = "1.0.0"
"""The release whose schema has that revision: a database of an older one has to be upgraded by it first."""
CONNECT_TIMEOUT_SECONDS = 2
STATEMENT_TIMEOUT_SECONDS = 15
ANSWER_TIMEOUT_SECONDS = STATEMENT_TIMEOUT_SECONDS + 5.0
"""No operation waits for longer, also if PostgreSQL answers others: it would have ended the statement before."""
MAX_PREPARED_STATEMENTS = 300
"""Of a connection: enough for what a process usually runs, so that none is prepared again and again."""
PREPARED_AFTER = 1
"""How often a statement runs on a connection before it is prepared. PostgreSQL plans each of these runs, and the five
after them: the first pages of a new process take longest for that."""
_MIGRATE = "run `python -m app migrate`"
TOO_OLD = f"older than release {FIRST_RELEASE}: upgrade to release {FIRST_RELEASE} first, then to this one"
_TAKE_ROLE: LiteralString = "SELECT set_config('role', %s, true)"
_FACTS: LiteralString = """
    SELECT current_user::text AS role, r.rolsuper OR r.rolbypassrls AS bypasses_policies,
           EXISTS (SELECT FROM pg_class c
                   WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
                     AND pg_has_role(r.oid, c.relowner, 'MEMBER')) AS owns_tables,
           pg_backend_pid() AS process, (SELECT v.version_num FROM public.alembic_version v) AS revision,
           obj_description('public.alembic_version'::regclass, 'pg_class') AS usable_from
    FROM pg_roles r WHERE r.rolname = current_user
"""


class DatabaseNotReadyError(psycopg.OperationalError):
    """The database must not or cannot be used as it is; the message says why and what to do, in one line."""


class _Facts(NamedTuple):
    role: str
    bypasses_policies: bool
    owns_tables: bool
    process: int
    """The number of the server process."""
    revision: str | None
    usable_from: str | None
    """The revision of the oldest release that may use the schema, which `migrations/env.py` writes."""


class Connection(psycopg.Connection[Any]):
    """A connection for threads."""

    detector: OutageDetector | None = None
    answer_timeout: float | None = None

    def wait(self, gen: PQGen[R], interval: float = 0.1, timeout: float | None = None) -> R:
        """Run an operation; raise DatabaseOutageError if PostgreSQL does not answer."""
        if self.detector is not None:
            gen = self.detector.watch(self.pgconn, gen, self.answer_timeout)
        return super().wait(gen, interval, timeout)

    def rollback(self) -> None:
        """Roll back; what is prepared stays so, unless a statement has failed.

        psycopg discards all prepared statements with each rollback, since the transaction may have changed the schema.
        Ours never do, and every refused request rolls back. SQLAlchemy also rolls back what has been committed.
        """
        status = self.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            return
        if status != TransactionStatus.INTRANS:
            super().rollback()
            return
        with self.lock:
            self.wait(self._exec_command(b"ROLLBACK"))


class AsyncConnection(psycopg.AsyncConnection[dict[str, Any]]):
    """A connection for the event loop."""

    detector: OutageDetector | None = None
    answer_timeout: float | None = None
    is_direct = False
    """True if nobody else uses the session."""

    async def wait(
        self,
        gen: PQGen[R],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's signature
    ) -> R:
        """Run an operation; raise DatabaseOutageError if PostgreSQL does not answer.

        One that is cancelled closes the connection: psycopg would wait for the server to cancel it too.
        """
        if self.detector is not None:
            gen = self.detector.watch(self.pgconn, gen, self.answer_timeout)
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=timeout)
        except asyncio.CancelledError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise


C = TypeVar("C", bound=AsyncConnection)


def libpq_address(database_url: str) -> str:
    """Return the address of a database as libpq takes it."""
    url = make_url(database_url).set(drivername="postgresql+psycopg")
    return make_conninfo(**url.get_dialect()().create_connect_args(url)[1])


def open_connection(
    address: str, role: str, answer_timeout: float | None, *, accept_newer: bool = True, **parameters: Any
) -> Connection:
    """Open and verify a connection for a role. Raise OperationalError, DatabaseNotReadyError among others."""
    detector = outage_detector(address)
    detector.raise_if_outage()
    try:
        connection = Connection.connect(**{**parameters, "connect_timeout": CONNECT_TIMEOUT_SECONDS})
    except psycopg.errors.ConnectionTimeout as error:
        close_abandoned(error)
        detector.suspect()
        raise
    try:
        connection.detector, connection.answer_timeout = detector, answer_timeout
        connection.prepared_max = MAX_PREPARED_STATEMENTS
        connection.prepare_threshold = PREPARED_AFTER
        if has_tracer():
            connection.cursor_factory = ReportingCursor
        _verify(connection, role, accept_newer=accept_newer)
    except BaseException:
        connection.close()
        raise
    return connection


def require_utf8(pgconn: PGconn) -> None:
    """Raise DatabaseNotReadyError if a database has another encoding: of SQL_ASCII, texts arrive as bytes."""
    encoding = pgconn.parameter_status(b"server_encoding")
    if encoding not in {b"UTF8", None}:  # a pooler need not say it
        raise DatabaseNotReadyError(
            f"The encoding of the database is {encoding.decode()}, and has to be UTF8: "
            "make it again with `createdb --encoding UTF8 --template template0`."
        )


def _verify(connection: Connection, role: str, *, accept_newer: bool) -> None:
    require_utf8(connection.pgconn)
    with connection.transaction(), connection.cursor(row_factory=class_row(_Facts)) as cursor:
        try:
            cursor.execute(_TAKE_ROLE, (role,), prepare=False)
        except psycopg.Error as error:
            _raise_role_error(error, role)
        try:
            facts = cursor.execute(_FACTS, prepare=False).fetchone()
        except psycopg.Error as error:
            _raise_schema_error(error)
    if not _is_direct(connection, _require_usable(facts, role, accept_newer=accept_newer)):
        connection.prepare_threshold = None


async def open_async_connection(
    kind: type[C], address: str, role: str, answer_timeout: float | None, **parameters: Any
) -> C:
    """Open and verify a connection for a role, on the running loop, which commits each statement.

    Raise as `open_connection` does.
    """
    detector = outage_detector(address)
    detector.raise_if_outage()
    try:
        connection = await kind.connect(address, autocommit=True, connect_timeout=CONNECT_TIMEOUT_SECONDS, **parameters)
    except psycopg.errors.ConnectionTimeout as error:
        close_abandoned(error)
        detector.suspect()
        raise
    try:
        connection.detector, connection.answer_timeout = detector, answer_timeout
        if has_tracer():
            connection.cursor_factory = AsyncReportingCursor
        await verify(connection, role)
    except BaseException:
        await connection.close()
        raise
    return connection


async def verify(connection: AsyncConnection, role: str, *, accept_newer: bool = True) -> None:
    """Verify encoding, role and schema; raise DatabaseNotReadyError unless requests can be served."""
    require_utf8(connection.pgconn)
    async with connection.transaction(), connection.cursor(row_factory=class_row(_Facts)) as cursor:
        try:
            await cursor.execute(_TAKE_ROLE, (role,), prepare=False)
        except psycopg.Error as error:
            _raise_role_error(error, role)
        try:
            facts = await (await cursor.execute(_FACTS, prepare=False)).fetchone()
        except psycopg.Error as error:
            _raise_schema_error(error)
    connection.is_direct = _is_direct(connection, _require_usable(facts, role, accept_newer=accept_newer))
    if not connection.is_direct:
        connection.prepare_threshold = None


def _raise_role_error(error: psycopg.Error, role: str) -> NoReturn:
    if isinstance(error, psycopg.errors.InvalidParameterValue):  # the first revision creates the roles
        raise DatabaseNotReadyError(f"The database has no schema: {_MIGRATE}.") from error
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        message = f"The login of DATABASE_URL may not take the role {role}: grant it (docs/operations.md)."
        raise DatabaseNotReadyError(message) from error
    raise error


def _raise_schema_error(error: psycopg.Error) -> NoReturn:
    if isinstance(error, psycopg.errors.UndefinedTable):
        raise DatabaseNotReadyError(f"The database has no schema: {_MIGRATE}.") from error
    if isinstance(error, psycopg.errors.InsufficientPrivilege):  # of the revisions that did not let roles read it
        raise DatabaseNotReadyError(f"The schema of the database is {TOO_OLD}.") from error
    raise error


def _require_usable(facts: _Facts | None, role: str, *, accept_newer: bool = True) -> _Facts:
    if facts is None or facts.role != role or facts.bypasses_policies or facts.owns_tables:
        raise DatabaseNotReadyError(
            f"The role {role} is exempt from row-level security: "
            "it must not be a superuser, have BYPASSRLS or own tables."
        )
    if facts.revision is None:
        raise DatabaseNotReadyError(f"The database has no schema: {_MIGRATE}.")
    revisions = f"(revision {facts.revision}, not {RELEASE_REVISION})"
    if facts.revision < FIRST_REVISION:
        raise DatabaseNotReadyError(f"The schema of the database (revision {facts.revision}) is {TOO_OLD}.")
    if facts.revision < RELEASE_REVISION:
        raise DatabaseNotReadyError(f"The schema of the database is older than this release {revisions}: {_MIGRATE}.")
    usable = facts.usable_from is not None and facts.usable_from <= RELEASE_REVISION
    if facts.revision > RELEASE_REVISION and not (accept_newer or usable):
        raise DatabaseNotReadyError(
            f"The schema of the database is newer than this release {revisions}: start the release that migrated it."
        )
    return facts


def _is_direct(connection: Connection | AsyncConnection, facts: _Facts) -> bool:
    """True if no pooler lies between: it would have given us a number of its own for the server process.

    In shared sessions nothing may be prepared, since the next transaction gets another one.
    """
    return facts.process == connection.pgconn.backend_pid


def has_died(pgconn: PGconn) -> bool:
    """True if the server has ended an idle connection: then its socket is readable. Asks the kernel, not the server."""
    if pgconn.status != ConnStatus.OK:
        return True
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
