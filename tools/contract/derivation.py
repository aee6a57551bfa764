"""What follows from the other facts of an operation. `make contract` writes it, so that authors do not.

`CODES`, `PARAMETERS` and `_HEADERS` have the facts for error codes, parameters and headers of responses. Besides, a
path's `{name}` is the shared path parameter of that name, with the code of its `x-not-found`; `x-entitlement` gives
`feature_not_available`, `x-installation: required` also `invalid_state`, and a property with `x-error-code` that code.

The error responses follow from the codes (see `refusals`): those of `x-errors`, and those of `x-cross-cutting-errors`
that apply to the operation (`APPLICABLE`).

The sources say none of it: what they list although it follows, or although the fact does not hold, is a problem. A few
things may also be written by hand where they do not follow: the codes of `ALSO_WRITTEN`, `feature_not_available`, the
codes of properties and parameters, the parameters `limit` and `cursor`, the header `Location`, and an error response of
the operation's own.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tools.contract.document import Document, Operation, Problem

Condition = Callable[[Operation], bool]

FOLLOWS = "follows from the rest, so leave it out"
_TEMPLATE = re.compile(r"\{([^}]*)\}")


def _requires_organization(operation: Operation) -> bool:
    return operation.credentialled and operation.raw.get("x-organization", "required") == "required"


def _is_client_write(operation: Operation) -> bool:
    return operation.writes and operation.credentialled


def _is_write_by_person(operation: Operation) -> bool:
    return operation.writes and operation.for_people


CODES: Mapping[str, Condition] = {
    "insufficient_scope": lambda operation: "ApiKey" in operation.schemes,
    "credential_type_not_allowed": lambda operation: (
        operation.credentialled and not (operation.for_people and "ApiKey" in operation.schemes)
    ),
    "organization_not_provisioned": _requires_organization,
    "no_organization_selected": _requires_organization,
    "organization_deleted": _requires_organization,
    "idempotency_key_reuse": _is_client_write,
    "impersonation_read_only": _is_write_by_person,
    "origin_not_allowed": lambda operation: operation.writes and "SessionCookie" in operation.schemes,
    "invalid_signature": lambda operation: operation.is_webhook,
    "insufficient_permission": lambda operation: operation.raw.get("x-least-role", "viewer") != "viewer",
    "installation_removed": lambda operation: operation.raw.get("x-installation") == "required",
    "installation_suspended": lambda operation: operation.raw.get("x-installation") == "required",
    "validation_failed": lambda operation: operation.validated,
    "precondition_failed": lambda operation: operation.has_parameter("If-Match", "header"),
    "invalid_cursor": lambda operation: operation.is_list,
}
"""Code → the fact from which it follows. Without the fact, it cannot be answered, but for `ALSO_WRITTEN`."""

ALSO_WRITTEN: Mapping[str, Condition] = {
    "organization_deleted": lambda operation: operation.credentialled,
    "insufficient_permission": _is_write_by_person,
    "installation_removed": lambda operation: operation.writes and operation.credentialled,
    "installation_suspended": lambda operation: operation.writes and operation.credentialled,
}
"""Codes of `CODES` that a service may return too: for an organisation named by the request, for roles in a setting, for
what only some requests of an operation need."""

APPLICABLE: Mapping[str, Condition] = {
    "missing_parameter": lambda operation: operation.requires_value,
    "malformed_json": lambda operation: operation.reads_body,
    "unsupported_content_type": lambda operation: operation.reads_body or operation.is_public,
    "request_timeout": lambda operation: operation.reads_body or operation.is_public or operation.classic,
    "payload_too_large": lambda operation: operation.reads_body or operation.is_public or operation.classic,
    "missing_credentials": lambda operation: operation.credentialled,
    "invalid_token": lambda operation: operation.credentialled,
    "token_expired": lambda operation: operation.credentialled,
    "rate_limited": lambda operation: operation.credentialled or "x-rate-limit" in operation.raw,
    "database_unavailable": lambda operation: bool(operation.schemes),
    "busy": lambda operation: bool(operation.schemes),
    "maintenance": lambda operation: bool(operation.schemes),
}
"""Cross-cutting code → the fact under which it applies; a code that is not here applies to every operation."""

PARAMETERS: Mapping[str, Condition] = {
    "IdempotencyKey": _is_client_write,
    "Limit": lambda operation: operation.is_list,
    "Cursor": lambda operation: operation.is_list,
}
"""Shared parameter → the fact from which it follows."""

_HEADERS: Mapping[str, Callable[[Operation, str], bool]] = {
    "Location": lambda operation, status: status == "201" and "self" in operation.responses[status].get("links", {}),
    "X-Request-Id": lambda *_: True,
    "RateLimit-Remaining": lambda operation, status: operation.credentialled and status < "400",
    "RateLimit-Reset": lambda operation, status: operation.credentialled and status < "400",
    "Idempotency-Replayed": lambda operation, status: _is_client_write(operation) and status < "300",
}


def error_codes(operation: Operation) -> list[str]:
    """Return `x-errors` completed, in the order of the catalogue; unknown codes last."""
    codes = dict.fromkeys([*operation.raw.get("x-errors", ()), *_derived_codes(operation)])
    order = {code: rank for rank, code in enumerate(operation.document.catalogue)}
    return sorted(codes, key=lambda code: order.get(code, len(order)))


def missing_parameters(operation: Operation) -> Iterator[str]:
    """Yield the shared parameters that follow, but for those of which the operation has its own."""
    for component, applies in PARAMETERS.items():
        shared = operation.document.components("parameters").get(component)
        if shared is not None and applies(operation) and not operation.has_parameter(shared["name"], shared["in"]):
            yield component


def misplaced(operation: Operation) -> Iterator[Problem]:
    """Yield the codes and shared parameters that a source lists although they follow, or although none is possible."""
    written = list(operation.raw.get("x-errors", ()))
    derived = {*_derived_codes(operation), *cross_cutting(operation)}
    for index, code in enumerate(written):
        if code in derived or code in written[:index]:
            yield operation.problem(f"its code {code} {FOLLOWS}", "x-errors", index)
        elif code in CODES and not (code in ALSO_WRITTEN and ALSO_WRITTEN[code](operation)):
            yield operation.problem(f"its code {code} cannot be answered", "x-errors", index)
    for index, parameter in enumerate(operation.raw.get("parameters", ())):
        component = parameter.get("$ref", "").rpartition("/")[2]
        if component in PARAMETERS and PARAMETERS[component](operation):
            yield operation.problem(f"its parameter {component} {FOLLOWS}", "parameters", index)
        elif component == "IdempotencyKey":
            yield operation.problem("only writes take an IdempotencyKey", "parameters", index)


def cross_cutting(operation: Operation) -> set[str]:
    """Return the cross-cutting codes that apply to the operation."""
    listed = operation.document.root.get("x-cross-cutting-errors", ())
    return {code for code in listed if code not in APPLICABLE or APPLICABLE[code](operation)}


def headers(operation: Operation, status: str) -> dict[str, bool]:
    """Return the derived headers, in order: name → whether it comes with a response."""
    return {name: applies(operation, status) for name, applies in _HEADERS.items()}


def path_parameters(document: Document, path: str) -> dict[str, str]:
    """Return name → component of the path's parameters that are shared."""
    shared = {
        parameter["name"]: component
        for component, parameter in document.components("parameters").items()
        if parameter.get("in") == "path"
    }
    return {name: shared[name] for name in template_names(path) if name in shared}


def template_names(path: str) -> list[str]:
    """Return the names between braces in a path."""
    return _TEMPLATE.findall(path)


def _derived_codes(operation: Operation) -> Iterator[str]:
    yield from (code for code, applies in CODES.items() if applies(operation))
    if "x-entitlement" in operation.raw:
        yield "feature_not_available"
    if operation.raw.get("x-installation") == "required":
        yield "invalid_state"
    for component in path_parameters(operation.document, operation.path).values():
        parameter = operation.document.components("parameters")[component]
        if "x-not-found" in parameter:
            yield parameter["x-not-found"]
    for content in (operation.body or {}).get("content", {}).values():
        yield from _property_codes(operation.document, content.get("schema", {}), set())


def _property_codes(document: Document, schema: Any, seen: set[str]) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _property_codes(document, item, seen)
    elif isinstance(schema, dict):
        if "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            yield from _property_codes(document, document.resolved(schema), seen)
        if "x-error-code" in schema:
            own = schema["x-error-code"]
            yield from own.values() if isinstance(own, dict) else (own,)
        for child in schema.values():
            yield from _property_codes(document, child, seen)
