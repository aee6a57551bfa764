"""Two organisations with a row of every kind: ours and theirs."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.harness.sessions import committing
from tests.harness.tenant_fixtures import Estate, estate


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with committing(database) as session:
        yield session


@pytest.fixture
def ours(session: Session, redis: Any) -> Estate:
    return estate(session, "acme")


@pytest.fixture
def theirs(session: Session) -> Estate:
    return estate(session, "globex")
