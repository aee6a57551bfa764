"""The envelope of every non-2xx answer."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest

from app.edge.maintenance_mode import Maintenance
from app.main import create_app
from rules.errors import ServiceError
from schemas.contract import Contract
from tests.app.edge.machinery import things
from tests.harness.clock import MovableClock
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.tenants import tenant


def error(response: httpx.Response) -> dict[str, object]:
    content = response.json()["error"]
    assert content["requestId"] == response.headers["X-Request-Id"]
    assert content["docsUrl"].endswith(f"/docs/errors#{content['code']}")
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    found: dict[str, object] = content
    return found


def test_unknown_route_returns_a_404_envelope(api: httpx.Client) -> None:
    for path in ("/v1", "/nope", "/v1/things/", "/v1/things/a/b", "/v1//things", "/v1/things/%ff", "/v1/things/a%00"):
        response = api.get(path)
        assert (response.status_code, error(response)["code"]) == (404, "not_found"), path


def test_head_request_is_answered_like_get_without_a_body(api: httpx.Client, clock: MovableClock) -> None:
    clock.at = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)  # the thing has the time, and whole seconds are shorter
    response = api.head("/v1/things/a")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["Content-Length"] == str(len(api.get("/v1/things/a").content))


def test_internal_error_is_hidden_from_the_client_and_logged(
    api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"name": "fails within", "scope": {"type": "organization"}}
    response = api.post("/v1/things", json=body)
    assert response.status_code == 500
    assert error(response)["code"] == "internal_error"
    assert "fault" not in response.text
    assert "details" not in error(response)
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.__dict__["request_id"] == error(response)["requestId"]


def test_answer_that_violates_the_contract_is_an_internal_error(api: httpx.Client) -> None:
    response = api.get("/v1/things/thg_wrong")
    assert (response.status_code, error(response)["code"]) == (500, "internal_error")


def test_invalid_parameter_is_422_in_a_body_and_400_elsewhere(api: httpx.Client) -> None:
    within = api.post("/v1/things", json={"name": "invalid for the service", "scope": {"type": "organization"}})
    assert (within.status_code, error(within)["details"]) == (422, [{"path": "/name", "message": "cannot be"}])
    outside = api.get("/v1/things?limit=0")
    assert outside.status_code == 400
    assert error(within)["code"] == error(outside)["code"] == "invalid_parameter"


def test_unauthorized_answer_challenges_for_a_bearer_token(http: httpx.Client, acme: object) -> None:
    response = http.get("/v1/things")
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Bearer ")
    assert error(response)["code"] == "missing_credentials"


def test_serialization_failure_is_retried(api: httpx.Client) -> None:
    response = api.post("/v1/things/fail-twice")
    assert (response.status_code, response.json()["name"]) == (200, "third")
    assert things.SEEN["attempts"] == 3


def test_maintenance_window_refuses_all_but_public_operations(
    small_contract: Contract, redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "maintenance"
    file.touch()
    config = product_config("postgresql://nobody@127.0.0.1:1/nothing", redis_url, maintenance_file=file)
    parts = product_parts(contract=small_contract, handlers="tests.app.edge.machinery")
    with serving(create_app(config, parts)) as url, client_of(url) as http:
        for path in ("/v1/things", "/v1/sessions-only"):
            response = http.get(path)
            assert (response.status_code, error(response)["code"]) == (503, "maintenance")
            assert int(response.headers["Retry-After"]) > 0
        assert http.post("/webhooks/things").status_code == 503
        assert http.get("/ping").status_code == 200


def test_maintenance_error_has_rate_limit_headers_for_a_valid_credential(
    small_contract: Contract, database: str, shared_database: psycopg.Connection, redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "maintenance"
    file.touch()
    config = product_config(address_of(shared_database), redis_url, maintenance_file=file)
    parts = product_parts(contract=small_contract, handlers="tests.app.edge.machinery")
    headers = {"Authorization": f"Bearer {tenant(shared_database).key()}"}
    with serving(create_app(config, parts)) as url, client_of(url) as http:
        for method in ("GET", "POST"):
            response = http.request(method, "/v1/things", headers=headers)
            assert (response.status_code, error(response)["code"]) == (503, "maintenance")
            assert int(response.headers["RateLimit-Remaining"]) > 0
            assert 0 < int(response.headers["RateLimit-Reset"]) <= 60


def test_maintenance_window_lasts_as_long_as_its_file(tmp_path: Path) -> None:
    file = tmp_path / "maintenance"
    switch = Maintenance(file, "https://status.example", check_interval=0)
    switch.check()
    file.touch()
    with pytest.raises(ServiceError, match=r"https://status\.example"):
        switch.check()
    file.unlink()
    switch.check()
