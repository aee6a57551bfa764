"""`python -m app migrate`: upgrade the database to the newest revision."""

import os
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy.exc
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, make_url, pool

from app.commands.command_line import parser_of, say

SETTINGS = Path(__file__).parents[2] / "alembic.ini"
_EPILOG = """\
DATABASE_URL names the database, as the owner of the schema. All missing revisions run in one transaction; of several
processes that migrate at once, one does and the others wait. It ends with 3 when it cannot work at all."""


def migrate(url: str, revision: str = "head") -> None:
    """Upgrade the database of `url`, as its owner, to a revision."""
    configuration = Config(SETTINGS)
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
    with engine.connect() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser_of("migrate", "Upgrade the database to the newest revision.", _EPILOG).parse_args(arguments)
    url = os.environ.get("DATABASE_URL")
    if not url:
        say("DATABASE_URL is required: it names the database to migrate, as its owner.")
        return 3
    try:
        migrate(url)
    except sqlalchemy.exc.OperationalError as error:
        say(f"The database does not answer: {error.orig}")
        return 3
    return 0
