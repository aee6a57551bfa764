"""The words of our extensions of OpenAPI, and rules that hold a contract to them: keys, values and error codes."""

import re
from collections.abc import Iterator
from typing import Any

from jsonschema_rs import Draft202012Validator

from rules.audit.actions import ACTIONS
from schemas.contract import METHODS
from tools.contract.document import Document, Place, Problem, inside_example

SNAKE_CASE = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
_TEXT = {"type": "string", "minLength": 1}
_NUMBER = {"type": "integer"}
_OPERATION: dict[str, Any] = {
    "required": ["operationId", "summary", "description", "security", "x-effect"],
    "properties": {
        "operationId": {"type": "string", "pattern": SNAKE_CASE.pattern},
        "summary": _TEXT,
        "description": _TEXT,
        "x-effect": {"enum": ["read", "write"]},
        "x-least-role": {"enum": ["viewer", "member", "admin", "owner"]},
        "x-entitlement": {"enum": ["pr_exceptions", "audit_export"]},
        "x-organization": {"enum": ["required", "optional"]},
        "x-database-role": {"enum": ["organization", "identity"]},
        "x-installation": {"enum": ["required", "none"]},
        "x-unknown-query": {"enum": ["refused", "ignored"]},
        "x-body-limit": {"type": "integer", "minimum": 1},
        "x-mcp-tool": {"type": "string", "pattern": "^svc_[a-z][a-z0-9_]*$"},
        "x-mcp-confirm": {"type": "boolean"},
        "x-rate-limit": {"required": ["perMinute"], "properties": {"perMinute": _NUMBER}},
        "x-audit": {"type": "array", "items": {"enum": sorted(ACTIONS)}},
        "x-errors": {"type": "array"},
    },
}
"""An operation. The effect, read or write, decides idempotency, budgets, support sessions and audit."""
_EXAMPLE = {"required": ["message"], "properties": {"message": _TEXT}}
_ERROR_CODE = {
    "required": ["status", "type", "meaning"],
    "properties": {
        **dict.fromkeys(("status", "alsoStatus"), _NUMBER),
        "emitted": {"type": "boolean"},
        **dict.fromkeys(("type", "meaning"), _TEXT),
        **dict.fromkeys(("example", "alsoExample", "compatExample"), _EXAMPLE),
    },
    "additionalProperties": False,
    "if": {"properties": {"emitted": {"const": False}}, "required": ["emitted"]},
    "else": {"required": ["example"], "dependentRequired": {"alsoStatus": ["alsoExample"]}},
}
"""A row of the catalogue; a reserved code, which is not emitted, needs no example."""
_CATALOGUE: dict[str, Any] = {"propertyNames": {"pattern": SNAKE_CASE.pattern}, "additionalProperties": _ERROR_CODE}
_ROOT_KEYS = frozenset({"x-compatibility", "x-error-catalogue", "x-cross-cutting-errors"})
_SCHEME_KEYS = frozenset({"x-scopes"})
_SCHEMA_KEYS = frozenset({"x-error-code", "x-extensible-enum", "x-forms", "x-scope", "x-truncate"})
_PARAMETER_KEYS = frozenset({"x-not-found", "x-rest-of-path"})


def pascal_case(name: str) -> str:
    """Return `lift_freeze` as `LiftFreeze`."""
    return "".join(word.capitalize() for word in name.split("_"))


def extension_keys(document: Document) -> Iterator[Problem]:
    """Require that an `x-` key is known, and stands where it is read."""
    for place, _ in document.nodes():
        key = place[-1] if place else ""
        if not str(key).startswith("x-") or key in _known_keys(place) or inside_example(place):
            continue
        yield document.problem(place, f"the key {key} is unknown here")


def _known_keys(place: Place) -> frozenset[str]:
    if len(place) == 1:
        return _ROOT_KEYS
    if len(place) == 4 and place[0] == "paths" and place[2] in METHODS:
        return frozenset(_OPERATION["properties"])
    if place[:2] == ("components", "securitySchemes"):
        return _SCHEME_KEYS
    if len(place) == 4 and place[:2] == ("components", "parameters"):
        return _PARAMETER_KEYS
    return _SCHEMA_KEYS if "schema" in place or "schemas" in place else frozenset()


def keys_and_values(document: Document) -> Iterator[Problem]:
    """Require what operations and the catalogue of codes need, and values that are known."""
    for operation in document.operations():
        yield from _violations(document, operation.place, _OPERATION)
    if document.catalogue:
        yield from _violations(document, ("x-error-catalogue",), _CATALOGUE)


def _violations(document: Document, place: Place, schema: dict[str, Any]) -> Iterator[Problem]:
    for error in Draft202012Validator(schema).iter_errors(document.at(place)):
        name = ".".join(str(key) for key in error.instance_path)
        yield document.problem((*place, *error.instance_path), f"{name}: {error.message}" if name else error.message)


def known_codes(document: Document) -> Iterator[Problem]:
    """Require that the codes of properties, of parameters and of operations are in the catalogue and not reserved."""
    for place, value in document.nodes():
        if place[-1:] in {("x-error-code",), ("x-not-found",), ("x-errors",), ("x-cross-cutting-errors",)}:
            for code in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
                if code not in document.catalogue:
                    yield document.problem(place, f"{code} is not in the catalogue")
                elif document.catalogue[code].get("emitted") is False:
                    yield document.problem(place, f"{code} is reserved and never returned")
