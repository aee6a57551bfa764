"""Marshmallow schemas made from the contract's components, and their fast dumping.

A property `startedAt` is the attribute (or key) `started_at` of what a handler returns. Marshmallow's own dump asks
every field for its attribute through several calls; here the fields of a schema are turned once into a flat plan,
which is about ten times faster (`python -m tools.bench.edge` prints the ratio). A schema written by hand, where a
value is computed, is registered under its component's name; its `Method` and `Function` fields work as usual.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from operator import attrgetter, itemgetter
from typing import Any

import marshmallow
from marshmallow import fields

from rules.time.instants import format_instant
from schemas import walk
from schemas.contract import Node, resolve
from schemas.names import snake_case

Dump = Callable[[Any], Any]
_ABSENT = object()


class InstantField(fields.Field[datetime]):
    """An instant as RFC 3339 in UTC; text is taken to be one already."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:  # noqa: ARG002 - marshmallow's signature
        return _instant(value)


class DateField(fields.Field[date]):
    """A calendar date as `YYYY-MM-DD`."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:  # noqa: ARG002 - marshmallow's signature
        return _date(value)


class Builder:
    """Makes the schemas of one document; `by_hand` holds those that are written in Python, by component."""

    def __init__(
        self, document: Mapping[str, Any], by_hand: Mapping[str, type[marshmallow.Schema]] | None = None
    ) -> None:
        self._document = document
        self._by_hand = by_hand or {}
        self._classes: dict[int, type[marshmallow.Schema]] = {}
        self._dumps: dict[type[marshmallow.Schema], Dump] = {}

    def dumper(self, node: Node) -> Dump:
        """Return the function that turns a handler's object into JSON-ready values of this schema."""
        return self._convert(self._field(node, "reply")) or _same

    def _field(self, node: Node, name: str) -> fields.Field[Any]:
        """Return the marshmallow field of one schema."""
        component = node.get("$ref", "").rpartition("/")[2]
        node = resolve(self._document, node)
        if component in self._by_hand:
            return fields.Nested(self._by_hand[component])
        only = node.get("allOf", ())
        if len(only) == 1 and "properties" not in node:
            return self._field(only[0], name)
        if node.get("type") == "array":
            return fields.List(self._field(node.get("items", {}), name))
        if node.get("format") in _FORMATTED:
            return _FORMATTED[node["format"]]()
        if "oneOf" in node or "anyOf" in node or not walk.properties(self._document, node, None):
            return fields.Raw()
        return fields.Nested(self._class(node, component or name))

    def _class(self, node: Node, name: str) -> type[marshmallow.Schema]:
        """Return the schema class of an object; recursive components find themselves."""
        known = self._classes.get(id(node))
        if known is not None:
            return known
        made: dict[str, Any] = {}
        schema: type[marshmallow.Schema] = type(name[:1].upper() + name[1:] + "Schema", (marshmallow.Schema,), {})
        self._classes[id(node)] = schema
        needed = walk.required(self._document, node, None)
        for key, child in walk.properties(self._document, node, None).items():
            field = self._field(child, key)
            field.required = key in needed
            field.attribute = field.attribute or snake_case(key)
            made[key] = field
        schema._declared_fields = made  # noqa: SLF001 - as Schema.from_dict would, but after the class is known
        return schema

    def _convert(self, field: fields.Field[Any]) -> Dump | None:
        """Return the conversion of one field's value, or None when it stays as it is."""
        if isinstance(field, fields.Nested):
            return self._object(type(field.schema))
        if isinstance(field, fields.List):
            inner = self._convert(field.inner)
            return (lambda values: [inner(value) for value in values]) if inner else list
        if isinstance(field, InstantField):
            return _instant
        if isinstance(field, DateField):
            return _date
        return None if type(field) is fields.Raw else lambda value: field._serialize(value, None, None)  # noqa: SLF001 - the field's own conversion

    def _object(self, schema: type[marshmallow.Schema]) -> Dump:
        known = self._dumps.get(schema)
        if known is None:
            plan = _Plan()
            known = self._dumps[schema] = plan.dump
            for key, field in schema().dump_fields.items():
                name = field.data_key or key
                if isinstance(field, fields.Method | fields.Function):
                    plan.computed.append((name, _computed(field, key)))
                else:
                    plan.add(name, field.attribute or snake_case(key), self._convert(field), required=field.required)
            plan.finish()
        return known


class _Plan:
    """How the objects of one schema are dumped.

    All attributes are fetched by one call into C, and only those with a conversion are touched again; an object that
    lacks one of them takes the slower way.
    """

    __slots__ = ("_attributes", "_conversions", "_items", "_keys", "_names", "_required", "computed")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._keys: list[str] = []
        self._required: list[bool] = []
        self._conversions: list[tuple[str, Dump]] = []
        self.computed: list[tuple[str, Dump]] = []

    def add(self, name: str, attribute: str, convert: Dump | None, *, required: bool) -> None:
        """Add a property: its name on the wire, and the attribute that holds it."""
        self._names.append(name)
        self._keys.append(attribute)
        self._required.append(required)
        if convert is not None:
            self._conversions.append((name, convert))

    def finish(self) -> None:
        """Prepare the fetching of all attributes at once; a second, ignored one makes the answer always a tuple."""
        keys = [*self._keys, *self._keys[:1]] if len(self._keys) == 1 else self._keys
        self._items: Callable[[Any], Any] = itemgetter(*keys) if keys else _none
        self._attributes: Callable[[Any], Any] = attrgetter(*keys) if keys else _none

    def dump(self, value: Any) -> Any:
        """Return the object's properties as JSON-ready values."""
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
        for name, compute in self.computed:
            out[name] = compute(value)
        return out

    def _slowly(self, value: Any) -> dict[str, Any]:
        """Return the properties that there are; a mapping may also have them under their names on the wire."""
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


def _computed(field: fields.Field[Any], key: str) -> Dump:
    return lambda value: field.serialize(key, value)


def _same(value: Any) -> Any:
    return value


def _instant(value: Any) -> Any:
    return format_instant(value) if isinstance(value, datetime) else value


def _date(value: Any) -> Any:
    return value if isinstance(value, str) else value.isoformat()


_FORMATTED: Mapping[str, type[fields.Field[Any]]] = {"date-time": InstantField, "date": DateField}
