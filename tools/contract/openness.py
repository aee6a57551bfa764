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

_CHILD = ("items", "additionalProperties", "not")
_CHILDREN = ("allOf", "anyOf", "oneOf")
_VALUES = re.compile(r"\s*(Only|One of)\s+`[^`]+`((,|\s+or)\s+`[^`]+`)*\.\s*$")
"""The sentence that lists the values, at the end of a description."""


def answer_schemas(document: Document) -> dict[Place, Mapping[str, Any]]:
    """Return place → schema of every schema in an answer, references followed."""
    found: dict[Place, Mapping[str, Any]] = {}
    for operation in document.operations():
        for status, response in operation.responses.items():
            place = _target(document, (*operation.place, "responses", status))
            for part in ("content", "headers"):
                for name in response.get(part, {}):
                    owner = _target(document, (*place, part, name))
                    found.update(_below(document, (*owner, "schema"), found))
    return found


def request_schemas(document: Document) -> dict[Place, Mapping[str, Any]]:
    """Return place → schema of every schema that a client sends, references followed; payloads of webhooks excepted."""
    found: dict[Place, Mapping[str, Any]] = {}
    for operation in document.operations():
        places = [(*_target(document, place), "schema") for place, _ in operation.parameters]
        if operation.body is not None and not operation.is_webhook:
            body = _target(document, (*operation.place, "requestBody"))
            places += [(*body, "content", media_type, "schema") for media_type in operation.body.get("content", {})]
        for place in places:
            found.update(_below(document, place, found))
    return found


def _target(document: Document, place: Place) -> Place:
    """Return the place that a reference at `place` leads to, or `place`."""
    while "$ref" in document.at(place):
        place = tuple(document.at(place)["$ref"].removeprefix("#/").split("/"))
    return place


def _below(document: Document, place: Place, known: Mapping[Place, Any]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """Yield the schema at a place and those inside it, each once; those that are known are left out."""
    seen = set(known)
    todo = [place]
    while todo:
        owner = todo.pop()
        if "schema" in owner[-1:] and "schema" not in document.at(owner[:-1]):
            continue
        here = _target(document, owner)
        if here in seen:
            continue
        seen.add(here)
        schema = document.at(here)
        yield here, schema
        todo += [(*here, "properties", name) for name in schema.get("properties", {})]
        todo += [(*here, key) for key in _CHILD if isinstance(schema.get(key), dict)]
        todo += [(*here, key, index) for key in _CHILDREN for index in range(len(schema.get(key, ())))]


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
