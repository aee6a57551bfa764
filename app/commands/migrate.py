"""`python -m app migrate`: upgrade the database to the newest revision."""

import os
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy.exc
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script.revision import ResolutionError
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine, make_url, pool

from app import variable_parsers
from app.commands.command_line import first_line, parser_of, say
from app.config import warn_of_misspelt_variables
from app.database_connections import RELEASE_REVISION

SETTINGS = Path(__file__).parents[2] / "alembic.ini"
_EPILOG = """\
DATABASE_OWNER_URL names the database as the owner of the schema, who may create roles; without it, DATABASE_URL does.
All missing revisions run in one transaction: all of them, or none. Of several processes that migrate at once, one does
and the others wait. It ends with 3 if it fails."""


def migrate(url: str, revision: str = "head") -> tuple[str | None, str | None]:
    """Upgrade the database of `url`, as its owner, to a revision; return the revisions before and after."""
    configuration = Config(SETTINGS)
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
    with engine.connect() as connection:
        before = _revision(connection)
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
        return before, _revision(connection)


def _revision(connection: Connection) -> str | None:
    with connection.begin():
        return MigrationContext.configure(connection).get_current_revision()


def _describe(error: CommandError) -> str:
    """Return what follows "Nothing was migrated"."""
    if not isinstance(error.__cause__, ResolutionError):
        return f": {first_line(error)}"
    return (
        f". The database is at revision {error.__cause__.argument}, which this release does not know "
        f"(its newest is {RELEASE_REVISION}): run the newer release that migrated it."
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser_of("migrate", "Upgrade the database to the newest revision.", _EPILOG).parse_args(arguments)
    warn_of_misspelt_variables(os.environ)
    name = "DATABASE_OWNER_URL" if os.environ.get("DATABASE_OWNER_URL") else "DATABASE_URL"
    url = os.environ.get(name)
    if not url:
        say("DATABASE_OWNER_URL or DATABASE_URL is required: it names the database to migrate, as its owner.")
        return 3
    try:
        variable_parsers.database_url(url)
    except ValueError as error:
        say(f"Nothing was migrated: {name} {error}")
        return 3
    try:
        before, after = migrate(url)
    except sqlalchemy.exc.OperationalError as error:
        say(f"Nothing was migrated. The database does not answer: {first_line(error.orig)}")
    except sqlalchemy.exc.DBAPIError as error:
        say(f"Nothing was migrated. The database refused it (as the owner of the schema?): {first_line(error.orig)}")
    except CommandError as error:
        say(f"Nothing was migrated{_describe(error)}")
    else:
        done = "was already at" if before == after else f"was at revision {before or 'none'} and is now at"
        say(f"The database {done} revision {after}.")
        return 0
    return 3
