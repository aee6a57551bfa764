"""The contract, `openapi.yaml`, read once: each operation's parameters, responses, credentials and error codes.

Code does not repeat what the contract says: shapes, policies and error codes are read from here.
"""

import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

CONTRACT_PATH = Path(__file__).resolve().parent.parent / "openapi.yaml"
METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
MIN_BODY_LIMIT = 1 << 14
MAX_BODY_LIMIT = 1 << 20
"""The largest limit that an operation has without `x-body-limit`."""
_BYTES_OF_CHARACTER = 6
"""Of a character as `\\u00e4`."""
_BYTES_OF_SCALAR = 40

DatabaseRole = Literal["organization", "identity"]

Node = Mapping[str, Any]
"""A schema, or another object of the document, with its references unresolved."""


class ContractError(Exception):
    """The contract cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the catalogue of error codes."""

    code: str
    status: int
    type: str
    meaning: str
    also_status: int | None = None
    """The second status that the code can have (`invalid_parameter`: 422 inside a validated body)."""
    emitted: bool = True
    """False for a reserved code, which is never returned."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One path, query or header parameter."""

    name: str
    location: Literal["path", "query", "header", "cookie"]
    required: bool
    schema: Node
    explode: bool
    allow_empty: bool
    """True if an empty value counts as none."""
    examples: Mapping[str, Any]
    """Its named examples, by their summaries."""
    takes_rest: bool = False
    """True for the last parameter of a path if its value may have slashes (`x-rest-of-path`)."""


@dataclass(frozen=True, slots=True)
class Success:
    """The 2xx response of an operation."""

    status: int
    media_type: str | None
    schema: Node | None
    location: tuple[str, Mapping[str, str]] | None
    """The path template of the created object, and the runtime expressions of its parameters (the link `self`)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as the contract describes it."""

    id: str
    method: str
    path: str
    tag: str
    security: tuple[Mapping[str, list[str]], ...]
    effect: Literal["read", "write"]
    least_role: str | None
    entitlement: str | None
    organization_required: bool
    installation_required: bool
    database_role: DatabaseRole
    """The rows that its unit of work sees: those of one organisation, or those about people in all organisations."""
    body_limit: int
    """In bytes: `x-body-limit`, or as many as the largest valid body may have."""
    mcp_tool: str | None
    """The name of the tool that calls it."""
    mcp_confirm: bool | None
    """Of a tool that takes something away: true if it needs confirmation. None for other tools."""
    audit: tuple[str, ...]
    """The audit actions of a success: at least one of these and no other; empty if nothing is recorded."""
    error_codes: frozenset[str]
    parameters: tuple[Parameter, ...]
    body: Mapping[str, Node] = field(default_factory=dict)
    """Media type → schema of the request's body; empty if it takes none."""
    body_required: bool = False
    success: Success = Success(204, None, None, None)
    conditional: bool = False
    """True if it returns 304 for a current `If-None-Match`."""
    rate_limit: tuple[str, int] | None = None
    """Of an operation without credentials: the path parameter whose values are limited, to how many requests each a
    minute."""
    ignores_unknown_query: bool = False
    """True if query parameters that the contract does not have are ignored (`x-unknown-query: ignored`)."""
    classic: bool = False
    """True below the prefix of the compatibility API (`x-compatibility`)."""

    @property
    def module(self) -> str:
        """The module of `handlers/` that holds its function: the tag in lower snake case."""
        return self.tag.lower().replace(" ", "_").replace("-", "_")

    @property
    def takes_rest(self) -> bool:
        """True if the last parameter of its path takes the rest of the path."""
        return any(parameter.takes_rest for parameter in self.parameters)

    @property
    def any_scope(self) -> tuple[str, ...]:
        """The scopes, any one of which a key needs."""
        return tuple(scope for scheme in self.security for scope in scheme.get("ApiKey", ()))

    @property
    def reads_json(self) -> bool:
        """True if its body is JSON, or if it is a write without a body, which gets nothing or an empty object."""
        return not self.classic and ("application/json" in self.body or (self.effect == "write" and not self.body))

    def accepts(self, scheme: str) -> bool:
        """Return True if a credential of this security scheme may call it."""
        return any(scheme in alternative for alternative in self.security)


@dataclass(frozen=True, slots=True)
class Contract:
    """The document and its content."""

    document: Mapping[str, Any]
    source: bytes
    """The text of the document, YAML."""
    operations: Mapping[str, Operation]
    """By operationId."""
    errors: Mapping[str, ErrorCode]
    """The catalogue, by code."""
    cross_cutting: frozenset[str]
    """The codes that every operation may return, beside its own."""

    def resolve(self, node: Node) -> Node:
        """Follow `$ref` until there is none."""
        return resolve(self.document, node)

    @property
    def classic_prefix(self) -> str:
        """The prefix of the paths of the compatibility API, or a text that no path begins with."""
        return classic_prefix(self.document)

    @property
    def tool_scopes(self) -> Mapping[str, str]:
        """The scopes that MCP tools need, with their descriptions, sorted."""
        needed = {
            scope for operation in self.operations.values() if operation.mcp_tool for scope in operation.any_scope
        }
        vocabulary = self.document["components"]["securitySchemes"]["ApiKey"]["x-scopes"]
        return {name: vocabulary[name] for name in sorted(needed)}


