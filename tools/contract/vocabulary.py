"""The words that our extensions of OpenAPI may use."""

import re

SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

FORM = "application/x-www-form-urlencoded"
ROOT_KEYS = frozenset({"x-compatibility", "x-error-catalogue", "x-cross-cutting-errors"})
SCHEME_KEYS = frozenset({"x-scopes"})
SCHEMA_KEYS = frozenset({"x-error-code", "x-extensible-enum", "x-forms", "x-scope", "x-truncate"})
PARAMETER_KEYS = frozenset({"x-not-found", "x-rest-of-path"})
OPERATION_VALUES: dict[str, tuple[str, ...]] = {
    "x-effect": ("read", "write"),
    "x-least-role": ("viewer", "member", "admin", "owner"),
    "x-entitlement": ("pr_exceptions", "audit_export"),
    "x-organization": ("required", "optional"),
    "x-database-role": ("organization", "identity"),
    "x-installation": ("required", "none"),
    "x-unknown-query": ("refused", "ignored"),
}
OPERATION_KEYS = frozenset(
    {*OPERATION_VALUES, "x-audit", "x-errors", "x-mcp-tool", "x-mcp-confirm", "x-body-limit", "x-rate-limit"}
)
EXAMPLE_KEYS = frozenset({"example", "alsoExample", "compatExample"})
CATALOGUE_KEYS = EXAMPLE_KEYS | {"status", "type", "meaning", "alsoStatus", "emitted"}
