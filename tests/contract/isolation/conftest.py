"""Two organisations with a row of every kind: ours and theirs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.harness.cleaning import Snapshot, reset
from tests.harness.product import address_of
from tests.harness.sessions import committing
from tests.harness.tenant_fixtures import TenantFixture, make_tenant_fixture


@dataclass(frozen=True, slots=True)
class Tenants:
    """The two organisations."""

    ours: TenantFixture
    theirs: TenantFixture
    rows: Snapshot


@pytest.fixture(scope="module")
def tenants_of_module(shared_database: psycopg.Connection[Any]) -> Iterator[Tenants]:
    """Add both, once for all tests of a module."""
    reset(shared_database)
    with committing(address_of(shared_database)) as session:
        ours, theirs = make_tenant_fixture(session, "acme"), make_tenant_fixture(session, "globex")
        made = Tenants(ours, theirs, Snapshot(shared_database))
        yield made
        made.rows.drop()


@pytest.fixture
def tenants(tenants_of_module: Tenants, database: str, redis: Any) -> Tenants:
    """Return both, with the rows that they had in the beginning."""
    tenants_of_module.rows.restore()
    return tenants_of_module


@pytest.fixture
def ours(tenants: Tenants) -> TenantFixture:
    return tenants.ours


@pytest.fixture
def theirs(tenants: Tenants) -> TenantFixture:
    return tenants.theirs
