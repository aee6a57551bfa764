"""Marshmallow schemas made from the contract's components, and their fast dumping.

A property `startedAt` is the attribute (or key) `started_at` of what a handler returns. Marshmallow's own dump asks
every field for its attribute through several calls; here the fields of a schema are turned once into a flat plan,
which is about ten times faster (`python -m tools.bench.edge` prints the ratio). A schema written by hand, where a
value is computed, is registered under its component's name; its `Method` and `Function` fields work as usual.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

import marshmallow
from marshmallow import fields

from schemas import walk
from schemas.contract import Node, resolve
from schemas.instants import format_instant
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
        if known is not None:
            return known
        plan: list[tuple[str, str, bool, Dump | None]] = []
        computed: list[tuple[str, Dump]] = []

        def dump(value: Any) -> Any:
            return _dumped(plan, computed, value)

        self._dumps[schema] = dump
        for key, field in schema().dump_fields.items():
            if isinstance(field, fields.Method | fields.Function):
                computed.append((field.data_key or key, _computed(field, key)))
            else:
                name = field.data_key or key
                plan.append((name, field.attribute or snake_case(key), field.required, self._convert(field)))
        return dump


def _dumped(
    plan: list[tuple[str, str, bool, Dump | None]], computed: list[tuple[str, Dump]], value: Any
) -> dict[str, Any] | None:
    if value is None:
        return None
    mapping = isinstance(value, Mapping)
    out: dict[str, Any] = {}
    for key, attribute, required, convert in plan:
        found = value.get(attribute, _ABSENT) if mapping else getattr(value, attribute, _ABSENT)
        if found is _ABSENT:
            found = value.get(key, _ABSENT) if mapping else _ABSENT
            if found is _ABSENT:
                if required:
                    raise AttributeError(f"{type(value).__name__} has no {attribute} for {key}")
                continue
        out[key] = found if convert is None or found is None else convert(found)
    for key, compute in computed:
        out[key] = compute(value)
    return out


def _computed(field: fields.Field[Any], key: str) -> Dump:
    return lambda value: field.serialize(key, value)


def _same(value: Any) -> Any:
    return value


def _instant(value: Any) -> Any:
    return value if isinstance(value, str) else format_instant(value)


def _date(value: Any) -> Any:
    return value if isinstance(value, str) else value.isoformat()


_FORMATTED: Mapping[str, type[fields.Field[Any]]] = {"date-time": InstantField, "date": DateField}
