"""What is said where GitHub's App is suspended, or not installed yet."""

import pytest

from models.freezes import Freeze
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.freezes.requests import FIRST


@pytest.mark.parametrize("operation", ["create_freeze", "retry_freeze"])
def test_operation_that_needs_github_says_how_to_unsuspend_the_app(
    acme: Tenant, freeze: Freeze, operation: str
) -> None:
    factories.installation(acme.session, acme.organization, "former", state="removed")
    acme.installation.state = "suspended"
    acme.session.flush()
    path, body = ("/v1/freezes", FIRST) if operation == "create_freeze" else (f"/v1/freezes/{freeze.id}/retry", None)
    error = refusal(acme.key().post(path, body), 409, "installation_suspended")
    assert f"suspended in {acme.installation.account}" in error["message"]
    assert f"/settings/installations/{acme.installation.id}" in error["message"]
    assert "install-url" not in error["message"]


def test_freeze_before_the_first_installation_says_how_to_install(acme: Tenant) -> None:
    acme.session.delete(acme.installation)
    acme.session.flush()
    error = refusal(acme.key().post("/v1/freezes", FIRST), 409, "invalid_state")
    assert "GET /v1/github/install-url" in error["message"]
