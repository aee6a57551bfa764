"""Answers grow, requests do not: which schemas are in which, and what `make contract` writes into those of answers.

Fields and values are added to answers without notice, so their objects say `additionalProperties: true` (generators
take an absent keyword for a closed object) and their values are listed in `x-extensible-enum` (a client generated from
`enum` refuses an answer with a new value). Requests are closed, and use `enum`. An object of both is two schemas:
`Scope` in answers and `ScopeInput` in requests.

`completed` writes `additionalProperties: true` into the objects of answers, and the values of `x-extensible-enum` into
the description, unless it names each of them in backquotes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tools.contract.blocks import children
from tools.contract.document import Document, Place

_CHILD = ("items", "additionalProperties", "not")
_CHILDREN = ("allOf", "anyOf", "oneOf")
_VALUES = re.compile(r"\s*(Only|One of)\s+`[^`]+`((,|\s+or)\s+`[^`]+`)*\.\s*$")
"""The sentence that lists the values, at the end of a description."""
_WIDTH = 120


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


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """Text to write in place of that between two positions (line, column)."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def completed(document: Document) -> bytes:
    """Return the contract's text with its answers opened, and the values of their properties described."""
    edits = sorted(
        edit
        for place, schema in answer_schemas(document).items()
        for edit in (*_opened(document, place, schema), *_described(document, place, schema))
    )
    lines = document.source.decode().split("\n")
    for edit in reversed(edits):
        (first, start), (last, end) = edit.start, edit.end
        lines[first : last + 1] = (lines[first][:start] + edit.text + lines[last][end:]).split("\n")
    return "\n".join(lines).encode()


def _opened(document: Document, place: Place, schema: Mapping[str, Any]) -> Iterator[_Edit]:
    if schema.get("type") != "object" or "additionalProperties" in schema:
        return
    node = _node(document, place)
    if node.flow_style:
        _, kind = children(node)["type"]
        at = (kind.end_mark.line, kind.end_mark.column)
        yield _Edit(at, at, ", additionalProperties: true")
    else:
        pairs = children(node)
        key, _ = pairs.get("properties") or next(reversed(pairs.values()))
        at = (key.start_mark.line, key.start_mark.column)
        yield _Edit(at, at, "additionalProperties: true\n" + " " * key.start_mark.column)


def _described(document: Document, place: Place, schema: Mapping[str, Any]) -> Iterator[_Edit]:
    if "x-extensible-enum" not in schema or "description" not in schema:
        return
    written, text = schema["description"], with_values(schema["description"], schema["x-extensible-enum"])
    if text.split() == written.split():
        return
    node = _node(document, place)
    key, value = children(node)["description"]
    assert isinstance(value, yaml.ScalarNode)
    if value.style == "|":
        first, indent = value.start_mark.line + 1, " " * (key.start_mark.column + 2)
        last = first + written.count("\n") - 1
        end = (last, len(document.source.decode().split("\n")[last]))
        yield _Edit((first, 0), end, "\n".join(indent + line if line else "" for line in _wrapped(text, len(indent))))
    else:
        start, stop = value.start_mark, value.end_mark
        yield _Edit((start.line, start.column), (stop.line, stop.column), _scalar(text, plain=value.style is None))


def with_values(description: str, values: list[str]) -> str:
    """Return a description that names each of the values: in its own words, or in a sentence at its end."""
    own = _VALUES.sub("", description).rstrip()
    if all(f"`{value}`" in own for value in values):
        return own
    *others, last = (f"`{value}`" for value in values)
    sentence = f"One of {', '.join(others)} or {last}." if others else f"Only {last}."
    return f"{own}\n{sentence}" if "\n" in description else f"{own} {sentence}"


def _wrapped(text: str, indent: int) -> Iterator[str]:
    """Yield the lines of a block, the long ones wrapped."""
    for line in text.split("\n"):
        rest = line
        while len(rest) + indent > _WIDTH and " " in rest[: _WIDTH - indent]:
            cut = rest.rindex(" ", 0, _WIDTH - indent + 1)
            yield rest[:cut]
            rest = rest[cut + 1 :]
        yield rest


def _scalar(text: str, *, plain: bool) -> str:
    """Return text as a YAML scalar on one line: plain if it was and can be, else in double quotes."""
    if plain and not re.search(r"[,\[\]{}\"']|: | #", text) and re.match(r"[A-Za-z]", text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _node(document: Document, place: Place) -> yaml.MappingNode:
    node: yaml.Node = document.node
    for key in place:
        node = node.value[key] if isinstance(key, int) else children(node)[key][1]
    assert isinstance(node, yaml.MappingNode)
    return node
