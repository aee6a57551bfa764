"""A contract as data, which knows the line of its sources that each place comes from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from schemas.contract import METHODS, classic_prefix, resolve
from schemas.dialect import Validators

Place = tuple[str | int, ...]
"""The keys that lead to a node: `("paths", "/v1/freezes", "post")`."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem: its file and line, the operation or place that it belongs to, and what is wrong."""

    file: str
    line: int
    where: str
    message: str


@dataclass(frozen=True, eq=False)
class Document:
    """A contract's values, and the files that they were read from."""

    root: Mapping[str, Any]
    sources: Sequence[tuple[str, yaml.Node]] = ()
    """Name and YAML nodes of each file; a place is the same in its file and here."""

    @cached_property
    def validators(self) -> Validators:
        """The validators that the service itself uses."""
        return Validators(self.root)

    def at(self, place: Place) -> Any:
        """Return the value at a place, which must exist."""
        node: Any = self.root
        for key in place:
            node = node[key]
        return node

    def target(self, place: Place) -> Place:
        """Return the place that a reference at `place` leads to, or `place`."""
        while "$ref" in self.at(place):
            place = tuple(self.at(place)["$ref"].removeprefix("#/").split("/"))
        return place

    def position(self, place: Place) -> tuple[str, int]:
        """Return file and line of a place, or of its nearest ancestor."""
        found = [(*_deepest(node, place), name) for name, node in self.sources]
        _, line, name = max(found, key=lambda each: each[0], default=(0, 1, ""))
        return name, line

    def resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Follow `$ref` until there is none."""
        return resolve(self.root, node)

    def has(self, reference: str) -> bool:
        """Return True if a reference exists inside the document."""
        try:
            return reference.startswith("#/") and self.resolved({"$ref": reference}) is not None
        except (KeyError, TypeError):
            return False

    def problem(self, place: Place, message: str) -> Problem:
        """Return a problem at a place, named after the operation that holds the place."""
        return Problem(*self.position(place), self._where(place), message)

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

    @property
    def catalogue(self) -> Mapping[str, Any]:
        """The catalogue of error codes: code → status, type, meaning."""
        found: Mapping[str, Any] = self.root.get("x-error-catalogue", {})
        return found

    def components(self, kind: str) -> Mapping[str, Any]:
        """Return the components of a kind, such as `parameters`, by name."""
        found: Mapping[str, Any] = self.root.get("components", {}).get(kind, {})
        return found

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
        """Its place in the document."""
        return ("paths", self.path, self.method)

    @cached_property
    def raw(self) -> Mapping[str, Any]:
        """The operation as written."""
        found: Mapping[str, Any] = self.document.at(self.place)
        return found

    @property
    def id(self) -> str:
        """Its operationId, or an empty string."""
        return str(self.raw.get("operationId", ""))

    def problem(self, message: str, *path: str | int) -> Problem:
        """Return a problem at a place inside the operation."""
        return self.document.problem((*self.place, *path), message)

    @cached_property
    def parameters(self) -> list[tuple[Place, Mapping[str, Any]]]:
        """Its parameters and those of its path, references followed, each with its place."""
        owners: tuple[Place, ...] = (self.place[:2], self.place)
        return [
            ((*owner, "parameters", index), self.document.resolved(parameter))
            for owner in owners
            for index, parameter in enumerate(self.document.at(owner).get("parameters") or ())
        ]

    @cached_property
    def responses(self) -> Mapping[str, Mapping[str, Any]]:
        """Status → response, references followed."""
        responses = self.raw.get("responses") or {}
        return {status: self.document.resolved(response) for status, response in responses.items()}

    @cached_property
    def successes(self) -> Mapping[str, Mapping[str, Any]]:
        """The 2xx responses."""
        return {status: response for status, response in self.responses.items() if status.startswith("2")}

    @cached_property
    def body(self) -> Mapping[str, Any] | None:
        """The request body, references followed; None if it takes none."""
        return self.document.resolved(self.raw["requestBody"]) if "requestBody" in self.raw else None

    def has_parameter(self, name: str, location: str) -> bool:
        """Return True if it, or its path, declares the parameter."""
        return any(parameter["name"] == name and parameter["in"] == location for _, parameter in self.parameters)

    @cached_property
    def requires_value(self) -> bool:
        """True if it needs a query parameter, a header or a body, or takes a body that may need a property."""
        needed = (parameter.get("required") and parameter["in"] != "path" for _, parameter in self.parameters)
        return self.body is not None or any(needed)

    @property
    def is_public(self) -> bool:
        """True if it is part of the versioned API."""
        return self.path.startswith("/v1/")

    @property
    def classic(self) -> bool:
        """True if it is part of the compatibility API."""
        return self.path.startswith(classic_prefix(self.document.root))

    @property
    def reads_body(self) -> bool:
        """True if it reads a body: its own, or that of a write without one, which has to be empty."""
        return self.body is not None or (self.writes and not self.classic)

    @cached_property
    def validated(self) -> bool:
        """True if its body is validated: JSON of a client and nothing but JSON, or the empty one of a write."""
        content = {"application/json"} if self.body is None else set(self.body.get("content", {}))
        return self.reads_body and content == {"application/json"} and not self.is_webhook

    @cached_property
    def schemes(self) -> frozenset[str]:
        """Names of the security schemes that it accepts."""
        return frozenset(name for alternative in self.raw.get("security", ()) for name in alternative)

    @property
    def credentialled(self) -> bool:
        """True if it accepts an API key or a signed-in person."""
        return "ApiKey" in self.schemes or self.for_people

    @property
    def for_people(self) -> bool:
        """True if it accepts a signed-in person: a JWT, a session token or its cookie."""
        return bool(self.schemes & {"Session", "SessionToken", "SessionCookie"})

    @property
    def is_webhook(self) -> bool:
        """True if it receives webhooks: signed requests, whose bodies GitHub, Stripe or Slack defines."""
        return not self.credentialled and bool(self.schemes)

    @property
    def writes(self) -> bool:
        """True if its effect is a write."""
        return self.raw.get("x-effect") == "write"

    @cached_property
    def is_list(self) -> bool:
        """True if it returns one page of a list."""
        contents = (content for response in self.successes.values() for content in response.get("content", {}).values())
        schemas = (self.document.resolved(content.get("schema", {})) for content in contents)
        return any("nextCursor" in schema.get("properties", {}) for schema in schemas)


def inside_example(place: Place) -> bool:
    """True if a place is inside the value of an example."""
    return "example" in place or ("examples" in place and "value" in place)


def _deepest(node: yaml.Node, place: Place) -> tuple[int, int]:
    """Return how many keys of a place lead somewhere in a file, and the line to which the last of these leads."""
    line = 1
    for depth, key in enumerate(place):
        below: dict[Any, tuple[int, yaml.Node]] = {}
        if isinstance(node, yaml.MappingNode):
            below = {str(name.value): (name.start_mark.line, value) for name, value in node.value}
        elif isinstance(node, yaml.SequenceNode):
            below = {index: (value.start_mark.line, value) for index, value in enumerate(node.value)}
        if key not in below:
            return depth, line
        number, node = below[key]
        line = number + 1
    return len(place), line
