"""What every operation answers alike, asked of each operation that the contract has."""

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from rules.version import VERSION
from schemas.contract import Operation, load_contract, resolve
from services.identity.api_key_secrets import new_secret
from tests.harness.concurrency import at_once
from tests.harness.contract_assertions import assert_classic_error, assert_conforms, assert_envelope
from tests.harness.random_seed import exploring
from tests.harness.servers import client_of
from tests.harness.tenants import Tenant

CONTRACT = load_contract()
OPERATIONS = list(CONTRACT.operations.values())
CREDENTIALLED = [one for one in OPERATIONS if one.accepts("ApiKey") or one.accepts("Session")]
WITH_BODY = [one for one in CREDENTIALLED if one.body]
STRICT = [one for one in CREDENTIALLED if not one.classic]
"""Operations that refuse what they do not know; the others belong to the compatibility API."""
KEYED = [one for one in STRICT if any(each.name == "Idempotency-Key" for each in one.parameters)]
PATHS = sorted({one.path for one in OPERATIONS})
JSON = "application/json"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

some = pytest.mark.parametrize("operation", CREDENTIALLED[::6], ids=lambda one: one.id)
each_with_body = pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.id)
each_strict = pytest.mark.parametrize("operation", STRICT, ids=lambda one: one.id)
each_of_organizations = pytest.mark.parametrize(
    "operation", [one for one in STRICT if one.organization_required], ids=lambda one: one.id
)
each_of_a_plan = pytest.mark.parametrize(
    "operation", [one for one in STRICT if one.entitlement], ids=lambda one: one.id
)
each_write_without_body = pytest.mark.parametrize(
    "operation", [one for one in STRICT if one.effect == "write" and not one.body], ids=lambda one: one.id
)


def address(operation: Operation) -> str:
    """Fill in the path with ids that do not exist."""
    prefixes = {"freezeId": "frz", "repoId": "rep", "branchId": "wbr"}
    return re.sub(r"\{(\w+)\}", lambda found: f"{prefixes.get(found[1], 'xxx')}_{'0' * 26}", operation.path)


def example_body(operation: Operation) -> Any:
    raw = CONTRACT.document["paths"][operation.path][operation.method.lower()]
    if "requestBody" not in raw:
        return None
    content = resolve(CONTRACT.document, raw["requestBody"])["content"]["application/json"]
    examples = content.get("examples") or {"only": {"value": content.get("example")}}
    return resolve(CONTRACT.document, next(iter(examples.values())))["value"]


def send(http: httpx.Client, operation: Operation, credential: str | None, **changes: Any) -> httpx.Response:
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    request: dict[str, Any] = {"json": example_body(operation)} if operation.body else {}
    request.update(changes)
    return http.request(
        operation.method, address(operation), headers={**headers, **request.pop("headers", {})}, **request
    )


def entitled(acme: Tenant, operation: Operation) -> str:
    """Return a credential that the operation takes: a key, or an owner's session where it takes no keys."""
    return acme.key() if operation.accepts("ApiKey") else acme.session("owner")


def refused_bodies(operation: Operation) -> Iterator[tuple[str | None, bytes, tuple[int, str]]]:
    """Yield types and contents of bodies, with what they are refused for.

    Fields that the contract does not have are in `test_identity_attacks.py`.
    """
    yield "application/x-www-form-urlencoded", b"a=1", (400, "unsupported_content_type")
    yield "multipart/form-data; boundary=x", b"--x--", (400, "unsupported_content_type")
    yield JSON, b" " * (operation.body_limit + 1), (413, "payload_too_large")
    if operation.body:
        yield None, b"{}", (400, "unsupported_content_type")
        for raw in (b"{", b'{"a": 1, "a": 2}'):
            yield JSON, raw, (400, "malformed_json")
        good = example_body(operation)
        yield JSON, json.dumps({**good, "nul\0": "a\0"}).encode(), (422, "validation_failed")
        yield JSON, json.dumps({**good, "large": "x" * operation.body_limit}).encode(), (413, "payload_too_large")
    elif operation.effect == "write":
        yield "text/plain", b"hello", (400, "unsupported_content_type")
        yield JSON, b"{", (400, "malformed_json")
        yield JSON, b'{"endActive": true}', (422, "validation_failed")
        yield JSON, b"[]", (422, "validation_failed")


