"""A client without a client id metadata document: it is told how it can connect."""

import pytest

from tests.handlers.callers import Tenant, refusal

REGISTRATION = {"client_name": "A client", "redirect_uris": ["http://localhost/callback"]}
WAYS_OUT = ("Authorization: Bearer svc_live_", "--client-metadata-url", "mcp-remote")


def test_registration_is_refused_with_the_ways_to_connect(acme: Tenant) -> None:
    response = acme.anybody.post("/register", REGISTRATION)
    assert response.status_code == 400
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    error = response.json()
    assert error.keys() == {"error", "error_description"}
    assert error["error"] == "invalid_client_metadata"
    assert error["error_description"].isascii()
    assert all(way in error["error_description"] for way in WAYS_OUT)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_registration_takes_post_only(acme: Tenant, method: str) -> None:
    refusal(acme.anybody.send(method, "/register"), 405, "method_not_allowed")
