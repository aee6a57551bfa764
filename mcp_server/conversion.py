"""Converts schemas of OpenAPI 3.0 to JSON Schema 2020-12, as short as an agent that calls a tool can use them.

The operation validates the arguments. So a schema for agents has names, types, values, limits that a person would name,
and the first paragraph of each description; what makes it longer and helps nobody is left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.contract import Contract, Node
from schemas.dialect import branches_by_tag

_LEFT_OUT = frozenset(
    {"nullable", "example", "examples", "discriminator", "readOnly", "writeOnly", "deprecated"}  # not JSON Schema
    | {"maxLength", "maxItems", "uniqueItems"}  # nobody exceeds them by accident, and the operation says so
)
_FORMATS = frozenset({"date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"})
"""Those of the contract's formats that JSON Schema has as well."""
_CHARACTERS = ("^[!-~]", "^[^")
"""How patterns begin that say only which characters a text may have."""
_DEFINITIONS = "#/$defs/"


class Conversion:
    """Converts the schemas of one tool, whose references point into its `$defs`."""

    def __init__(self, contract: Contract) -> None:
        self._document = contract.document
        self._schemas: Mapping[str, Node] = contract.document.get("components", {}).get("schemas", {})
        self._wanted: list[str] = []

    def complete(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema of converted parts with the definitions that it needs; one that is used once stands there."""
        found: dict[str, Any] = {}
        while missing := [name for name in self._wanted if name not in found]:
            for name in missing:
                found[name] = self.convert(self._schemas[name])
        made = {**schema, "$defs": dict(sorted(found.items()))}
        while once := [name for name, uses in Counter(_references(made)).items() if uses == 1]:
            made = _put(made, once[0], made["$defs"].pop(once[0]))
        if not made["$defs"]:
            del made["$defs"]
        return made

    def convert(self, node: Any) -> Any:
        """Return a schema, or a part of one."""
        if isinstance(node, list):
            return [self.convert(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name not in self._wanted:
                self._wanted.append(name)
            return {"$ref": _DEFINITIONS + name}
        if "discriminator" in node:
            node = self._one_object(node)
        if "items" in node and "description" in node:  # which says what the items are
            items = {key: value for key, value in self._resolve(node["items"]).items() if key != "description"}
            node = {**node, "items": items}
        made = {key: self._convert_value(key, value) for key, value in node.items() if _is_kept(key, value)}
        for bound in ("Minimum", "Maximum"):
            if (exclusive := made.pop(f"exclusive{bound}", None)) is True:
                made[f"exclusive{bound}"] = made.pop(bound.lower())
            elif exclusive not in {None, False}:
                made[f"exclusive{bound}"] = exclusive
        return _nullable(made) if node.get("nullable") else made

    def _convert_value(self, key: str, value: Any) -> Any:
        if key == "properties":  # its keys are names of properties, not keywords of a schema
            return {name: self.convert(schema) for name, schema in value.items()}
        if key == "description":
            return first_paragraph(value)
        return value if key in {"enum", "default", "required"} else self.convert(value)

    def _one_object(self, node: Node) -> Node:
        """Return the object that a choice of objects is to agents: each property says with which values of the tag."""
        tag: str = node["discriminator"]["propertyName"]
        branches = {value: self._resolve(branch) for value, branch in branches_by_tag(self._document, node).items()}
        properties: dict[str, Any] = {tag: None}
        for branch in branches.values():
            for name, schema in branch["properties"].items():
                properties.setdefault(name, self._resolve(schema))
        for name, schema in properties.items():
            having = [value for value, branch in branches.items() if name in branch["properties"]]
            if name != tag and len(having) < len(branches):
                others = [value for value in branches if value not in having]
                where = f"With {_named(having)}" if len(having) <= len(others) else f"Not with {_named(others)}"
                properties[name] = {**schema, "description": f"{where}: {schema['description']}"}
        properties[tag] = {
            "type": "string",
            "enum": list(branches),
            "description": " ".join(
                f"`{value}`: {branch['description'].strip()}" for value, branch in branches.items()
            ),
        }
        required = [name for name in properties if all(name in branch["required"] for branch in branches.values())]
        shape = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return {**{key: value for key, value in node.items() if key not in {"oneOf", "discriminator"}}, **shape}

    def _resolve(self, node: Node) -> Node:
        return self._schemas[node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def first_paragraph(description: str) -> str:
    """Return the part of a description that agents read; details that they can do without follow it."""
    return " ".join(description.strip().split("\n\n")[0].split())


def _is_kept(key: str, value: Any) -> bool:
    """True if a keyword belongs into a schema for agents."""
    if key == "format":
        return value in _FORMATS
    if key == "pattern":
        return not value.startswith(_CHARACTERS)
    if key == "minLength":
        return bool(value > 1)
    return key not in _LEFT_OUT and not key.startswith("x-")


def _named(values: Sequence[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that also takes null, without the keyword `nullable`."""
    if not isinstance(schema.get("type"), str):
        return {"anyOf": [schema, {"type": "null"}]}
    made = {**schema, "type": [schema["type"], "null"]}
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def _references(node: Any) -> Iterator[str]:
    """Yield the name of a definition for each use of it."""
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].removeprefix(_DEFINITIONS)
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _put(node: Any, name: str, definition: Any) -> Any:
    """Return a schema with the definition in place of its reference."""
    if isinstance(node, Mapping):
        if node.get("$ref") == _DEFINITIONS + name:
            return definition
        return {key: _put(value, name, definition) for key, value in node.items()}
    return [_put(item, name, definition) for item in node] if isinstance(node, list) else node