def code(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    return response.status_code, body["code"] if isinstance(body["error"], str) else body["error"]["code"]


class TestBadInput:
    @each_strict
    def test_body_that_the_contract_does_not_have_is_refused(
        self, http: httpx.Client, acme: Tenant, operation: Operation
    ) -> None:
        credential = entitled(acme, operation)
        for content_type, content, wanted in refused_bodies(operation):
            headers = {"Content-Type": content_type} if content_type else {}
            response = send(http, operation, credential, json=None, content=content, headers=headers)
            assert code(response) == wanted, (content_type, content[:40])
            assert_conforms(operation.id, response)

    @each_write_without_body
    def test_write_without_a_body_takes_an_empty_one(
        self, http: httpx.Client, acme: Tenant, operation: Operation
    ) -> None:
        for content_type, content in (("text/plain", b""), (JSON, b""), (JSON, b"null"), (JSON, b"{}")):
            headers = {"Content-Type": content_type}
            response = send(http, operation, entitled(acme, operation), content=content, headers=headers)
            assert response.status_code not in {400, 422}, (content, response.text)
            assert_conforms(operation.id, response)

    @each_with_body
    def test_value_of_a_wrong_type_never_causes_a_server_error(
        self, http: httpx.Client, acme: Tenant, operation: Operation
    ) -> None:
        key, good = entitled(acme, operation), example_body(operation)
        values: list[Any] = [None, True, -1, 10**30, 1.5, "", "x" * 5000, "\u202e", [], [[]], {"type": {}}]
        for number, name in enumerate(good):
            for value in values if exploring() else values[number % 2 :: 2]:  # fuzzing has the others
                response = send(http, operation, key, json={**good, name: value})
                assert response.status_code < 500, (name, value, response.text)
                assert_conforms(operation.id, response)


class TestPolicy:
    def test_key_of_another_request_is_refused(self, http: httpx.Client, acme: Tenant) -> None:
        credential, key = acme.session("owner"), {"Idempotency-Key": "once"}
        another = CONTRACT.operations["update_current_organization"]
        assert send(http, another, credential, json={"name": "Acme International"}, headers=key).is_success
        for operation in KEYED:
            response = send(http, operation, credential, headers=key)
            assert code(response) == (409, "idempotency_key_reuse"), operation.id
            assert_conforms(operation.id, response)

    @each_of_organizations
    def test_operation_is_gone_with_the_installation_if_it_needs_one(
        self, http: httpx.Client, acme: Tenant, sql: psycopg.Connection[Any], operation: Operation
    ) -> None:
        sql.execute("UPDATE installations SET state = 'removed' WHERE organization_id = %s", (acme.id,))
        response = send(http, operation, entitled(acme, operation))
        is_gone = response.is_error and code(response) == (410, "installation_removed")
        assert is_gone == operation.installation_required

    @each_of_a_plan
    def test_operation_of_a_plan_is_refused_without_it(
        self, http: httpx.Client, acme: Tenant, sql: psycopg.Connection[Any], operation: Operation
    ) -> None:
        sql.execute("DELETE FROM plan_grants WHERE organization_id = %s", (acme.id,))
        response = send(http, operation, entitled(acme, operation))
        assert code(response) == (403, "feature_not_available")
        assert str(operation.entitlement) in response.json()["error"]["message"]
        assert_conforms(operation.id, response)


class TestUnavailability:
    @some
    def test_request_above_the_rate_limit_is_refused_with_retry_after(
        self, served_with_one_request_a_minute: str, acme: Tenant, operation: Operation
    ) -> None:
        with client_of(served_with_one_request_a_minute) as http:
            key = entitled(acme, operation)
            first, response = (send(http, operation, key) for _ in range(2))
        assert int(first.headers["RateLimit-Remaining"]) == 0 < int(first.headers["RateLimit-Reset"])
        assert_conforms(operation.id, first)
        assert code(response) == (429, "rate_limited")
        assert response.headers["RateLimit-Remaining"] == "0"
        assert int(response.headers["Retry-After"]) >= int(response.headers["RateLimit-Reset"])
        assert_conforms(operation.id, response)

    def test_wrong_method_is_405_with_the_allowed_methods(self, http: httpx.Client) -> None:
        for path in PATHS:
            known = {one.method for one in OPERATIONS if one.path == path}
            operation = next(one for one in OPERATIONS if one.path == path)
            for method in set(METHODS) - known:
                response = http.request(method, address(operation))
                assert code(response) == (405, "method_not_allowed"), (method, path)
                assert set(response.headers["Allow"].split(", ")) == known | ({"HEAD"} if "GET" in known else set())
                assert_classic_error(response) if operation.classic else assert_envelope(response)


def test_operation_without_a_database_is_unavailable(served_without_database: str) -> None:
    asked = CREDENTIALLED[::6]
    with client_of(served_without_database, timeout=60) as http:
        answers = at_once(*[partial(send, http, operation, new_secret()) for operation in asked])
        for operation, response in zip(asked, answers, strict=True):
            assert code(response) == (503, "database_unavailable")
            assert int(response.headers["Retry-After"]) <= 2
            assert_conforms(operation.id, response)


class TestServiceEndpoints:
    def test_published_contract_equals_its_source(self, http: httpx.Client) -> None:
        as_json, as_yaml = http.get("/openapi.json"), http.get("/openapi.yaml")
        assert as_yaml.content == CONTRACT.source
        assert as_yaml.headers["Content-Type"] == "application/yaml"
        assert as_json.json() == CONTRACT.document
        assert "$ref" in json.dumps(as_json.json()["paths"])
        assert as_json.headers["ETag"] == as_yaml.headers["ETag"]
        assert_conforms("get_openapi_json", as_json)

    def test_health_and_readiness_are_reported(self, http: httpx.Client, acme: Tenant) -> None:
        health, ready = http.get("/healthz"), http.get("/readyz")
        assert_conforms("get_health", health)
        assert health.json()["version"] == VERSION
        assert_conforms("get_readiness", ready)
        assert ready.json()["checks"]["database"] == "ok"
        assert ready.json()["checks"]["redis"] == "ok"
        assert (ready.json()["checks"]["worker"], ready.json()["checks"]["sweeper"]) == ("ok", "ok")

    def test_readiness_reports_processes_that_do_not_run(
        self, http: httpx.Client, acme: Tenant, sql: psycopg.Connection[Any]
    ) -> None:
        sql.execute("UPDATE lease_holders SET beat_at = clock_timestamp() - interval '31 s' WHERE kind = 'worker'")
        sql.execute("DELETE FROM periodic_tasks")
        ready = http.get("/readyz")
        assert_conforms("get_readiness", ready)
        assert (ready.json()["checks"]["worker"], ready.json()["checks"]["sweeper"]) == ("unavailable", "unknown")

    def test_process_without_a_database_is_alive_but_not_ready(self, served_without_database: str) -> None:
        with client_of(served_without_database) as http:
            assert http.get("/healthz").status_code == 200
            assert code(http.get("/readyz")) == (503, "database_unavailable")

    def test_metrics_count_requests(self, http: httpx.Client) -> None:
        http.get("/healthz")
        metrics = http.get("/metrics")
        assert 'change_freeze_http_requests_total{operation="get_health",status="200"}' in metrics.text
        assert_conforms("get_metrics", metrics)

    def test_metrics_are_not_served_beside_an_address_of_their_own(
        self, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("METRICS_BIND", "127.0.0.1:9464")
        metrics = http.get("/metrics")
        assert_conforms("get_metrics", metrics)
        assert code(metrics) == (404, "not_found")

    def test_pages_have_the_headers_of_every_answer(self, http: httpx.Client) -> None:
        page = http.get("/docs/errors")
        assert page.status_code == 200
        assert page.headers["X-Request-Id"].startswith("req_")
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        for path in ("/docs/nothing", "/static/nothing"):
            missing = http.get(path)
            assert code(missing) == (404, "not_found")
            assert_envelope(missing)
