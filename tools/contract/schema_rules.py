"""Rules on schemas and their examples.

Answers can grow, requests are closed and bounded, and names of schemas differ from names that are generated.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.contract.document import Document, Operation, Place, Problem, inside_example
from tools.contract.openness import answer_schemas, request_schemas
from tools.contract.vocabulary import pascal_case

_BOUNDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "integer": (("minimum",), ("maximum",)),
    "number": (("minimum",), ("maximum",)),
    "string": (("maxLength", "enum", "pattern"),),
    "array": (("maxItems",),),
    "map": (("maxProperties",),),
}
"""Type, or `map` for an object with names of its own → the keywords it needs; of each group, one."""
_ALTERNATIVES = re.compile(r"\^\(\w+(\|\w+)+\)\$")
_BUILT_IN = frozenset(
    {
        *("Any", "Array", "Blob", "Boolean", "Class", "Date", "Error", "Event", "Exception", "File", "Function"),
        *("Iterator", "List", "Map", "Model", "Module", "None", "Number", "Object", "Optional", "Promise", "Record"),
        *("Request", "Response", "Self", "Set", "String", "Symbol", "Tuple", "Type", "Union", "Unset"),
    }
)
"""Names that Python, TypeScript, Go or their generated clients have already."""


def nullable_without_type(document: Document) -> Iterator[Problem]:
    """Require a `type` beside `nullable`, which does nothing without it."""
    for place, value in document.nodes():
        if isinstance(value, dict) and value.get("nullable") is True and "type" not in value:
            yield document.problem(place, "is nullable and has no type, so null is refused")


def described_components(document: Document) -> Iterator[Problem]:
    """Require a description of every component schema."""
    for name, schema in document.components("schemas").items():
        if not schema.get("description"):
            yield document.problem(("components", "schemas", name), "has no description")


def request_bounds(document: Document) -> Iterator[Problem]:
    """Require bounds for every value that a client sends."""
    for place, schema in request_schemas(document).items():
        kind = "map" if isinstance(schema.get("additionalProperties"), dict) else schema.get("type", "")
        for group in _BOUNDS.get(kind, ()):
            if not any(key in schema for key in group):
                yield document.problem(place, f"{_inside(place)} needs {' or '.join(group)}")


def closed_requests(document: Document) -> Iterator[Problem]:
    """Require closed objects in requests.

    Forms may be open: they are OAuth's, whose servers ignore what they do not know (RFC 6749, 3.2).
    """
    for place, schema in request_schemas(document, forms=False).items():
        others = schema.get("additionalProperties")
        if schema.get("type") == "object" and others is not False and not isinstance(others, dict):
            yield document.problem(place, f"{_inside(place)} is sent by clients and needs additionalProperties: false")


def _inside(place: Place) -> str:
    """Return where a schema is inside its component or operation: `names.items`."""
    return ".".join(str(key) for key in place[3:] if key != "properties") or "the object"


def closed_answers(document: Document) -> Iterator[Problem]:
    """Refuse answers that a generated client could not read after one more property or value."""
    for place, schema in answer_schemas(document).items():
        if schema.get("additionalProperties") is False:
            yield document.problem(place, "is in an answer and is closed: answers need additionalProperties: true")
        if "enum" in schema:
            yield document.problem(place, "is in an answer and has enum: answers list values in x-extensible-enum")
        if _ALTERNATIVES.fullmatch(schema.get("pattern", "")):
            yield document.problem(place, "lists its values in a pattern: answers list values in x-extensible-enum")
        if "discriminator" in schema:
            yield document.problem(place, "is in an answer and has a discriminator, whose values cannot grow")


def listed_values(document: Document) -> Iterator[Problem]:
    """Require that `x-extensible-enum` lists strings, each once, and has a description to name them."""
    for place, schema in answer_schemas(document).items():
        if "x-extensible-enum" not in schema:
            continue
        values = schema["x-extensible-enum"]
        strings = isinstance(values, list) and all(isinstance(value, str) for value in values)
        if not strings or not values or len(set(values)) < len(values) or schema.get("type") != "string":
            yield document.problem(place, "needs type: string, and in x-extensible-enum a list of strings, each once")
        elif "description" not in schema:
            yield document.problem(place, "has x-extensible-enum and no description")


def open_requests(document: Document) -> Iterator[Problem]:
    """Require `enum` in requests, in place: the values of two components are one constant in a generated Go client."""
    for place, schema in request_schemas(document).items():
        if "x-extensible-enum" in schema:
            yield document.problem(place, "is in a request and has x-extensible-enum: requests need enum")
        if "enum" in schema and place[:2] == ("components", "schemas") and len(place) == 3:
            yield document.problem(place, "is an enum of its own: write it where it is used")


def filters(document: Document) -> Iterator[Problem]:
    """Require that a filter of a list accepts the values that the property of its name can have."""
    for operation in document.operations():
        properties = _item_properties(operation) if operation.is_list else {}
        for place, parameter in operation.parameters:
            listed = document.resolved(properties.get(parameter["name"], {})).get("x-extensible-enum")
            accepted = document.resolved(parameter.get("schema", {})).get("enum")
            if accepted and listed and accepted != listed:
                yield document.problem(place, f"{parameter['name']} does not accept the values of x-extensible-enum")


def _item_properties(operation: Operation) -> Mapping[str, Any]:
    """Return the properties of the objects in a list."""
    document = operation.document
    content = next(iter(operation.successes.values()))["content"]["application/json"]
    data = document.resolved(content["schema"])["properties"]["data"]
    found: Mapping[str, Any] = document.resolved(document.resolved(data).get("items", {})).get("properties", {})
    return found


def forms(document: Document) -> Iterator[Problem]:
    """Require that `x-forms` names properties of a closed object that are not required."""
    for place, schema in request_schemas(document).items():
        names = {name for form in schema.get("x-forms", ()) for name in form}
        if names - set(schema.get("properties", ())) or names & set(schema.get("required", ())):
            yield document.problem(place, "has x-forms that do not name optional properties")


def colliding_names(document: Document) -> Iterator[Problem]:
    """Refuse names of schemas that generators take for something else.

    Those are names of the languages, names of operations, and `<Operation>Request` of an operation with another body:
    the name of its parameters in TypeScript.
    """
    operations = {pascal_case(operation.id): operation for operation in document.operations()}
    for name in document.components("schemas"):
        operation = operations.get(name.removesuffix("Request"))
        if name in _BUILT_IN:
            yield document.problem(("components", "schemas", name), "is a name that languages have already")
        elif name in operations:
            yield document.problem(("components", "schemas", name), f"has the name of {operations[name].id}")
        elif operation is not None and not _is_body(document, operation.body, name):
            yield document.problem(("components", "schemas", name), f"has the name of the parameters of {operation.id}")


def _is_body(document: Document, body: object, name: str) -> bool:
    contents = body.get("content", {}).values() if isinstance(body, dict) else ()
    schema = document.components("schemas")[name]
    return any(document.resolved(content.get("schema", {})) is schema for content in contents)


def missing_examples(document: Document) -> Iterator[Problem]:
    """Require an example of each body, each response and each required parameter."""
    for place, node in document.nodes():
        if not isinstance(node, dict) or inside_example(place) or "example" in node or node.get("examples"):
            continue
        if place[-2:-1] == ("content",) and "/" in str(place[-1]):
            yield document.problem(place, f"its {place[-1]} has no example")
        if place[-2:-1] == ("parameters",) and node.get("required"):
            yield document.problem(place, f"parameter {node['name']} has no example")


def invalid_examples(document: Document) -> Iterator[Problem]:
    """Require that an example is valid under the schema that it stands in or beside."""
    for place, node in document.nodes():
        component = place[:2] == ("components", "schemas")
        inside = component and (len(place) == 3 or place[-2:-1] == ("properties",) or place[-1] == "items")
        schema = node if inside else node.get("schema") if isinstance(node, dict) else None
        if not isinstance(schema, dict):
            continue
        examples: dict[Place, Any] = {("example",): node["example"]} if "example" in node else {}
        for name, example in node.get("examples", {}).items():
            examples["examples", name] = document.resolved(example).get("value")
        for key, value in examples.items():
            for error in document.validators.compile(schema).iter_errors(value):
                where = "/".join(str(each) for each in error.instance_path) or "value"
                yield document.problem((*place, *key), f"the example's {where} is not valid: {error.message}")
