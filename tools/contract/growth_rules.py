"""Rules that let answers grow, keep requests closed, and keep names of schemas apart from names that are generated."""

import re
from collections.abc import Callable, Iterator

from tools.contract.document import Document, Problem
from tools.contract.openness import answer_schemas, request_schemas

_ALTERNATIVES = re.compile(r"\^\(\w+(\|\w+)+\)\$")
_BUILT_IN = frozenset(
    {
        "Any",
        "Array",
        "Blob",
        "Boolean",
        "Class",
        "Date",
        "Error",
        "Event",
        "Exception",
        "File",
        "Function",
        "Iterator",
        "List",
        "Map",
        "Model",
        "Module",
        "None",
        "Number",
        "Object",
        "Optional",
        "Promise",
        "Record",
        "Request",
        "Response",
        "Self",
        "Set",
        "String",
        "Symbol",
        "Tuple",
        "Type",
        "Union",
        "Unset",
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
    """Require `enum` in requests, and that a schema `…Input` accepts no value that answers do not list."""
    answers = document.components("schemas")
    for place, schema in request_schemas(document).items():
        if "x-extensible-enum" in schema:
            yield document.problem(place, "is in a request and has x-extensible-enum: requests need enum")
        listed = answers.get(str(place[-1]).removesuffix("Input"), {}).get("x-extensible-enum")
        if listed and "enum" in schema and (extra := set(schema["enum"]) - set(listed)):
            yield document.problem(place, f"accepts {', '.join(sorted(extra))}, which answers do not list")


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


RULES: tuple[Callable[[Document], Iterator[Problem]], ...] = (
    closed_answers,
    listed_values,
    open_requests,
    forms,
    colliding_names,
)
