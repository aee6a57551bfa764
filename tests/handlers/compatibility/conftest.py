"""What clients of the classic service call: branches of acme, with a key in the query."""

from collections.abc import Callable

import pytest

from tests.handlers.callers import Tenant
from tests.handlers.compatibility.requests import ClassicClient

SCOPES = ("freeze:read", "freeze:write", "exception:write", "schedule:write")


@pytest.fixture
def client_with(acme: Tenant) -> Callable[..., ClassicClient]:
    """Return a function that returns a client whose key has some scopes."""

    def make(*scopes: str) -> ClassicClient:
        token = acme.key(*scopes).token
        assert token is not None
        return ClassicClient(acme, token)

    return make


@pytest.fixture
def client(client_with: Callable[..., ClassicClient]) -> ClassicClient:
    """Return a client whose key has the scopes that the compatibility API can need."""
    return client_with(*SCOPES)
