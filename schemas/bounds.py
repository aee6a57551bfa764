"""Bounds of a body, and a cut of what exceeds them, so that finding its errors is little work.

A validator collects every error of a value: half a million wrong items would take it seconds. A value that exceeds what
the contract allows is cut first: to one item more than the array may have, to a hundred unknown properties, and to an
empty container where the contract has none. The cut value has errors at the same places, only fewer of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import is_
from typing import Any

from schemas import walk
from schemas.contract import Node

MAX_UNKNOWN_PROPERTIES = 100
MAX_ITEMS = 1000
"""For an array or map of which the contract does not say it."""
MAX_NAME_LENGTH = 200


@dataclass(slots=True)
class Bounds:
    """What a value can hold: its properties, the number of its items, and the bounds of each."""

    properties: "dict[str, Bounds]" = field(default_factory=dict)
    items: "Bounds | None" = None
    max_items: int = 0
    values: "Bounds | None" = None
    """Of the properties of a map, which have any name."""
    max_properties: int = 0
    """Of a map."""
    is_object: bool = False
    is_open: bool = False
    """True if it may have properties of any other name."""

    def cut(self, value: Any) -> Any:
        """Return the value itself if it is within the bounds; otherwise a cut copy, which is not valid either."""
        if isinstance(value, dict):
            if self.values is not None:
                return self._cut_map(value, self.values)
            return self._cut_object(value) if self.is_object else _without_content(value)
        if isinstance(value, list):
            return self._cut_array(value) if self.items is not None else _without_content(value)
        return value

    def _cut_object(self, value: dict[str, Any]) -> dict[str, Any]:
        known = {name: value[name] for name in self.properties if name in value}
        kept = {name: self.properties[name].cut(item) for name, item in known.items()}
        is_same = all(kept[name] is item for name, item in known.items())
        if len(known) == len(value) or self.is_open:
            return value if is_same else {**value, **kept}
        unknown = islice((name for name in value if name not in self.properties), MAX_UNKNOWN_PROPERTIES)
        return kept | {name[:MAX_NAME_LENGTH]: None for name in unknown}

    def _cut_map(self, value: dict[str, Any], values: "Bounds") -> dict[str, Any]:
        kept = {name: values.cut(item) for name, item in islice(value.items(), self.max_properties + 1)}
        is_same = len(kept) == len(value) and all(kept[name] is item for name, item in value.items())
        return value if is_same else kept

    def _cut_array(self, value: list[Any]) -> list[Any]:
        items = self.items or Bounds()
        kept = [items.cut(item) for item in value[: self.max_items + 1]]
        is_same = len(kept) == len(value) and all(map(is_, kept, value))
        return value if is_same else kept


def bounds_of(document: Mapping[str, Any], node: Node) -> Bounds:
    """Return the bounds of a schema."""
    return _bounds(document, [node], {})


def _bounds(document: Mapping[str, Any], nodes: Iterable[Node], known: dict[tuple[int, ...], Bounds]) -> Bounds:
    """Return the bounds of a value that one of the schemas describes; a recursive schema finds its own."""
    parts = [part for node in nodes for part in walk.parts(document, node, None)]
    key = tuple(map(id, parts))
    if key in known:
        return known[key]
    found = known[key] = Bounds()
    children: dict[str, list[Node]] = {}
    for part in parts:
        for name, child in part.get("properties", {}).items():
            children.setdefault(name, []).append(child)
    arrays = [part for part in parts if part.get("type") == "array"]
    objects = [part for part in parts if part.get("type") == "object"]
    found.is_object = bool(objects)
    found.is_open = any(part.get("additionalProperties", True) is not False for part in objects)
    found.properties = {name: _bounds(document, each, known) for name, each in children.items()}
    maps = [part for part in objects if isinstance(part.get("additionalProperties"), dict)]
    if maps:
        found.max_properties = max(part.get("maxProperties", MAX_ITEMS) for part in maps)
        found.values = _bounds(document, [part["additionalProperties"] for part in maps], known)
    if arrays:
        found.max_items = max(part.get("maxItems", MAX_ITEMS) for part in arrays)
        found.items = _bounds(document, [part.get("items", {}) for part in arrays], known)
    return found


def _without_content(value: Any) -> Any:
    return type(value)() if value else value
