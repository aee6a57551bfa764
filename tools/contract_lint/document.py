"""A contract with the line of each of its places, so that a fault can say where it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from schemas.contract import METHODS, parse_yaml, resolve
from schemas.dialect import Validators

Place = tuple[str | int, ...]
"""The keys that lead to a node: `("paths", "/v1/freezes", "post")`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its line, the operation or place it belongs to, and what is wrong."""

    line: int
    where: str
    message: str


@dataclass(frozen=True, eq=False)
class Document:
    """A contract's values, and the line of each place."""

    root: Mapping[str, Any]
    lines: Mapping[Place, int]

    @classmethod
    def parse(cls, source: bytes) -> "Document":
        """Read a contract; raises ContractError when it is no YAML object."""
        return cls(parse_yaml(source), dict(_lines(yaml.compose(source, Loader=yaml.CSafeLoader), ())))

    @cached_property
    def validators(self) -> Validators:
        """Compiles the document's schemas as the service itself does."""
        return Validators(self.root)

    def at(self, place: Place) -> Any:
        """Return the value at a place, which must exist."""
        node: Any = self.root
        for key in place:
            node = node[key]
        return node

    def line(self, place: Place) -> int:
        """Return the line of a place, or of its nearest ancestor."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Follow `$ref` until there is none."""
        return resolve(self.root, node)

    def fault(self, place: Place, message: str) -> Fault:
        """Return a fault at a place, named after its operation where it lies in one."""
        return Fault(self.line(place), self._where(place), message)

    def _where(self, place: Place) -> str:
        if len(place) >= 3 and place[0] == "paths" and place[2] in METHODS:
            operation = self.at(place[:3])
            return str(operation.get("operationId") or f"{str(place[2]).upper()} {place[1]}")
        return ".".join(str(key) for key in place[:3]) or "document"

    def operations(self) -> Iterator["Operation"]:
        """Yield every operation, in the document's order."""
        for path, item in self.root.get("paths", {}).items():
            for method in METHODS:
                if method in item:
                    yield Operation(self, path, method)

    def nodes(self, start: Place = ()) -> Iterator[tuple[Place, Any]]:
        """Yield every place below `start` with its value, references not followed."""
        todo: list[tuple[Place, Any]] = [(start, self.at(start))]
        while todo:
            place, value = todo.pop()
            yield place, value
            children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            todo.extend(((*place, key), child) for key, child in children)


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation of a document."""

    document: Document
    path: str
    method: str

    @property
    def place(self) -> Place:
        """Where it stands."""
        return ("paths", self.path, self.method)

    @cached_property
    def raw(self) -> Mapping[str, Any]:
        """The operation as written."""
        found: Mapping[str, Any] = self.document.at(self.place)
        return found

    @property
    def id(self) -> str:
        """Its operationId, or an empty text."""
        return str(self.raw.get("operationId", ""))

    def fault(self, message: str, *path: str | int) -> Fault:
        """Return a fault at a place inside the operation."""
        return self.document.fault((*self.place, *path), message)

    @cached_property
    def parameters(self) -> list[tuple[Place, Mapping[str, Any]]]:
        """Its parameters and those of its path, references followed, each with the place that names it."""
        owners: tuple[Place, ...] = (self.place[:2], self.place)
        return [
            ((*owner, "parameters", index), self.document.resolved(parameter))
            for owner in owners
            for index, parameter in enumerate(self.document.at(owner).get("parameters", ()))
        ]

    @cached_property
    def responses(self) -> Mapping[str, Mapping[str, Any]]:
        """Status → response, references followed."""
        return {status: self.document.resolved(response) for status, response in self.raw.get("responses", {}).items()}

    @cached_property
    def successes(self) -> Mapping[str, Mapping[str, Any]]:
        """The 2xx answers."""
        return {status: response for status, response in self.responses.items() if status.startswith("2")}

    @cached_property
    def body(self) -> Mapping[str, Any] | None:
        """The request body, references followed; None when it takes none."""
        return self.document.resolved(self.raw["requestBody"]) if "requestBody" in self.raw else None

    @cached_property
    def schemes(self) -> frozenset[str]:
        """Names of the security schemes that it takes."""
        return frozenset(name for alternative in self.raw.get("security", ()) for name in alternative)

    @property
    def credentialled(self) -> bool:
        """Whether it takes an API key, a session, or the token of a sign-in."""
        return "ApiKey" in self.schemes or self.for_people

    @property
    def for_people(self) -> bool:
        """Whether somebody who is signed in may call it."""
        return bool(self.schemes & {"Session", "SessionToken", "SessionCookie"})

    @property
    def from_code_host(self) -> bool:
        """Whether it takes signed deliveries, whose shape is not ours."""
        return self.credentialled is False and bool(self.schemes)

    @property
    def writes(self) -> bool:
        """Whether its effect is a write."""
        return self.raw.get("x-effect") == "write"

    @cached_property
    def is_list(self) -> bool:
        """Whether it answers pages."""
        contents = (content for response in self.successes.values() for content in response.get("content", {}).values())
        schemas = (self.document.resolved(content.get("schema", {})) for content in contents)
        return any("nextCursor" in schema.get("properties", {}) for schema in schemas)


def _lines(node: yaml.Node | None, place: Place) -> Iterator[tuple[Place, int]]:
    if node is not None:
        yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*place, str(key.value))
            yield from _lines(value, below)
            yield below, key.start_mark.line + 1  # a key's line says more than its value's, and comes last to win
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*place, index))
