"""Request bodies: read up to a limit, parsed strictly, validated against the contract.

orjson rejects NaN, infinities, invalid UTF-8, byte-order marks and lone surrogates. It accepts two things that must be
rejected too, and both show when the value is serialized again. Nesting deeper than 254 levels makes the serializer
fail. A duplicate key loses text: without a backslash in the body every string has exactly two quotation marks, so
fewer of them mean a duplicate. A body with backslashes is parsed a second time, key by key. The serialized form also
shows whole numbers that came as `1.0` or `1e0`: it always has them as `1.0`.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from typing import Any

import orjson

from app.edge.request_context import REFUSAL, RequestContext
from app.edge.validation_errors import INVALID_BODY, MAX_VIOLATIONS, MISSING, BodyViolations, Violation
from rules.contract_names import snake_case
from rules.errors import ServiceError
from schemas import walk
from schemas.bounds import bounds_of
from schemas.contract import Contract, Node, Operation
from schemas.dialect import Validators
from schemas.instants import parse_valid_instant

JSON = "application/json"
NO_PROPERTIES: Node = {"type": "object", "properties": {}, "additionalProperties": False}
"""The schema of the body of a write that documents none: nothing, `null` or `{}`."""
_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data")
MAX_UNCUT_BYTES = 4096
"""Smaller bodies are cut to the bounds of the contract only if they are invalid."""
MAX_INLINE_BYTES = 32_768
"""Larger bodies are parsed and validated in a thread."""
MAX_BRACKETS = 50_000
"""`[` and `{` in a body, also inside its texts. Lists and objects are what takes time to create: 50,000 about 10 ms."""
MAX_UNVERIFIED_BYTES = 52 << 20
"""Memory of one process for bodies whose sender is verified only when they are complete, such as signed webhooks."""
FREE_UNVERIFIED_BYTES = 65_536
"""The beginning of each such body does not count, so that small ones are always read."""
_MEMORY_RETRY_SECONDS = 10
_EXACT_INTEGER = 2**53
_LARGE_BODIES = ThreadPoolExecutor(1, thread_name_prefix="bodies")
"""One thread: parsers keep the interpreter's lock, so several would delay the event loop more."""


class BodyMemory:
    """Limits the memory of bodies that are read before their sender is verified."""

    def __init__(self, total: int) -> None:
        self._free = total

    def acquire(self, size: int) -> None:
        """Count the bytes. Raise `rate_limited` if there are too many."""
        if size > self._free:
            raise ServiceError(
                "rate_limited",
                "Too many large bodies are being received. Try again.",
                retry_after=_MEMORY_RETRY_SECONDS,
            )
        self._free -= size

    def release(self, size: int) -> None:
        """Free the bytes of a body that is not needed any more."""
        self._free += size


UNVERIFIED_BODIES = BodyMemory(MAX_UNVERIFIED_BYTES)
"""The memory of this process."""


