"""A second opinion on answers: openapi-core reads the contract independently of the edge."""

import re
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

import httpx
from jsonschema_path import SchemaPath
from openapi_core.casting.schemas import oas30_types_caster
from openapi_core.casting.schemas.factories import SchemaCastersFactory
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from openapi_core.protocols import HeadersType, Request
from openapi_core.templating.paths.datatypes import PathOperationServer
from openapi_core.validation.response.exceptions import MissingHeader
from openapi_core.validation.response.validators import V30ResponseValidator
from openapi_core.validation.schemas import oas30_read_schema_validators_factory
from openapi_core.validation.schemas.factories import SchemaValidatorsFactory
from openapi_core.validation.schemas.validators import SchemaValidator

from schemas.contract import Operation, load_contract, resolve
from schemas.dialect import standard_document

_OF_REFUSALS = ("RateLimit-Remaining", "RateLimit-Reset", "Retry-After", "Allow", "WWW-Authenticate")
"""Headers that the contract documents only where they come. A 401 may have those of the rate limit all the same: if the
credential ends while the request is served."""
_BEFORE_ROUTING = ("not_found", "method_not_allowed")
A_REQUEST_ID = re.compile("req_[0-9a-v]{26}")
REQUEST_ID = "req_" + 26 * "0"
"""Replaces the ids of responses: openapi-core checks equal headers once."""
_INSTANT = re.compile(
    rb'"20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z"', re.ASCII
)
_ID = re.compile(rb'"([a-z]{3})_[0-9a-v]{26}"')


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


class _SchemaValidators(SchemaValidatorsFactory):
    """Makes the validator of a schema once: openapi-core would make it again for every answer."""

    def __init__(self) -> None:
        super().__init__(oas30_read_schema_validators_factory.schema_validator_cls)
        self._made: dict[SchemaPath, SchemaValidator] = {}

    def create(self, spec: SchemaPath, schema: SchemaPath, *args: Any, **options: Any) -> SchemaValidator:
        if schema not in self._made:
            self._made[schema] = super().create(spec, schema, *args, **options)
        return self._made[schema]


TEXTS = ("text/csv", "text/calendar", "application/yaml")
"""Media types whose bodies are described as texts."""


class _ResponseValidator(V30ResponseValidator):
    """openapi-core's validator, which reads each part of the contract once, and judges equal headers and bodies once.

    Bodies are equal that differ in the values of ids and instants.
    """

    def __init__(self, spec: SchemaPath) -> None:
        validators = _SchemaValidators()
        super().__init__(
            spec,
            schema_validators_factory=validators,
            schema_casters_factory=SchemaCastersFactory(validators, oas30_types_caster),
            extra_media_type_deserializers=dict.fromkeys(TEXTS, bytes.decode),
        )
        self._operations: dict[tuple[str, str], PathOperationServer] = {}
        self._distinct_headers: dict[int, SchemaPath] = {}
        self._find_operation_response = cache(super()._find_operation_response)  # type: ignore[method-assign]
        self._headers_of = cache(self._read_headers)
        self._check_header = lru_cache(maxsize=10_000)(self._check)
        self._right = set[tuple[SchemaPath, str, bytes]]()
        """Hashes of the bodies that were found right."""

    def _find_path(self, request: Request) -> PathOperationServer:
        key = (request.method, request.path)
        if key not in self._operations:
            self._operations[key] = super()._find_path(request)
        return self._operations[key]

    def _get_data(self, data: bytes | None, mimetype: str, operation_response: SchemaPath) -> Any:
        like = _ID.sub(rb'"\1_"', _INSTANT.sub(b'"T"', data or b""))
        if (found := (operation_response, mimetype, sha256(like).digest())) not in self._right:
            super()._get_data(data, mimetype, operation_response)
            self._right.add(found)

    def _get_headers(self, headers: HeadersType, operation_response: SchemaPath) -> dict[str, Any]:
        for name, header in self._headers_of(operation_response):
            value = headers.get(name)
            self._check_header(name, REQUEST_ID if value and A_REQUEST_ID.fullmatch(value) else value, header)
        return {}

    def _read_headers(self, response: SchemaPath) -> list[tuple[str, SchemaPath]]:
        """Return the headers of a response; those that refer to the same component are the same object."""
        found = []
        for name, header in (response / "headers").str_items() if "headers" in response else ():
            with header.resolve() as resolved:
                found.append((name, self._distinct_headers.setdefault(id(resolved.contents), header)))
        return found

    def _check(self, name: str, value: str | None, header: SchemaPath) -> None:
        """Raise an OpenAPIError if a header has a wrong value, or has none and is required."""
        with suppress(MissingHeader):
            self._get_header({} if value is None else {name: value}, name, header)


@cache
def _validator() -> _ResponseValidator:
    return _ResponseValidator(SchemaPath.from_dict(standard_document(load_contract().document)))


def assert_conforms(operation_id: str, response: httpx.Response) -> None:
    """Fail unless the contract documents the answer: its status, its body, and its error code."""
    operation = load_contract().operations[operation_id]
    request_id = response.headers["X-Request-Id"]
    assert A_REQUEST_ID.fullmatch(request_id) or request_id == response.request.headers.get("X-Request-Id")
    if response.status_code >= 400 and operation.classic:
        assert_classic_error(response)
        assert_listed(operation, response.json()["code"], response)
    elif response.status_code in {400, 401} and isinstance(response.json()["error"], str):
        assert response.headers["Cache-Control"] == "no-store"  # OAuth's own shape, which the contract has to document
    elif response.status_code >= 400:
        assert_envelope(response)
        assert_listed(operation, response.json()["error"]["code"], response)
    try:
        _validator().validate(_Request(operation), _Response(response))
    except OpenAPIError as error:
        found = f"{error!r} {error.__cause__!r}"[:1000]
        raise AssertionError(f"{operation_id} {response.status_code}: {found}\n{response.text[:1000]}") from error


def assert_listed(operation: Operation, code: str, response: httpx.Response) -> None:
    """Fail unless the contract documents a refusal for its operation: its code, with an example, and its headers."""
    document = load_contract().document
    documented = document["paths"][operation.path][operation.method.lower()]["responses"]
    if code in _BEFORE_ROUTING and code not in operation.error_codes:
        return
    assert str(response.status_code) in documented, f"{operation.id} does not document {response.status_code}"
    refusal = resolve(document, documented[str(response.status_code)])
    examples = refusal["content"]["application/json"]["examples"]
    if all("$ref" in example for example in examples.values()):
        assert code in examples, f"{operation.id} does not list {code} for {response.status_code}"
    surplus = {name for name in _OF_REFUSALS if name in response.headers and name not in refusal["headers"]}
    allowed = {"RateLimit-Remaining", "RateLimit-Reset"} if response.status_code == 401 else set()
    assert surplus <= allowed, f"{operation.id}: {code} with {surplus}"


def assert_classic_error(response: httpx.Response) -> None:
    """Fail unless a refusal has the shape of the compatibility API, and its status is that of its code."""
    error = response.json()
    assert set(error) == {"error", "code", "request_id"}
    assert isinstance(error["error"], str)
    assert error["error"]
    assert response.status_code == load_contract().errors[error["code"]].status
    assert error["request_id"] == response.headers["X-Request-Id"]
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "private, no-store"
    if response.status_code == 401:
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
    if error["code"] in {"rate_limited", "database_unavailable", "busy", "maintenance"}:
        assert int(response.headers["Retry-After"]) >= 0


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
    if error["code"] in {"rate_limited", "database_unavailable", "busy", "maintenance"}:
        assert int(response.headers["Retry-After"]) >= 0
