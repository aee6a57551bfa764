"""Rules on examples: requests, responses and required parameters have one, and each one is valid."""

from collections.abc import Iterator, Mapping
from typing import Any

from tools.contract.document import Document, Operation, Place, Problem


def missing_examples(operation: Operation) -> Iterator[Problem]:
    """Require an example of each body, each success and each required parameter."""
    for media_type, content in (operation.body or {}).get("content", {}).items():
        if not _has_example(content):
            yield operation.problem(f"its {media_type} body has no example", "requestBody")
    for status, response in operation.successes.items():
        for media_type, content in response.get("content", {}).items():
            if not _has_example(content):
                yield operation.problem(f"its {status} {media_type} has no example", "responses", status)
    for place, parameter in operation.parameters:
        if parameter.get("required") and not _has_example(parameter):
            yield operation.document.problem(place, f"parameter {parameter['name']} has no example")


def errors_without_examples(document: Document) -> Iterator[Problem]:
    """Require an example of each shared response."""
    for name, response in document.root.get("components", {}).get("responses", {}).items():
        for content in response.get("content", {}).values():
            if not _has_example(content):
                yield document.problem(("components", "responses", name), "has no example")


def invalid_examples(document: Document) -> Iterator[Problem]:
    """Require that an example is valid under the schema it stands beside."""
    for place, node in document.nodes():
        if not isinstance(node, dict):
            continue
        if isinstance(node.get("schema"), dict):
            for example_place, value in _examples(document, place, node):
                yield from _problems(document, example_place, node["schema"], value)
        if "example" in node and _is_schema(place):
            yield from _problems(document, (*place, "example"), node, node["example"])


def _examples(document: Document, place: Place, node: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    if "example" in node:
        yield (*place, "example"), node["example"]
    for name, example in node.get("examples", {}).items():
        yield (*place, "examples", name), document.resolved(example).get("value")


def _problems(document: Document, place: Place, schema: Mapping[str, Any], value: Any) -> Iterator[Problem]:
    validator = document.validators.compile(schema)
    for error in validator.iter_errors(value):
        where = "/".join(str(key) for key in error.instance_path) or "value"
        yield document.problem(place, f"the example's {where} is not valid: {error.message}")


def _has_example(node: Mapping[str, Any]) -> bool:
    return "example" in node or bool(node.get("examples"))


def _is_schema(place: Place) -> bool:
    """Return True if a place is a schema: one of the components, or somewhere inside one."""
    if place[:2] == ("components", "schemas"):
        return len(place) == 3 or place[-2:-1] == ("properties",) or place[-1] == "items"
    return False
