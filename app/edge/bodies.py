"""Request bodies: read within their limit, parsed strictly, checked against the contract.

orjson refuses NaN, infinities, bytes that are no UTF-8, byte-order marks and lone surrogates. Two things it lets
pass are found by writing the value again: nesting deeper than 254 levels, at which the writer stops, and a key
given twice, by which text is lost: without a backslash in the body every string has exactly two quotation marks,
so fewer of them mean a lost key. A body with backslashes is read a second time, key by key. The writer also shows
whole numbers that came as `1.0` or `1e0`: it always writes them as `1.0`.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import orjson

from app.edge.exchange import RequestContext
from app.edge.validation_errors import INVALID_BODY, MISSING, BodyFaults, Violation
from rules.errors import ServiceError
from schemas import walk
from schemas.contract import Contract, Operation
from schemas.dialect import Validators
from schemas.instants import read_instant
from schemas.names import snake_case

_EXACT_INTEGER = 2**53
JSON = "application/json"


class BodyReader:
    """Reads the JSON body of one operation."""

    def __init__(self, contract: Contract, validators: Validators, operation: Operation) -> None:
        schema = operation.body[JSON]
        self._required = operation.body_required
        self._limit = operation.body_limit
        self._validator = validators.compile(schema)
        self._faults = BodyFaults(contract.document, schema)
        found = {
            name: contract.resolve(node) for name, node in walk.properties(contract.document, schema, None).items()
        }
        self._arguments = {name: snake_case(name) for name in found}
        self._instants = [(name, snake_case(name)) for name, node in found.items() if node.get("format") == "date-time"]
        self._defaults = {snake_case(name): node["default"] for name, node in found.items() if "default" in node}

    async def read(self, exchange: RequestContext, faults: list[Violation]) -> tuple[dict[str, Any], Any]:
        """Return the body as the handler takes it, and as it was sent; what is wrong goes to `faults`."""
        raw = await read_bytes(exchange, self._limit)
        if not raw:
            if self._required:
                faults.append(Violation("", "a request body is required", MISSING))
            return dict(self._defaults), None
        require_json(exchange)
        body = parse(raw)
        if not self._validator.is_valid(body):
            faults.extend(self._faults.of(body, self._validator.iter_errors(body)))
        if b"\\" in raw and b"\\u0000" in raw:
            faults.extend(
                Violation(path, f"{path} must not hold a NUL character", INVALID_BODY) for path in _nuls(body, ())
            )
        return ({}, body) if faults else (self._taken(body, faults), body)

    def _taken(self, body: dict[str, Any], faults: list[Violation]) -> dict[str, Any]:
        names = self._arguments
        taken = {**self._defaults, **{names.get(key, key): value for key, value in body.items()}}
        for key, name in self._instants:
            if taken.get(name) is not None:
                taken[name] = self._instant(key, taken[name], faults)
        return taken

    def _instant(self, key: str, text: str, faults: list[Violation]) -> datetime | None:
        """Parse what the validator took for an instant; a leap second or the year 0 is one that nobody can keep."""
        try:
            return read_instant(text)
        except ValueError as error:
            faults.append(Violation(f"/{key}", f"{key} is {error}", INVALID_BODY))
            return None


async def read_bytes(exchange: RequestContext, limit: int) -> bytes:
    """Return the whole body; refuses one above `limit` bytes before it is read whole."""
    declared = exchange.header(b"content-length")
    if declared is not None and declared.isdigit() and int(declared[:19]) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await exchange.receive()
        if message["type"] == "http.disconnect":
            raise ServiceError("malformed_json", "the connection closed before the body was complete")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit: int) -> ServiceError:
    return ServiceError("payload_too_large", f"the body is larger than {limit} bytes")


def require_json(exchange: RequestContext) -> None:
    """Refuse a body that is not declared to be JSON in UTF-8."""
    declared = exchange.header(b"content-type")
    if declared == b"application/json":
        return
    media, *options = (declared or b"").decode("latin-1").lower().split(";")
    charsets = [option.partition("=")[2].strip(' "') for option in options if option.strip().startswith("charset")]
    if media.strip() == JSON and all(charset in {"utf-8", "utf8"} for charset in charsets):
        return
    given = ascii(media.strip()[:100]) if declared else "none"
    raise ServiceError("unsupported_content_type", f"send Content-Type: application/json (got {given})")


def parse(raw: bytes) -> Any:
    """Return the JSON value; raises `malformed_json` for whatever RFC 8259 and common sense do not allow."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ServiceError("malformed_json", f"the body is not JSON: {error}") from None
    try:
        written = orjson.dumps(value)
    except TypeError:
        raise ServiceError("malformed_json", "the body is nested too deeply") from None
    if b"\\" in raw:
        json.loads(raw, object_pairs_hook=_without_repetition)
    elif raw.count(b'"') != written.count(b'"'):
        raise ServiceError("malformed_json", "the body gives a key twice")
    return _integral(value) if b"." in written and b".0" in written else value


def _without_repetition(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ServiceError("malformed_json", "the body gives a key twice")


def _integral(value: Any) -> Any:
    """Turn `1.0` into `1`, as JSON does not tell them apart; what a double cannot hold exactly stays as it is."""
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
