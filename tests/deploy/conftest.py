"""A database that is set up as the documentation says, with what is shipped."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from app.commands.migrate import migrate
from tests.harness.server_directories import make_server_directory
from tools.embedded import EmbeddedPostgres

ROLES_SQL = Path(__file__).parents[2] / "deploy" / "postgres" / "roles.sql"


@pytest.fixture(scope="module")
def shipped_server() -> Iterator[EmbeddedPostgres]:
    """Return a server with the shipped roles, and with the database `change_freeze` that their owner has migrated."""
    directory = make_server_directory("roles")
    try:
        with EmbeddedPostgres(directory / "postgres", throwaway=True) as server:
            with psycopg.connect(server.ensure_database("change_freeze"), autocommit=True) as superuser:
                superuser.execute(ROLES_SQL.read_bytes())
            assert migrate(server.url("change_freeze", "change_freeze_owner"))[1] is not None
            yield server
    finally:
        shutil.rmtree(directory, ignore_errors=True)