def resolve(document: Mapping[str, Any], node: Node) -> Node:
    """Follow `$ref` inside `document` until there is none."""
    while "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NAMES = {"true": True, "false": False, "null": None, "~": None, "": None}


def parse_yaml(source: bytes) -> dict[str, Any]:
    """Return the document as JSON values with text keys; raise ContractError if it is not a YAML object.

    It is built from the events of the parser. PyYAML's own way over nodes takes five times as long, and leaves 25 MB
    of holes in the memory of each process.
    """
    events = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(source)
    try:
        _stream, _document = events.get_event(), events.get_event()
        document = _value(events, events.get_event())
        if not isinstance(document, dict):
            raise ContractError("the contract is not an object")
        _end, after = events.get_event(), events.get_event()
        if type(after) is not yaml.StreamEndEvent:
            raise ContractError("the contract is more than one document")
    except yaml.YAMLError as error:
        raise ContractError(f"not YAML: {error}") from error
    return document


def _value(events: Any, event: Any) -> Any:
    kind = type(event)
    if kind is yaml.ScalarEvent:
        return _scalar(event.value) if event.implicit[0] else sys.intern(event.value)  # False: quoted, or in a block
    if kind is yaml.MappingStartEvent:
        mapping: dict[str, Any] = {}
        while type(key := events.get_event()) is not yaml.MappingEndEvent:
            if type(key) is not yaml.ScalarEvent or key.value in mapping:
                what = f"{key.value} given twice" if type(key) is yaml.ScalarEvent else "a key that is not text"
                raise ContractError(f"{what}, line {event.start_mark.line + 1}")
            mapping[sys.intern(key.value)] = _value(events, events.get_event())
        return mapping
    if kind is yaml.SequenceStartEvent:
        items = []
        while type(item := events.get_event()) is not yaml.SequenceEndEvent:
            items.append(_value(events, item))
        return items
    if kind is yaml.AliasEvent:
        raise ContractError(f"JSON has no aliases, line {event.start_mark.line + 1}")
    return None


def _scalar(text: str) -> Any:
    """Return a value as JSON has it: no dates, and of the words only `true`, `false` and `null`."""
    if text in _NAMES:
        return _NAMES[text]
    number = _NUMBER.fullmatch(text)
    return sys.intern(text) if number is None else float(text) if number[1] or number[2] else int(text)


@cache
def load_contract() -> Contract:
    """Read the contract once per process; raise ContractError if it is not valid."""
    try:
        return parse_contract(CONTRACT_PATH.read_bytes())
    except OSError as error:
        raise ContractError(f"cannot read the contract: {error}") from error


def parse_contract(source: bytes) -> Contract:
    """Read a contract from its text; raise ContractError if it is not valid."""
    return build_contract(source, parse_yaml(source))


def build_contract(source: bytes, document: Mapping[str, Any]) -> Contract:
    """Return the contract of a text and the document that it holds; raise ContractError if it is not valid."""
    operations: dict[str, Operation] = {}
    for path, method, item, raw in _raw_operations(document):
        try:
            operation = _operation(document, path, method, item, raw)
        except (KeyError, TypeError, ValueError) as error:
            raise ContractError(f"{method.upper()} {path}: {error!r}") from error
        if operation.id in operations:
            raise ContractError(f"operationId {operation.id} given twice")
        operations[operation.id] = operation
    _add_locations(document, operations)
    return Contract(
        document=document,
        source=source,
        operations=operations,
        errors=_catalogue(document),
        cross_cutting=frozenset(document.get("x-cross-cutting-errors", ())),
    )


def _raw_operations(document: Node) -> Iterator[tuple[str, str, Node, Node]]:
    for path, item in document.get("paths", {}).items():
        for method in METHODS:
            if method in item:
                yield path, method, item, item[method]


def _catalogue(document: Node) -> dict[str, ErrorCode]:
    try:
        return {
            code: ErrorCode(
                code=code,
                status=row["status"],
                type=row["type"],
                meaning=row["meaning"],
                also_status=row.get("alsoStatus"),
                emitted=row.get("emitted", True),
            )
            for code, row in document["x-error-catalogue"].items()
        }
    except (KeyError, TypeError) as error:
        raise ContractError(f"x-error-catalogue: {error!r} is missing") from error


