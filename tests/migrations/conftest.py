"""Databases that migrations upgrade."""

import os
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from tests.conftest import new_database
from tests.migrations.old_database import OldDatabase


@pytest.fixture
def old_database(unmigrated_database: str) -> Iterator[OldDatabase]:
    database = OldDatabase(create_engine(unmigrated_database, poolclass=NullPool))
    yield database
    database.close()


@pytest.fixture(scope="module")
def rising_database(postgres_url: str, worker_id: str) -> Iterator[OldDatabase]:
    """Return a database that tests take to one revision after the other: it has what came before already."""
    with new_database(postgres_url, f"rising_{worker_id}_{os.getpid()}") as url:
        database = OldDatabase(create_engine(url, poolclass=NullPool))
        yield database
        database.close()
