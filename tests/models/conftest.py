"""Fixtures of the tests of models: a session on a database of their own."""

from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session

from tests.harness.sessions import committing


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with committing(database) as session:
        yield session
