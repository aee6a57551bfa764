"""Two organisations with a row of every kind: ours and theirs."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tests.support.estates import Estate, estate


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    engine = create_engine(database, isolation_level="AUTOCOMMIT")
    with Session(engine, expire_on_commit=False) as session:
        yield session
    engine.dispose()


@pytest.fixture
def ours(session: Session, redis: Any) -> Estate:
    return estate(session, "acme")


@pytest.fixture
def theirs(session: Session) -> Estate:
    return estate(session, "globex")
