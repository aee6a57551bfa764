"""Databases that migrations upgrade."""

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from tests.migrations.old_database import OldDatabase


@pytest.fixture
def old_database(unmigrated_database: str) -> Iterator[OldDatabase]:
    database = OldDatabase(create_engine(unmigrated_database, poolclass=NullPool))
    yield database
    database.close()
