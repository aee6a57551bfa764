"""Rules on schemas: references, extensions, and bounds of what a client may send."""

from collections.abc import Iterator, Mapping
from typing import Any

from schemas.contract import METHODS
from tools.contract.document import Document, Operation, Place, Problem, inside_example
from tools.contract.vocabulary import FORM, OPERATION_KEYS, PARAMETER_KEYS, ROOT_KEYS, SCHEMA_KEYS, SCHEME_KEYS

_BOUNDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "integer": (("minimum",), ("maximum",)),
    "number": (("minimum",), ("maximum",)),
    "string": (("maxLength", "enum", "pattern"),),
    "array": (("maxItems",),),
}
"""Type → the keywords it needs; of each group, one."""
_OPEN = " is sent by clients and needs additionalProperties: false"


def nullable_without_type(document: Document) -> Iterator[Problem]:
    """Require a `type` beside `nullable`, which does nothing without it."""
    for place, value in document.nodes():
        if isinstance(value, dict) and value.get("nullable") is True and "type" not in value:
            yield document.problem(place, "is nullable and has no type, so null is refused")


def extension_keys(document: Document) -> Iterator[Problem]:
    """Require that an `x-` key is known, and stands where it is read."""
    for place, _ in document.nodes():
        key = place[-1] if place else ""
        if not str(key).startswith("x-") or key in _known_keys(place) or inside_example(place):
            continue
        yield document.problem(place, f"the key {key} is unknown here")


def _known_keys(place: Place) -> frozenset[str]:
    if len(place) == 1:
        return ROOT_KEYS
    if len(place) == 4 and place[0] == "paths" and place[2] in METHODS:
        return OPERATION_KEYS
    if place[:2] == ("components", "securitySchemes"):
        return SCHEME_KEYS
    if len(place) == 4 and place[:2] == ("components", "parameters"):
        return PARAMETER_KEYS
    return SCHEMA_KEYS if "schema" in place or "schemas" in place else frozenset()


def described_components(document: Document) -> Iterator[Problem]:
    """Require a description of every component schema."""
    for name, schema in document.root.get("components", {}).get("schemas", {}).items():
        if not schema.get("description"):
            yield document.problem(("components", "schemas", name), "has no description")


def request_bounds(document: Document) -> Iterator[Problem]:
    """Require bounds for every value that a client sends, and closed objects.

    Forms are OAuth's, whose servers ignore what they do not know (RFC 6749, 3.2).
    """
    for operation in document.operations():
        for place, parameter in operation.parameters:
            yield from _unbounded(document, parameter.get("schema", {}), (*place, "schema"), parameter["name"])
        if operation.body is not None and not operation.is_webhook:
            yield from _body_bounds(operation)


def _body_bounds(operation: Operation) -> Iterator[Problem]:
    assert operation.body is not None
    contents = operation.body.get("content", {})
    for media_type, content in contents.items():
        place = (*operation.place, "requestBody", "content", media_type, "schema")
        for problem in _unbounded(operation.document, content.get("schema", {}), place, "the body"):
            if FORM not in contents or not problem.message.endswith(_OPEN):
                yield problem


def _unbounded(document: Document, schema: Mapping[str, Any], place: Place, name: str) -> Iterator[Problem]:
    """Yield the parts of a schema without bounds; a problem in a component is reported at the component."""
    if "$ref" in schema:
        place = tuple(schema["$ref"].removeprefix("#/").split("/"))
        schema = document.at(place)
    for group in _BOUNDS.get(schema.get("type", ""), ()):
        if not any(key in schema for key in group):
            yield document.problem(place, f"{name} needs {' or '.join(group)}")
    if problem := _open_object(schema, name):
        yield document.problem(place, problem)
    for key, child in schema.get("properties", {}).items():
        yield from _unbounded(document, child, (*place, "properties", key), key)
    for keyword, each in (("items", "an item"), ("additionalProperties", "a value")):
        if isinstance(schema.get(keyword), dict):
            yield from _unbounded(document, schema[keyword], (*place, keyword), f"{each} of {name}")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, child in enumerate(schema.get(keyword, ())):
            yield from _unbounded(document, child, (*place, keyword, index), name)


def _open_object(schema: Mapping[str, Any], name: str) -> str | None:
    """Return the problem of an object that may have properties of any name; a map may, if their number is bounded."""
    others = schema.get("additionalProperties")
    if schema.get("type") != "object" or others is False:
        return None
    if isinstance(others, dict):
        return None if "maxProperties" in schema else f"{name} needs maxProperties"
    return name + _OPEN
