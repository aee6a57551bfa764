"""From OpenAPI 3.0's schemas to JSON Schema 2020-12, and its compiled validators.

Two extensions constrain values, and `standard_schema` writes them in OpenAPI's own keywords: `x-extensible-enum` lists
the values that we send, in answers whose readers must accept others; `x-forms` lists sets of properties of a closed
object, of which exactly one is sent (as one object, because generated clients handle a union badly).

Two conversions go beyond renaming. `nullable` becomes a separate branch, so that an error inside a nullable object is
reported as such and not as "matches none of two". `oneOf` with a discriminator becomes one `if`/`then` for each tag, so
that errors come from the branch that the client chose.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs

from schemas.contract import Node, resolve
from schemas.formats import FORMATS

_BASE = "urn:contract"
_OF_EACH_FORM = ("required", "properties", "additionalProperties", "x-forms")
_UNKNOWN_TO_JSON_SCHEMA = ("nullable", "discriminator", "example", "xml", "externalDocs", "deprecated")


class Validators:
    """Compiles the schemas of one document; references, including recursive ones, are resolved inside it."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        components = {
            name: self.convert(node) for name, node in document.get("components", {}).get("schemas", {}).items()
        }
        self._registry = jsonschema_rs.Registry(
            [(_BASE, {"components": {"schemas": components}})], draft=jsonschema_rs.Draft202012
        )

    def compile(self, schema: Node, *, mask: str | None = None) -> jsonschema_rs.Draft202012Validator:
        """Return the validator of a schema as the contract writes it; `mask` replaces values in its own messages."""
        return jsonschema_rs.Draft202012Validator(
            self.convert(schema),
            registry=self._registry,
            validate_formats=True,
            formats=dict(FORMATS),
            offline=True,
            mask=mask,
        )

    def convert(self, node: Node) -> dict[str, Any]:
        """Return the JSON Schema of one OpenAPI 3.0 schema."""
        if "$ref" in node:
            return {"$ref": _BASE + node["$ref"]}
        node = standard_schema(node)
        schema = {key: self._keyword(key, value) for key, value in node.items() if not _is_foreign(key)}
        _number_bounds(schema)
        if "discriminator" in node and "oneOf" in node:
            del schema["oneOf"]
            schema = {**schema, **self._by_tag(node)}
        return _nullable(schema) if node.get("nullable") else schema

    def _keyword(self, key: str, value: Any) -> Any:
        if key in {"properties", "patternProperties"}:
            return {name: self.convert(child) for name, child in value.items()}
        if key in {"items", "not"} or (key == "additionalProperties" and isinstance(value, dict)):
            return self.convert(value)
        if key in {"allOf", "anyOf", "oneOf"}:
            return [self.convert(child) for child in value]
        return value

    def _by_tag(self, node: Node) -> dict[str, Any]:
        tag = node["discriminator"]["propertyName"]
        branches = branches_by_tag(self._document, node)
        choices = [
            {
                "if": {"properties": {tag: {"const": value}}, "required": [tag]},
                "then": self.convert(branch),
            }
            for value, branch in branches.items()
        ]
        return {
            "if": {"type": "object"},
            "then": {"required": [tag], "properties": {tag: {"enum": list(branches)}}, "allOf": choices},
            "else": {"type": "object"},
        }


def branches_by_tag(document: Mapping[str, Any], node: Node) -> dict[str, Node]:
    """Return the branches of a discriminated `oneOf` by the tags that their `enum` names."""
    tag = node["discriminator"]["propertyName"]
    return {
        value: branch
        for branch in node["oneOf"]
        for value in resolve(document, resolve(document, branch)["properties"][tag])["enum"]
    }


def standard_schema(node: Node) -> Node:
    """Return a schema with the extensions that constrain values written in OpenAPI's own keywords."""
    if "x-extensible-enum" in node:
        values = node["x-extensible-enum"]
        node = {**node, "enum": [*values, None] if node.get("nullable") else values}
    if "x-forms" in node:
        node = {key: value for key, value in node.items() if key not in _OF_EACH_FORM} | {
            "oneOf": [_form(node, names) for names in node["x-forms"]]
        }
    return node


def _form(node: Node, names: Sequence[str]) -> Node:
    """Return one form of an object with `x-forms`: the properties of the form, and those that are in none."""
    of_others = {name for form in node["x-forms"] for name in form} - set(names)
    return {
        "type": "object",
        "required": [*node.get("required", ()), *names],
        "properties": {name: child for name, child in node["properties"].items() if name not in of_others},
        "additionalProperties": False,
    }


def standard_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document in which every schema is a standard one, for validators that ignore extensions."""

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: convert(child) for key, child in standard_schema(value).items()}
        return [convert(item) for item in value] if isinstance(value, list) else value

    return {key: convert(value) for key, value in document.items()}


def _is_foreign(key: str) -> bool:
    return key.startswith("x-") or key in _UNKNOWN_TO_JSON_SCHEMA


def _number_bounds(schema: dict[str, Any]) -> None:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("type"), str) and "if" not in schema:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
        return schema
    return {"if": {"type": "null"}, "else": schema}
