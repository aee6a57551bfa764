"""A caller that an operation refuses learns that, and nothing of the body: each refusal with each wrong body.

So the quick run of the fuzzing tries an operation only with a credential that may call it.
"""

import pytest

from schemas.contract import Operation
from tests.contract.test_credentials_matrix import (
    OPERATIONS,
    SIGNED,
    Service,
    by_policy,
    code,
    expected,
    schemes,
    service,
)
from tests.contract.test_every_operation import refused_bodies

__all__ = ["service"]

GUARDED = [one for one in OPERATIONS if schemes(one) - SIGNED and not one.classic]
"""The token of the compatibility API may stand in the body, which is read first."""


@pytest.mark.check
@pytest.mark.parametrize("operation", GUARDED, ids=lambda one: one.id)
def test_credential_is_refused_before_the_body_is_looked_at(service: Service, operation: Operation) -> None:
    refused = {expected(operation, given): given for given in service.credentials}
    del refused[None]
    assert {"missing_credentials", "invalid_token"} < refused.keys()
    for content_type, content, _ in refused_bodies(operation):
        headers = {"Content-Type": content_type} if content_type else {}
        for given in refused.values():
            response = service.ask(operation, given, content=content, headers=headers)
            assert code(response) == by_policy(operation, given), (given.name, content_type, content[:40])
