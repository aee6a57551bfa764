"""Rules that let answers grow, keep requests closed, and keep names of schemas apart from names that are generated."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.contract.document import Document, Operation, Problem
from tools.contract.openness import answer_schemas, request_schemas

_ALTERNATIVES = re.compile(r"\^\(\w+(\|\w+)+\)\$")
_BUILT_IN = frozenset(
    {
        *("Any", "Array", "Blob", "Boolean", "Class", "Date", "Error", "Event", "Exception", "File", "Function"),
        *("Iterator", "List", "Map", "Model", "Module", "None", "Number", "Object", "Optional", "Promise", "Record"),
        *("Request", "Response", "Self", "Set", "String", "Symbol", "Tuple", "Type", "Union", "Unset"),
    }
)
"""Names that Python, TypeScript, Go or their generated clients have already."""


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
    operations = {_pascal(operation.id): operation for operation in document.operations()}
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


def _pascal(operation_id: str) -> str:
    return "".join(word.capitalize() for word in operation_id.split("_"))
