"""`python -m app migrate`: upgrade the database to the newest revision."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy.exc
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script.revision import ResolutionError
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine, event, make_url, pool

from app import logs, variable_parsers
from app.commands.command_line import first_line, parser_of
from app.config import warn_of_misspelt_variables
from app.database_connections import (
    FIRST_REVISION,
    RELEASE_REVISION,
    TOO_OLD,
    DatabaseNotReadyError,
    require_utf8,
)

SETTINGS = Path(__file__).parents[2] / "alembic.ini"
_EPILOG = """\
DATABASE_OWNER_URL names the database as the owner of the schema, who may create roles; without it, DATABASE_URL does.
All missing revisions run in one transaction: all of them, or none. Of several processes that migrate at once, one does
and the others wait. A table that a long transaction holds is waited for in short attempts, so that requests are served
in between. It ends with 3 if it fails."""
LOCK_TIMEOUT = "500ms"
"""How long an attempt waits for a lock on a table: all that need the table meanwhile wait behind it.

Below PostgreSQL's `deadlock_timeout` of 1 s, so that of a deadlock the migration is given up, never a request.
"""
MAX_ATTEMPTS = 200
SECONDS_BETWEEN_ATTEMPTS = 3
_LOCKED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


def migrate_patiently(
    url: str, lock_timeout: str = LOCK_TIMEOUT, pause: Callable[[float], None] = time.sleep
) -> tuple[str | None, str | None]:
    """Upgrade as `migrate` does, and try again while others hold a table that is changed.

    `pause` waits for a number of seconds. Raise `sqlalchemy.exc.OperationalError` after the last attempt.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return migrate(url, lock_timeout=lock_timeout)
        except sqlalchemy.exc.OperationalError as error:
            if not isinstance(error.orig, _LOCKED):
                raise
            refused = first_line(error.orig)
            again = f"trying again in {SECONDS_BETWEEN_ATTEMPTS} s"
            logs.report(logging.WARNING, f"A transaction holds a table ({refused}): {again}.")
        pause(SECONDS_BETWEEN_ATTEMPTS)
    return migrate(url, lock_timeout=lock_timeout)


def migrate(url: str, revision: str = "head", lock_timeout: str = LOCK_TIMEOUT) -> tuple[str | None, str | None]:
    """Upgrade the database of `url`, as its owner, to a revision; return the revisions before and after.

    Raise `sqlalchemy.exc.OperationalError` if the database does not answer or is not one of UTF-8, or if others hold a
    table for longer than `lock_timeout` (as PostgreSQL's setting).
    """
    configuration = Config(SETTINGS, attributes={"lock_timeout": lock_timeout})
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
    event.listen(engine, "do_connect", _connect)
    with engine.connect() as connection:
        before = _revision(connection)
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
        return before, _revision(connection)


def _connect(_dialect: Any, _record: Any, arguments: Sequence[Any], parameters: dict[str, Any]) -> psycopg.Connection:
    """Return a new connection. SQLAlchemy itself cannot read what a database of SQL_ASCII answers."""
    connection = psycopg.connect(*arguments, **parameters)
    try:
        require_utf8(connection.pgconn)
    except DatabaseNotReadyError:
        connection.close()
        raise
    return connection


def _revision(connection: Connection) -> str | None:
    with connection.begin():
        return MigrationContext.configure(connection).get_current_revision()


def _describe(error: CommandError) -> str:
    """Return what follows "Nothing was migrated"."""
    if not isinstance(error.__cause__, ResolutionError):
        return f": {first_line(error)}"
    if error.__cause__.argument < FIRST_REVISION:
        return f". The database is at revision {error.__cause__.argument}, {TOO_OLD}."
    return (
        f". The database is at revision {error.__cause__.argument}, which this release does not know "
        f"(its newest is {RELEASE_REVISION}): run the newer release that migrated it."
    )


def _fail(text: str) -> None:
    logs.report(logging.ERROR, text)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser_of("migrate", "Upgrade the database to the newest revision.", _EPILOG).parse_args(arguments)
    warn_of_misspelt_variables(os.environ)
    name = "DATABASE_OWNER_URL" if os.environ.get("DATABASE_OWNER_URL") else "DATABASE_URL"
    url = os.environ.get(name)
    if not url:
        _fail("DATABASE_OWNER_URL or DATABASE_URL is required: it names the database to migrate, as its owner.")
        return 3
    try:
        variable_parsers.database_url(url)
    except ValueError as error:
        _fail(f"Nothing was migrated: {name} {error}")
        return 3
    try:
        before, after = migrate_patiently(url)
    except sqlalchemy.exc.OperationalError as error:
        reason = "The database does not answer: "
        if isinstance(error.orig, _LOCKED):
            reason = "A transaction did not end that holds a table: "
        elif isinstance(error.orig, DatabaseNotReadyError):
            reason = ""
        _fail(f"Nothing was migrated. {reason}{first_line(error.orig)}")
    except sqlalchemy.exc.DBAPIError as error:
        _fail(f"Nothing was migrated. The database refused it (as the owner of the schema?): {first_line(error.orig)}")
    except CommandError as error:
        _fail(f"Nothing was migrated{_describe(error)}")
    else:
        done = "was already at" if before == after else f"was at revision {before or 'none'} and is now at"
        logs.report(logging.INFO, f"The database {done} revision {after}.")
        return 0
    return 3
