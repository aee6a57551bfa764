"""A person who looks at the overview."""

import pytest

from tests.handlers.callers import Caller, Tenant


@pytest.fixture
def viewer(acme: Tenant) -> Caller:
    return acme.person("viewer")
