"""Turns what handlers return into JSON-ready values, by the schemas of the contract.

A property `startedAt` is the attribute (or key) `started_at` of what a handler returns. Each schema is turned once into
a flat plan, so that serializing an object is a few calls.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any

from rules.contract_names import snake_case
from rules.time.instants import format_instant
from schemas import walk
from schemas.contract import Node, resolve

Serialize = Callable[[Any], Any]
_ABSENT = object()


class Serializers:
    """The serializers of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._plans: dict[int, _Plan] = {}

    def of(self, node: Node) -> Serialize:
        """Return the function that turns a handler's result into JSON-ready values of this schema."""
        return self._conversion(node) or _same

    def _conversion(self, node: Node) -> Serialize | None:
        """Return the conversion of a schema's values, or None if they stay as they are."""
        node = resolve(self._document, node)
        parts = node.get("allOf", ())
        if len(parts) == 1 and "properties" not in node:
            return self._conversion(parts[0])
        if node.get("type") == "array":
            convert = self._conversion(node.get("items", {}))
            return (lambda values: [convert(value) for value in values]) if convert else list
        if node.get("format") in _FORMATTED:
            return _FORMATTED[node["format"]]
        if "oneOf" in node or "anyOf" in node:
            return None
        properties = walk.properties(self._document, node, None)
        return self._plan(node, properties).serialize if properties else None

    def _plan(self, node: Node, properties: Mapping[str, Node]) -> "_Plan":
        """Return the plan of an object's schema; a recursive schema finds its own."""
        plan = self._plans.get(id(node))
        if plan is None:
            plan = self._plans[id(node)] = _Plan()
            required = walk.required(self._document, node, None)
            for name, child in properties.items():
                plan.add(name, snake_case(name), self._conversion(child), required=name in required)
            plan.finish()
        return plan


class _Plan:
    """How the objects of one schema are serialized.

    All attributes are read by one call into C, and only those with a conversion are handled again; an object that lacks
    an attribute takes the slower path.
    """

    __slots__ = ("_attributes", "_conversions", "_items", "_keys", "_names", "_required")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._keys: list[str] = []
        self._required: list[bool] = []
        self._conversions: list[tuple[str, Serialize]] = []

    def add(self, name: str, attribute: str, convert: Serialize | None, *, required: bool) -> None:
        """Add a property: its name in JSON, and the attribute that holds its value."""
        self._names.append(name)
        self._keys.append(attribute)
        self._required.append(required)
        if convert is not None:
            self._conversions.append((name, convert))

    def finish(self) -> None:
        """Prepare reading all attributes at once; a single one is read twice, so that the result is a tuple."""
        keys = [*self._keys, *self._keys[:1]] if len(self._keys) == 1 else self._keys
        self._items: Callable[[Any], Any] = itemgetter(*keys) if keys else _none
        self._attributes: Callable[[Any], Any] = attrgetter(*keys) if keys else _none

    def serialize(self, value: Any) -> Any:
        """Return the properties of an object as JSON-ready values."""
        if value is None:
            return None
        try:
            values = self._items(value) if isinstance(value, dict) else self._attributes(value)
            out = dict(zip(self._names, values, strict=False))
        except (KeyError, AttributeError):
            out = self._slowly(value)
        for name, convert in self._conversions:
            found = out.get(name)
            if found is not None:
                out[name] = convert(found)
        return out

    def _slowly(self, value: Any) -> dict[str, Any]:
        """Return the properties that are present; a mapping may also have them under their names in JSON."""
        out = {}
        mapping = isinstance(value, Mapping)
        for name, key, required in zip(self._names, self._keys, self._required, strict=True):
            found = value.get(key, _ABSENT) if mapping else getattr(value, key, _ABSENT)
            if found is _ABSENT and mapping:
                found = value.get(name, _ABSENT)
            if found is not _ABSENT:
                out[name] = found
            elif required:
                raise AttributeError(f"{type(value).__name__} has no {key} for {name}")
        return out


def _none(_: Any) -> tuple[()]:
    return ()


def _same(value: Any) -> Any:
    return value


def _instant(value: Any) -> Any:
    return format_instant(value) if isinstance(value, datetime) else value


def _date(value: Any) -> Any:
    return value if isinstance(value, str) else value.isoformat()


_FORMATTED: Mapping[str, Serialize] = {"date-time": _instant, "date": _date}
