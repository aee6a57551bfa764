"""A second opinion on answers: openapi-core reads the contract independently of the edge."""

from functools import cache

import httpx
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError

from schemas.contract import Operation, load_contract
from schemas.dialect import standard_document

_BEFORE_ROUTING = ("not_found", "method_not_allowed")


class _Request:
    """What openapi-core wants to know of a request: only the operation matters here."""

    def __init__(self, operation: Operation) -> None:
        self.host_url = "http://localhost"
        self.path = operation.path
        self.method = operation.method.lower()
        self.body = None
        self.content_type = "application/json"
        self.parameters = RequestParameters()


class _Response:
    def __init__(self, response: httpx.Response) -> None:
        self.data = response.content
        self.status_code = response.status_code
        self.content_type = response.headers.get("Content-Type", "application/json").partition(";")[0]
        self.headers = response.headers


@cache
def _document() -> OpenAPI:
    config = Config(extra_media_type_deserializers={"text/csv": bytes.decode})
    return OpenAPI.from_dict(standard_document(load_contract().document), config=config)


def assert_conforms(operation_id: str, response: httpx.Response) -> None:
    """Fail unless the contract documents the answer: its status, its body, and its error code."""
    operation = load_contract().operations[operation_id]
    assert response.headers["X-Request-Id"].startswith("req_")
    if response.status_code == 400 and isinstance(response.json()["error"], str):
        assert response.headers["Cache-Control"] == "no-store"  # OAuth's own shape, which the contract has to document
    elif response.status_code >= 400:
        assert_envelope(response)
        code = response.json()["error"]["code"]
        allowed = operation.error_codes | load_contract().cross_cutting | set(_BEFORE_ROUTING)
        assert code in allowed, f"{operation_id} does not list {code}"
    try:
        _document().validate_response(_Request(operation), _Response(response))
    except OpenAPIError as error:
        told = f"{error!r} {error.__cause__!r}"[:1000]
        raise AssertionError(f"{operation_id} {response.status_code}: {told}\n{response.text[:1000]}") from error


def assert_envelope(response: httpx.Response) -> None:
    """Fail unless a refusal has the one shape, and its status and type are those of its code."""
    error = response.json()["error"]
    row = load_contract().errors[error["code"]]
    assert response.headers["Content-Type"] == "application/json"
    assert response.status_code in {row.status, row.also_status}
    families = {other.status: other.type for other in load_contract().errors.values()}
    assert error["type"] == (row.type if response.status_code == row.status else families[response.status_code])
    assert error["message"]
    assert error["docsUrl"].endswith(f"/errors#{error['code']}")
    assert error["requestId"] == response.headers["X-Request-Id"]
    assert all({"path", "message"} <= set(detail) for detail in error.get("details", ()))
    if response.status_code == 401:
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
    if error["code"] in {"rate_limited", "database_unavailable", "maintenance"}:
        assert int(response.headers["Retry-After"]) >= 0
