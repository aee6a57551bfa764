"""Two processes that serve the same database, and remember what they have answered."""

from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from tests import factories
from tests.handlers.freezes.remembering import two_processes
from tests.harness.clock import MovableClock
from tests.harness.product import address_of, product_config


@pytest.fixture(scope="module")
def clients(
    shared_database: psycopg.Connection[Any], redis_url: str, clock_of_session: MovableClock
) -> Iterator[list[httpx.Client]]:
    """Return a client of each process."""
    config = product_config(address_of(shared_database), redis_url, base_url=factories.AUDIENCE)
    with two_processes(config, clock_of_session) as clients:
        yield clients