def _operation(document: Node, path: str, method: str, item: Node, raw: Node) -> Operation:
    body = resolve(document, raw["requestBody"]) if "requestBody" in raw else {}
    return Operation(
        id=raw["operationId"],
        method=method.upper(),
        path=path,
        tag=raw["tags"][0],
        security=tuple(raw["security"] if "security" in raw else document.get("security", ())),
        effect=raw.get("x-effect", "read" if method in {"get", "head"} else "write"),
        least_role=raw.get("x-least-role"),
        entitlement=raw.get("x-entitlement"),
        organization_required=raw.get("x-organization", "required") == "required",
        installation_required=raw.get("x-installation", "none") == "required",
        database_role=raw.get("x-database-role", "organization"),
        body_limit=raw.get("x-body-limit") or _body_limit(document, body),
        mcp_tool=raw.get("x-mcp-tool"),
        mcp_confirm=raw.get("x-mcp-confirm"),
        audit=tuple(raw.get("x-audit", ())),
        error_codes=frozenset(raw.get("x-errors", ())),
        parameters=tuple(_parameters(document, item, raw)),
        body={media.lower(): content.get("schema", {}) for media, content in body.get("content", {}).items()},
        body_required=bool(body.get("required")),
        success=_success(document, raw),
        conditional="304" in raw["responses"],
        rate_limit=_rate_limit(raw.get("x-rate-limit")),
        ignores_unknown_query=raw.get("x-unknown-query", "refused") == "ignored",
        classic=path.startswith(classic_prefix(document)),
    )


def _rate_limit(limit: Node | None) -> tuple[str, int] | None:
    return None if limit is None else (limit["parameter"], limit["perMinute"])


def classic_prefix(document: Node) -> str:
    """Return the prefix of the paths of the compatibility API, or a text that no path begins with."""
    return str(document.get("x-compatibility", {}).get("prefix", " "))


def _body_limit(document: Node, body: Node) -> int:
    """Return the power of two that holds every valid body, between MIN_BODY_LIMIT and MAX_BODY_LIMIT."""
    schemas = [content.get("schema", {}) for content in body.get("content", {}).values()]
    largest = max((_largest_size(document, schema, ()) for schema in schemas), default=0)
    return MAX_BODY_LIMIT if largest >= MAX_BODY_LIMIT else max(MIN_BODY_LIMIT, 1 << int(largest).bit_length())


def _largest_size(document: Node, node: Node, outer: tuple[int, ...]) -> float:
    """Return an upper bound of the bytes of a valid value, without white space; infinite if there is none."""
    node = resolve(document, node)
    if id(node) in outer:
        return math.inf
    outer = (*outer, id(node))
    branches = (*node.get("oneOf", ()), *node.get("anyOf", ()))
    size = max((_largest_size(document, branch, outer) for branch in branches), default=0)
    size += sum(_largest_size(document, part, outer) for part in node.get("allOf", ()))
    for name, child in node.get("properties", {}).items():
        size += len(name) + 4 + _largest_size(document, child, outer)
    if node.get("type") == "array":
        size += node.get("maxItems", math.inf) * (1 + _largest_size(document, node.get("items", {}), outer))
    if node.get("type") == "string" and node.get("format") not in {"date", "date-time"}:
        longest = max(map(len, node["enum"])) if "enum" in node else node.get("maxLength", math.inf)
        size += longest * _BYTES_OF_CHARACTER
    return size + _BYTES_OF_SCALAR


def _parameters(document: Node, item: Node, raw: Node) -> Iterator[Parameter]:
    declared = [resolve(document, each) for each in (*item.get("parameters", ()), *raw.get("parameters", ()))]
    for found in {(each["in"], each["name"]): each for each in declared}.values():
        yield Parameter(
            name=found["name"],
            location=found["in"],
            required=bool(found.get("required")),
            schema=found.get("schema", {}),
            explode=found.get("explode", found["in"] in {"query", "cookie"}),
            allow_empty=bool(found.get("allowEmptyValue")),
            examples={each.get("summary", key): each["value"] for key, each in found.get("examples", {}).items()},
            takes_rest=bool(found.get("x-rest-of-path")),
        )


def _success(document: Node, raw: Node) -> Success:
    status = min(int(status) for status in raw["responses"] if status.startswith("2"))
    response = resolve(document, raw["responses"][str(status)])
    for media_type, content in response.get("content", {}).items():
        return Success(status, media_type.lower(), content.get("schema"), None)
    return Success(status, None, None, None)


def _add_locations(document: Node, operations: dict[str, Operation]) -> None:
    """Set the location of each 201 from its link `self`."""
    for operation in list(operations.values()):
        raw = document["paths"][operation.path][operation.method.lower()]
        response = resolve(document, raw["responses"].get("201", {}))
        link = response.get("links", {}).get("self")
        if link is None:
            continue
        link = resolve(document, link)
        if link.get("operationId") not in operations:
            raise ContractError(f"{operation.id}: its link names no operation, {link.get('operationId')}")
        target = operations[link["operationId"]].path
        success = replace(operation.success, location=(target, link.get("parameters", {})))
        operations[operation.id] = replace(operation, success=success)
