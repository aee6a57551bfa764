"""Answers grow, requests do not: which schemas are in which, and what `make contract` writes into those of answers.

Fields and values are added to answers without notice, so their objects say `additionalProperties: true` (generators
take an absent keyword for a closed object) and their values are listed in `x-extensible-enum` (a client generated from
`enum` refuses an answer with a new value). Requests are closed, and use `enum`. An object of both is two schemas:
`Scope` in answers and `ScopeInput` in requests.

`complete` adds `additionalProperties: true` to the objects of answers, and the values of `x-extensible-enum` to the
description, unless it names each of them in backquotes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.contract.document import Document, Place

FORM = "application/x-www-form-urlencoded"
_CHILD = ("items", "additionalProperties", "not")
_CHILDREN = ("allOf", "anyOf", "oneOf")
_VALUES = re.compile(r"\s*(Only|One of)\s+`[^`]+`((,|\s+or)\s+`[^`]+`)*\.\s*$")
"""The sentence that lists the values, at the end of a description."""


def answer_schemas(document: Document) -> dict[Place, Mapping[str, Any]]:
    """Return place → schema of every schema in an answer, references followed."""
    places = [
        (*place, "schema")
        for operation in document.operations()
        for status in operation.responses
        for part in ("content", "headers")
        for place in _members(document, (*operation.place, "responses", status), part)
    ]
    return _reached(document, [place for place in places if "schema" in document.at(place[:-1])])


def request_schemas(document: Document, *, forms: bool = True) -> dict[Place, Mapping[str, Any]]:
    """Return place → schema of every schema that a client sends, references followed.

    Payloads of webhooks are left out, and on demand bodies that may be forms.
    """
    places: list[Place] = []
    for operation in document.operations():
        places += [(*document.target(place), "schema") for place, _ in operation.parameters]
        if operation.body is not None and not operation.is_webhook and (forms or FORM not in operation.body["content"]):
            bodies = _members(document, (*operation.place, "requestBody"), "content")
            places += [(*place, "schema") for place in bodies]
    return _reached(document, [place for place in places if "schema" in document.at(place[:-1])])


def _members(document: Document, place: Place, key: str) -> list[Place]:
    """Return the places of the members of `key` at a place, references followed."""
    owner = document.target(place)
    return [document.target((*owner, key, name)) for name in document.at(owner).get(key, ())]


def _reached(document: Document, todo: list[Place]) -> dict[Place, Mapping[str, Any]]:
    """Return place → schema of the schemas at places and of those inside them."""
    found: dict[Place, Mapping[str, Any]] = {}
    while todo:
        place = document.target(todo.pop())
        if place not in found:
            found[place] = schema = document.at(place)
            todo += [(*place, "properties", name) for name in schema.get("properties", {})]
            todo += [(*place, key) for key in _CHILD if isinstance(schema.get(key), dict)]
            todo += [(*place, key, index) for key in _CHILDREN for index in range(len(schema.get(key, ())))]
    return found


def complete(document: Document) -> Iterator[tuple[Place, str]]:
    """Open the answers of a contract and describe the values of their properties; yield what says that already."""
    for place, schema in answer_schemas(document).items():
        assert isinstance(schema, dict)
        if schema.get("type") == "object":
            if schema.get("additionalProperties") is True:
                yield (*place, "additionalProperties"), "that an answer is open"
            elif "additionalProperties" not in schema:
                below = {"properties": schema.pop("properties")} if "properties" in schema else {}
                schema.update({"additionalProperties": True, **below})
        if "x-extensible-enum" in schema and "description" in schema:
            if _VALUES.search(schema["description"]):
                yield (*place, "description"), "the sentence with the values"
            schema["description"] = _with_values(schema["description"], schema["x-extensible-enum"])


def _with_values(description: str, values: list[str]) -> str:
    """Return a description that names each of the values: in its own words, or in a sentence at its end."""
    if all(f"`{value}`" in description for value in values):
        return description
    *others, last = (f"`{value}`" for value in values)
    sentence = f"One of {', '.join(others)} or {last}." if others else f"Only {last}."
    return f"{description}{sentence}\n" if description.endswith("\n") else f"{description} {sentence}"
