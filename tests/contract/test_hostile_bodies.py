"""Bodies that are costly to read, for every operation, made from the contract: none keeps the event loop busy."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import orjson
import pytest

from app.edge.access_log import AccessLog
from app.edge.middleware import RequestMiddleware
from app.edge.operation import CompiledOperation, Edge
from app.edge.validation_errors import MAX_VIOLATIONS
from schemas.contract import MIN_BODY_LIMIT, Node, Operation
from schemas.dialect import branches_by_tag
from tests.contract.hostile_edge import CONTRACT, AnyCredential, Application, bounded, edge_of

MAX_DEPTH = 4
DESCRIBING = {"description", "example", "default", "x-error-code"}
"""Keywords that change nothing about which values a schema takes; properties may have such names too."""
OPERATIONS = [
    one
    for one in CONTRACT.operations.values()
    if "application/json" in one.body and not one.path.startswith("/webhooks/")
]
REPRESENTATIVE = ("create_freeze", "create_schedule", "import_schedules")
"""Operations with large bodies, for all others."""

Fill = Callable[[int], bytes]
"""Returns a JSON value of about so many bytes."""


def repeated(item: bytes, size: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening + (item + b",") * (size // (len(item) + 1) - 1) + item + closing


@lru_cache(maxsize=16)
def numbered(pattern: bytes, size: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    count = size // (len(pattern % 10**6) + 1)
    return opening + b",".join(pattern % (10**6 + number) for number in range(count)) + closing


FILLS: dict[str, Fill] = {
    "unknown keys": partial(numbered, b'"%d":1', opening=b"{", closing=b"}"),
    "numbers": partial(repeated, b"1"),
    "whole floats": partial(repeated, b"1.0"),
    "empty lists": partial(repeated, b"[]"),
    "objects with a key": partial(repeated, b'{"a":1}'),
    "strings": partial(numbered, b'"acme/%d"'),
    "strings with NULs": partial(repeated, b'"\\u0000"'),
    "one string": lambda size: b'"' + b"a" * size + b'"',
}
"""Values that are put into every position of a body."""

WHOLE: dict[str, Fill] = {
    **FILLS,
    "escaped keys": partial(numbered, b'"\\u0061%d":1', opening=b"{", closing=b"}"),
    "keys with NULs": partial(numbered, b'"\\u0000%d":1', opening=b"{", closing=b"}"),
    "a duplicate key": partial(repeated, b'"a":{}', opening=b"{", closing=b"}"),
    "an escaped duplicate key": partial(repeated, b'"\\u0061":{}', opening=b"{", closing=b"}"),
    "objects with a duplicate key": partial(repeated, b'{"a":1,"\\u0061":1}'),
    "lists inside lists": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "lists 200 deep": partial(repeated, b"[" * 200 + b"]" * 200),
    "objects 200 deep": partial(repeated, b'{"a":' * 200 + b"1" + b"}" * 200),
    "open brackets": lambda size: b"[" * size,
    "one long key": lambda size: b'{"' + b"a" * size + b'":1}',
    "an escaped string": lambda size: b'"' + b"\\u00e4" * (size // 6) + b'"',
    "a long number": lambda size: b"1" * size,
    "white space": lambda size: b" " * size,
    "one bad byte at the end": lambda size: b'"' + b"a" * size + b'\xff"',
}


@dataclass(frozen=True)
class Position:
    """A position inside a body: its schema, and the bytes before and after it."""

    path: str
    node: Node
    before: bytes
    after: bytes

    def filled(self, value: bytes) -> bytes:
        return self.before + value + self.after


def positions(position: Position, depth: int = 0) -> Iterator[Position]:
    """Yield every position inside another, to a depth."""
    if depth == MAX_DEPTH:
        return
    node = position.node
    if "discriminator" in node:
        tag = node["discriminator"]["propertyName"]
        for value, branch in branches_by_tag(CONTRACT.document, node).items():
            yield from _members(branch, position, depth, b"%s:%s," % (orjson.dumps(tag), orjson.dumps(value)))
        return
    for part in (*node.get("allOf", ()), *node.get("oneOf", ()), *node.get("anyOf", ())):
        yield from positions(Position(position.path, CONTRACT.resolve(part), position.before, position.after), depth)
    yield from _members(node, position, depth, b"")
    if node.get("type") == "array":
        inner = Position(
            f"{position.path}/0", CONTRACT.resolve(node["items"]), position.before + b"[", b"]" + position.after
        )
        yield inner
        yield from positions(inner, depth + 1)
    if isinstance(node.get("additionalProperties"), dict):
        of_any_name = CONTRACT.resolve(node["additionalProperties"])
        yield Position(f"{position.path}/*", of_any_name, position.before + b'{"any":', b"}" + position.after)


def _members(node: Node, position: Position, depth: int, tag: bytes) -> Iterator[Position]:
    for name, child in CONTRACT.resolve(node).get("properties", {}).items():
        before = position.before + b"{" + tag + orjson.dumps(name) + b":"
        inner = Position(f"{position.path}/{name}", CONTRACT.resolve(child), before, b"}" + position.after)
        yield inner
        yield from positions(inner, depth + 1)


def positions_of(operations: Iterable[Operation]) -> list[tuple[Operation, Position]]:
    """Return the positions of the bodies; those that take the same values once, where the body may be largest."""
    found: dict[bytes, tuple[Operation, Position]] = {}
    for operation in sorted(operations, key=lambda one: -one.body_limit):
        whole = Position("", CONTRACT.resolve(operation.body["application/json"]), b"", b"")
        for position in positions(whole):
            found.setdefault(
                orjson.dumps(_without_text(position.node), option=orjson.OPT_SORT_KEYS), (operation, position)
            )
    return list(found.values())


def _without_text(node: Any) -> Any:
    """Return a schema without what only describes it."""
    if isinstance(node, list):
        return [_without_text(each) for each in node]
    if not isinstance(node, dict):
        return node
    described = {name: value for name, value in node.items() if name not in DESCRIBING or isinstance(value, dict)}
    return {name: _without_text(value) for name, value in described.items()}


@pytest.fixture(scope="module")
def edge() -> Edge:
    return edge_of(AnyCredential())


def application_of(edge: Edge, operation: Operation) -> Application:
    def handler(uow: object, body: object = None) -> None:
        raise AssertionError("no hostile body is valid")

    async def count(request: object, code: str | None) -> None:
        """Count nothing: the operation counts each request."""

    compiled = CompiledOperation(edge, operation, handler)
    return RequestMiddleware(compiled, errors=edge.errors, count=count, log=AccessLog(None))


def assert_bounded(application: Application, operation: Operation, name: str, body: bytes) -> None:
    names = [each.name for each in operation.parameters if each.location == "path"]
    scope = {
        "method": operation.method,
        "path": operation.path,
        "raw_path": operation.path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"idempotency-key", b"one")],
        "route": (names, ["frz_00000000000000000000000001"] * len(names)),
    }
    response = bounded(application, scope, body, operation.id, name)
    assert 400 <= response.status < 500, (operation.id, name, response.body)
    assert len(response.body) < 200_000, (operation.id, name, len(response.body))
    assert operation.classic or len(orjson.loads(response.body)["error"].get("details", ())) <= MAX_VIOLATIONS


def assert_wholes_bounded(edge: Edge, operation: Operation) -> None:
    application = application_of(edge, operation)
    size = operation.body_limit if operation.id in REPRESENTATIVE else MIN_BODY_LIMIT
    for name, fill in WHOLE.items():
        assert_bounded(application, operation, name, fill(size - 2000))


@pytest.mark.parametrize("operation_id", REPRESENTATIVE)
def test_hostile_body_is_refused_at_little_cost(edge: Edge, operation_id: str) -> None:
    assert_wholes_bounded(edge, CONTRACT.operations[operation_id])


@pytest.mark.check
def test_hostile_body_is_refused_at_little_cost_everywhere(edge: Edge) -> None:
    for operation in OPERATIONS:
        assert_wholes_bounded(edge, operation)


@pytest.mark.check
@pytest.mark.slow(14)
def test_hostile_property_is_refused_at_little_cost(edge: Edge) -> None:
    applications: dict[str, Application] = {}
    for operation, position in positions_of(OPERATIONS):
        application = applications.setdefault(operation.id, application_of(edge, operation))
        for name, fill in FILLS.items():
            assert_bounded(
                application, operation, f"{name} at {position.path}", position.filled(fill(operation.body_limit - 2000))
            )