class BodyReader:
    """Reads the JSON body of one operation."""

    def __init__(self, contract: Contract, validators: Validators, operation: Operation) -> None:
        schema = operation.body.get(JSON, NO_PROPERTIES)
        self._absent: tuple[Any, ...] = (None,) if JSON in operation.body else (None, {})
        """What counts as no body, if none is required: generated Go clients send null."""
        self._required = operation.body_required
        self._limit = operation.body_limit
        self._validator = validators.compile(schema, mask="the value")
        self._bounds = bounds_of(contract.document, schema)
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
        if len(raw) <= MAX_INLINE_BYTES:
            return self.parse(raw, violations)
        return await asyncio.get_running_loop().run_in_executor(_LARGE_BODIES, self.parse, raw, violations)

    def parse(self, raw: bytes, violations: list[Violation]) -> tuple[dict[str, Any], Any]:
        """Return the arguments and the body of its text. Validation errors are appended to `violations`.

        Raise `malformed_json` if it is not JSON. The work is bounded: what is looked at one by one is cut before.
        """
        sent, has_whole_floats = _parse(raw)
        body = sent if len(raw) <= MAX_UNCUT_BYTES else self._bounds.cut(sent)
        is_within = body is sent
        if body in self._absent and not self._required:
            return dict(self._defaults), None
        if is_within and b"\\" in raw:
            json.loads(raw, object_pairs_hook=_reject_duplicates)
        if has_whole_floats:
            body = _integral(body)
        if not is_within or not self._validator.is_valid(body):
            body = self._bounds.cut(body)
            violations.extend(self._violations.of(body, self._validator.iter_errors(body)))
            if not is_within and not violations:
                violations.append(Violation("", "The body does not match the contract", INVALID_BODY))
        if b"\\" in raw and b"\\u0000" in raw:
            violations.extend(
                Violation(path, f"{path} must not hold a NUL character", INVALID_BODY)
                for path in islice(_nuls(body, ()), MAX_VIOLATIONS)
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
            return parse_valid_instant(text)
        except ValueError as error:
            violations.append(Violation(f"/{key}", f"{key} is {error}", INVALID_BODY))
            return None


async def read_bytes(request: RequestContext, limit: int, memory: BodyMemory | None = None) -> bytes:
    """Return the whole body. Raise `payload_too_large` as soon as it exceeds `limit` bytes.

    With `memory`, what it takes of it is recorded in the request, to be released at its end.
    """
    declared = request.header(b"content-length")
    if declared is not None and declared.isdigit() and int(declared[:19]) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        chunk = content_of(message, request)
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        if memory is not None and size > FREE_UNVERIFIED_BYTES:
            memory.acquire(len(chunk))
            request.unverified_bytes += len(chunk)
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def discard_body(request: RequestContext, limit: int) -> None:
    """Read a body that the operation does not take. Raise `payload_too_large` as soon as it exceeds `limit` bytes."""
    if request.header(b"content-length") not in {None, b"0"} or request.header(b"transfer-encoding") is not None:
        await read_bytes(request, limit)


def content_of(message: Mapping[str, Any], request: RequestContext) -> bytes:
    """Return the part of a body that a message brings. Raise an error if the rest does not come."""
    if REFUSAL in request.scope:
        raise request.scope[REFUSAL]
    if message["type"] == "http.disconnect":
        raise ServiceError("malformed_json", "The connection closed before the body was complete")
    return message.get("body", b"")  # type: ignore[no-any-return]


def _too_large(limit: int) -> ServiceError:
    return ServiceError("payload_too_large", f"The body is larger than {limit} bytes")


def refuse_form(request: RequestContext) -> None:
    """Raise `unsupported_content_type` if a form is declared, with or without content."""
    declared = request.header(b"content-type")
    if declared is not None and declared.lower().lstrip().startswith(_FORMS):
        require_json(request)


def require_json(request: RequestContext) -> None:
    """Raise `unsupported_content_type` if the body is not declared as JSON in UTF-8; the message names what was."""
    declared = request.header(b"content-type")
    if declared == b"application/json":
        return
    media, *options = (declared or b"").decode("latin-1").lower().split(";")
    charsets = [option.partition("=")[2].strip(' "') for option in options if option.strip().startswith("charset")]
    if media.strip() == JSON and all(charset in {"utf-8", "utf8"} for charset in charsets):
        return
    if media.strip() == JSON:
        given = ascii(", ".join(charsets)[:100])
        raise ServiceError("unsupported_content_type", f"The charset of {JSON} must be utf-8 (got {given})")
    given = ascii(media.strip()[:100]) if declared else "none"
    raise ServiceError("unsupported_content_type", f"Content-Type must be application/json (got {given})")


def _parse(raw: bytes) -> tuple[Any, bool]:
    """Return the JSON value, and True if it may have numbers such as `1.0`.

    Raise `malformed_json` for invalid JSON, too many or too deep lists and objects; without a backslash, also for
    duplicate keys.
    """
    if len(raw) > MAX_BRACKETS and raw.count(b"[") + raw.count(b"{") > MAX_BRACKETS:
        raise ServiceError("malformed_json", "The body has too many lists and objects")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ServiceError("malformed_json", f"The body is not valid JSON: {error}") from None
    try:
        serialized = orjson.dumps(value)
    except TypeError:
        raise ServiceError("malformed_json", "The body is nested too deeply") from None
    if b"\\" not in raw and raw.count(b'"') != serialized.count(b'"'):
        raise ServiceError("malformed_json", "The body contains a duplicate key")
    return value, b".0" in serialized


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
