"""Request bodies: read up to a limit, parsed strictly, validated against the contract.

orjson rejects NaN, infinities, invalid UTF-8, byte-order marks and lone surrogates. It accepts two things that must be
rejected too, and both show when the value is serialized again. Nesting deeper than 254 levels makes the serializer
fail. A duplicate key loses text: without a backslash in the body every string has exactly two quotation marks, so
fewer of them mean a duplicate. A body with backslashes is parsed a second time, key by key. The serialized form also
shows whole numbers that came as `1.0` or `1e0`: it always has them as `1.0`.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import orjson

from app.edge.request_context import RequestContext
from app.edge.validation_errors import INVALID_BODY, MISSING, BodyViolations, Violation
from rules.errors import ServiceError
from schemas import walk
from schemas.contract import Contract, Operation
from schemas.dialect import Validators
from schemas.instants import read_instant
from schemas.names import snake_case

_EXACT_INTEGER = 2**53
JSON = "application/json"
_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data")


class BodyReader:
    """Reads the JSON body of one operation."""

    def __init__(self, contract: Contract, validators: Validators, operation: Operation) -> None:
        schema = operation.body[JSON]
        self._required = operation.body_required
        self._limit = operation.body_limit
        self._validator = validators.compile(schema)
        self._violations = BodyViolations(contract.document, schema)
        found = {
            name: contract.resolve(node) for name, node in walk.properties(contract.document, schema, None).items()
        }
        self._arguments = {name: snake_case(name) for name in found}
        self._instants = [(name, snake_case(name)) for name, node in found.items() if node.get("format") == "date-time"]
        self._defaults = {snake_case(name): node["default"] for name, node in found.items() if "default" in node}

    async def read(self, request: RequestContext, violations: list[Violation]) -> tuple[dict[str, Any], Any]:
        """Return the body as handler arguments, and as it was sent. Validation errors are appended to `violations`."""
        raw = await read_bytes(request, self._limit)
        if not raw:
            if self._required:
                violations.append(Violation("", "A request body is required", MISSING))
            return dict(self._defaults), None
        require_json(request)
        body = parse(raw)
        if not self._validator.is_valid(body):
            violations.extend(self._violations.of(body, self._validator.iter_errors(body)))
        if b"\\" in raw and b"\\u0000" in raw:
            violations.extend(
                Violation(path, f"{path} must not hold a NUL character", INVALID_BODY) for path in _nuls(body, ())
            )
        return ({}, body) if violations else (self._to_arguments(body, violations), body)

    def _to_arguments(self, body: dict[str, Any], violations: list[Violation]) -> dict[str, Any]:
        names = self._arguments
        arguments = {**self._defaults, **{names.get(key, key): value for key, value in body.items()}}
        for key, name in self._instants:
            if arguments.get(name) is not None:
                arguments[name] = self._instant(key, arguments[name], violations)
        return arguments

    def _instant(self, key: str, text: str, violations: list[Violation]) -> datetime | None:
        """Parse a valid date-time. A leap second or the year 0 is valid but cannot be stored."""
        try:
            return read_instant(text)
        except ValueError as error:
            violations.append(Violation(f"/{key}", f"{key} is {error}", INVALID_BODY))
            return None


async def read_bytes(request: RequestContext, limit: int) -> bytes:
    """Return the whole body. Raise `payload_too_large` as soon as it exceeds `limit` bytes."""
    declared = request.header(b"content-length")
    if declared is not None and declared.isdigit() and int(declared[:19]) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ServiceError("malformed_json", "The connection closed before the body was complete")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def discard_body(request: RequestContext, limit: int) -> None:
    """Read a body that the operation does not take. Raise `payload_too_large` as soon as it exceeds `limit` bytes."""
    if request.header(b"content-length") not in {None, b"0"} or request.header(b"transfer-encoding") is not None:
        await read_bytes(request, limit)


def _too_large(limit: int) -> ServiceError:
    return ServiceError("payload_too_large", f"The body is larger than {limit} bytes")


def refuse_form(request: RequestContext) -> None:
    """Raise `unsupported_content_type` if a form is declared, with or without content."""
    declared = request.header(b"content-type")
    if declared is not None and declared.lower().lstrip().startswith(_FORMS):
        require_json(request)


def require_json(request: RequestContext) -> None:
    """Raise `unsupported_content_type` if the body is not declared as JSON in UTF-8."""
    declared = request.header(b"content-type")
    if declared == b"application/json":
        return
    media, *options = (declared or b"").decode("latin-1").lower().split(";")
    charsets = [option.partition("=")[2].strip(' "') for option in options if option.strip().startswith("charset")]
    if media.strip() == JSON and all(charset in {"utf-8", "utf8"} for charset in charsets):
        return
    given = ascii(media.strip()[:100]) if declared else "none"
    raise ServiceError("unsupported_content_type", f"Content-Type must be application/json (got {given})")


def parse(raw: bytes) -> Any:
    """Return the JSON value. Raise `malformed_json` for invalid JSON, duplicate keys and too deep nesting."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ServiceError("malformed_json", f"The body is not valid JSON: {error}") from None
    try:
        serialized = orjson.dumps(value)
    except TypeError:
        raise ServiceError("malformed_json", "The body is nested too deeply") from None
    if b"\\" in raw:
        json.loads(raw, object_pairs_hook=_reject_duplicates)
    elif raw.count(b'"') != serialized.count(b'"'):
        raise ServiceError("malformed_json", "The body contains a duplicate key")
    return _integral(value) if b"." in serialized and b".0" in serialized else value


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ServiceError("malformed_json", "The body contains a duplicate key")


def _integral(value: Any) -> Any:
    """Turn `1.0` into `1`, since JSON has one number type. A number that a double cannot hold exactly is kept."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT_INTEGER else value
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    return [_integral(item) for item in value] if isinstance(value, list) else value


def _nuls(value: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    if isinstance(value, str) and "\0" in value:
        yield walk.pointer(path).replace("\0", "\\0")
    elif isinstance(value, dict):
        for key, item in value.items():
            if "\0" in key:
                yield walk.pointer((*path, key)).replace("\0", "\\0")
            yield from _nuls(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nuls(item, (*path, index))
