"""Error responses of the contract: their examples, messages and headers are what the operation can answer.

That a run of all tests gets every message is checked at its end (`tests/harness/answered_errors.py`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from schemas.contract import load_contract
from tests.harness.answered_errors import examples, take_answered
from tests.harness.tenants import Tenant
from tools.contract import Document, derivation
from tools.contract.document import Operation

CONTRACT = load_contract()
DOCUMENT = Document(CONTRACT.document)
SOMETIMES = ("RateLimit-Remaining", "RateLimit-Reset", "Retry-After", "Allow", "WWW-Authenticate")
"""Headers that only some refusals have."""


def refusals() -> Iterator[tuple[Operation, str, Mapping[str, Any]]]:
    """Yield each operation with the status and the response of each of its errors, but for those of OAuth's format."""
    for operation in DOCUMENT.operations():
        for status, response in operation.responses.items():
            schema = response.get("content", {}).get("application/json", {}).get("schema", {})
            if status >= "400" and schema.get("$ref", "").endswith(("/ErrorResponse", "/CompatError")):
                yield operation, status, response


def codes_in(response: Mapping[str, Any]) -> list[str]:
    values = [DOCUMENT.resolved(one)["value"] for one in response["content"]["application/json"]["examples"].values()]
    return [value["code"] if isinstance(value["error"], str) else value["error"]["code"] for value in values]


def test_error_examples_are_those_that_their_operation_can_answer() -> None:
    checked = 0
    for operation, status, response in refusals():
        possible = {*operation.raw.get("x-errors", ()), *derivation.cross_cutting(operation)}
        own = {code for code in possible if CONTRACT.errors[code].status == int(status)}
        also = {code for code in possible if CONTRACT.errors[code].also_status == int(status)}
        found = codes_in(response)
        assert own <= set(found) <= own | also, (operation.id, status)
        assert len(found) == len(set(found))
        checked += len(found)
    assert checked


def test_every_returned_code_of_an_operation_has_an_example() -> None:
    shown = {code for _, _, response in refusals() for code in codes_in(response)}
    assert shown == {code for code, row in CONTRACT.errors.items() if row.emitted} - {"misdirected_request"}


def test_refusals_of_other_services_name_the_service() -> None:
    for operation, status, response in refusals():
        if status == "502":
            services = {code.partition("_")[0] for code in codes_in(response)}
            assert ("GitHub" in response["description"]) == (services == {"github"}), operation.id


def test_headers_are_documented_only_where_they_come() -> None:
    for operation, status, response in refusals():
        documented = set(response["headers"]) & set(SOMETIMES)
        expected = set[str]()
        if operation.credentialled and status not in {"401", "405"}:
            expected |= {"RateLimit-Remaining", "RateLimit-Reset"}
        if status in {"429", "503"} or "github_unavailable" in codes_in(response):
            expected.add("Retry-After")
        if "idempotency_key_reuse" in codes_in(response):
            expected.add("Retry-After")  # while the first request is in progress
        expected |= {"405": {"Allow"}, "401": {"WWW-Authenticate"}}.get(status, set())
        assert documented == expected, (operation.id, status)


def test_answer_counts_as_its_example_whatever_its_id(http: httpx.Client, acme: Tenant) -> None:
    take_answered()
    headers = {"Authorization": f"Bearer {acme.key()}"}
    http.get("/v1/freezes/frz_00000000000000000000000000", headers=headers)
    assert take_answered() == ["freeze_not_found example"]
    http.get("/v1/freezes", params={"limit": "many"}, headers=headers)
    assert take_answered() == []
    assert "invalid_parameter example" in examples().values()
