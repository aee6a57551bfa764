"""Requests to the compatibility API, as clients of the classic service send them.

Their token is in the query or in the body as well as in the header. Bodies are forms, declared or not, or JSON. Names
and values are trimmed, the last of repeated fields counts, and unknown fields and parameters are ignored. What a field
may hold stands in the contract; texts are read as the type that it declares.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_plus

import orjson

from app.edge.authentication import bearer_token
from app.edge.bodies import JSON, discard_body, read_bytes
from app.edge.request_context import RequestContext
from app.edge.validation_errors import INVALID_BODY, INVALID_PARAMETER, BodyViolations
from rules.access.permissions import Principal
from rules.errors import ServiceError
from schemas import walk
from schemas.contract import Contract, Node, Operation
from schemas.dialect import Validators

ACCESS_TOKEN = "access_token"  # noqa: S105 - the name of a field
FORM = "application/x-www-form-urlencoded"
_MAX_PAIRS = 1000
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_TOKEN = re.compile(r"[!-~]+")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

Fields = Mapping[str, Any]


class ClassicRequestReader:
    """Reads the requests of one operation."""

    def __init__(self, contract: Contract, validators: Validators, operation: Operation) -> None:
        schema = operation.body.get(JSON)
        self._takes_body = schema is not None
        self._limit = operation.body_limit
        nodes = walk.properties(contract.document, schema, None) if schema else {}
        self._properties = {name: contract.resolve(node) for name, node in nodes.items() if name != ACCESS_TOKEN}
        self._validator = validators.compile(schema, mask="the value") if schema else None
        self._violations = BodyViolations(contract.document, schema) if schema else None

    async def read(self, request: RequestContext) -> tuple[Fields, ServiceError | None]:
        """Return the fields of the body by their names, as they were sent, or an error of a body that cannot be read.

        A caller with a token in the header or the query is identified and counted before the error is raised; for one
        without, raise it at once.
        """
        try:
            return await self._read(request), None
        except ServiceError as error:
            if authorization_of(request, {}) is None:
                raise
            return {}, error

    async def _read(self, request: RequestContext) -> Fields:
        """Return the fields of the body.

        Raise `payload_too_large`, `unsupported_content_type`, and `malformed_json` if it is not a JSON object.
        """
        if not self._takes_body:
            await discard_body(request, self._limit)
            return {}
        raw = await read_bytes(request, self._limit)
        if not raw:
            return {}
        media = (request.header(b"content-type") or b"").decode("latin-1").partition(";")[0].strip().lower()
        if media in {"", FORM}:
            return dict(_pairs(raw))
        if media == JSON:
            return _members(raw)
        shown = ascii(media[:100])
        raise ServiceError("unsupported_content_type", f"Content-Type must be {FORM} or {JSON} (got {shown})")

    def arguments(self, fields: Fields, principal: Principal | None) -> dict[str, Any]:
        """Return the known fields as the contract types them.

        Raise `missing_parameter`, `invalid_parameter`, and `insufficient_scope` if a key may not send one of them.
        """
        if self._validator is None or self._violations is None:
            return {}
        known = ((name, fields.get(name)) for name in self._properties)
        body = {name: _typed(value, self._properties[name]) for name, value in known if value is not None}
        if not self._validator.is_valid(body):
            first = self._violations.of(body, self._validator.iter_errors(body))[0]
            code = INVALID_PARAMETER if first.code == INVALID_BODY else first.code
            raise ServiceError(code, f"{first.message}.")
        for name in body:
            scope = self._properties[name].get("x-scope")
            if scope is not None and principal is not None and scope not in principal.scopes:
                raise ServiceError("insufficient_scope", f"The API key lacks the scope that {name} requires: {scope}.")
        return body


def authorization_of(request: RequestContext, fields: Fields) -> bytes | None:
    """Return the token of a request as the value of an `Authorization` header; None if there is none.

    Raise `invalid_parameter` if different tokens are sent, and `invalid_token` if one cannot be read.
    """
    found = {token.strip() for token in _tokens(request, fields)} - {""}
    if len(found) > 1:
        raise ServiceError("invalid_parameter", "Different access tokens are sent. Send one, in one place.")
    for token in found:
        if not _TOKEN.fullmatch(token):
            raise ServiceError("invalid_token", "Invalid API key.")
        return b"Bearer " + token.encode()
    return None


def _tokens(request: RequestContext, fields: Fields) -> Iterator[str]:
    with suppress(ServiceError):  # a header of another kind is ignored
        yield bearer_token(request.header(b"authorization"))
    query = request.scope["query_string"]
    if query:
        yield from (value for name, value in _pairs(query) if name == ACCESS_TOKEN)
    token_field = fields.get(ACCESS_TOKEN)
    if token_field is not None:
        yield str(token_field)


def _pairs(raw: bytes) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a form or a query, without surrounding white space."""
    for pair in raw.decode(errors="replace").split("&", _MAX_PAIRS)[:_MAX_PAIRS]:
        name, _, value = pair.partition("=")
        yield _text(unquote_plus(name)), _text(unquote_plus(value))


def _members(raw: bytes) -> Fields:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ServiceError("malformed_json", f"The body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ServiceError("malformed_json", "The body is not a JSON object.")
    return {_text(name): _text(item) if isinstance(item, str) else item for name, item in value.items()}


def _text(value: str) -> str:
    """Return a text as it can be stored, without surrounding white space."""
    return value.replace("\0", "").strip()


def _typed(value: Any, node: Node) -> Any:
    """Return a value as the type of its property. One that is not of that type stays, for the schema to refuse."""
    read = _READERS.get(node.get("type", ""))
    typed = read(value) if read else value
    if node.get("x-truncate") and isinstance(typed, str):
        return typed[: node["maxLength"]].strip()
    return typed


def _boolean(value: Any) -> Any:
    if isinstance(value, str | int):
        return _BOOLEANS.get(str(value).lower(), value)
    return value


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value


def _integers(value: Any) -> Any:
    """Return a list of numbers that is sent as `[3]`, `3,5` or `[]`."""
    if isinstance(value, str) and value:
        inner = value[1:-1] if value[0] == "[" and value[-1] == "]" else value
        value = [item.strip() for item in inner.split(",")] if inner.strip() else []
    return [_integer(item) for item in value] if isinstance(value, list) else value


def _string(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "integer": _integer,
    "array": _integers,
    "string": _string,
}
