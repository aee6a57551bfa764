"""Two organisations with a row of every kind: ours and theirs."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.harness.sessions import committing
from tests.harness.tenant_fixtures import TenantFixture, make_tenant_fixture


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with committing(database) as session:
        yield session


@pytest.fixture
def ours(session: Session, redis: Any) -> TenantFixture:
    return make_tenant_fixture(session, "acme")


@pytest.fixture
def theirs(session: Session) -> TenantFixture:
    return make_tenant_fixture(session, "globex")
