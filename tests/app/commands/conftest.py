"""The commands of operators: they run in this process, on the database that the test's session sees."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy.orm import Session

from models.organizations import Organization
from tests import factories
from tests.harness.product import address_of
from tests.harness.sessions import committing


@pytest.fixture
def session(
    database: str, shared_database: psycopg.Connection, redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    """Open a session on the database of the command."""
    monkeypatch.setenv("DATABASE_URL", address_of(shared_database))
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("SECRET_KEY", factories.SECRET_KEY)
    with committing(database) as session:
        yield session


@pytest.fixture
def acme(session: Session) -> Organization:
    return factories.organization(session)
