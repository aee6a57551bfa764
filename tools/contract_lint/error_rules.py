"""Rules on error codes: the catalogue, and what each operation says it can answer."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tools.contract_lint.document import Document, Fault, Operation, Place
from tools.contract_lint.vocabulary import CATALOGUE_KEYS, SNAKE_CASE

CATALOGUE = "x-error-catalogue"
CROSS_CUTTING = "x-cross-cutting-errors"


def catalogue_rows(document: Document) -> Iterator[Fault]:
    """Demand a status, a family and a meaning of each code, and nothing unknown."""
    for code, row in document.root.get(CATALOGUE, {}).items():
        place: Place = (CATALOGUE, code)
        if not SNAKE_CASE.fullmatch(code):
            yield document.fault(place, "is not snake_case")
        for key in ("status", "type", "meaning"):
            if not row.get(key):
                yield document.fault(place, f"has no {key}")
        for key in sorted(set(row) - CATALOGUE_KEYS):
            yield document.fault((*place, key), f"has the unknown key {key}")


def cross_cutting_codes(document: Document) -> Iterator[Fault]:
    """Demand that the codes of every operation are in the catalogue."""
    for index, code in enumerate(document.root.get(CROSS_CUTTING, [])):
        if code not in document.root.get(CATALOGUE, {}):
            yield document.fault((CROSS_CUTTING, index), f"{code} is not in the catalogue")


def property_codes(document: Document) -> Iterator[Fault]:
    """Demand that a property's own code is in the catalogue."""
    for place, value in document.nodes():
        if place[-1:] == ("x-error-code",) and value not in document.root.get(CATALOGUE, {}):
            yield document.fault(place, f"{value} is not in the catalogue")


def listed_codes(operation: Operation) -> Iterator[Fault]:
    """Demand that a listed code exists, is answered at all, and is listed once."""
    listed = operation.raw.get("x-errors", [])
    for index, code in enumerate(listed):
        row = _catalogue(operation).get(code)
        if row is None:
            yield operation.fault(f"its code {code} is not in the catalogue", "x-errors", index)
        elif row.get("emitted") is False:
            yield operation.fault(f"its code {code} is reserved and never answered", "x-errors", index)
        elif listed.index(code) != index:
            yield operation.fault(f"its code {code} is listed twice", "x-errors", index)


def documented_statuses(operation: Operation) -> Iterator[Fault]:
    """Demand the statuses of the codes that can be answered, no fewer and no more."""
    catalogue = _catalogue(operation)
    codes = {*operation.raw.get("x-errors", []), *_applicable(operation)} & set(catalogue)
    documented = {status for status in operation.responses if status >= "400"}
    for code in sorted(codes):
        if str(catalogue[code].get("status")) not in documented:
            yield operation.fault(f"can answer {code} and has no {catalogue[code].get('status')} response", "responses")
    possible = {str(catalogue[code].get(key)) for code in codes for key in ("status", "alsoStatus")}
    for status in sorted(documented - possible):
        yield operation.fault(f"documents {status}, which no code of it gives", "responses", status)


def codes_of_policies(operation: Operation) -> Iterator[Fault]:
    """Demand the codes of the operation's policies, and of no policy that it does not have."""
    listed = operation.raw.get("x-errors", [])
    for code, applies in _POLICIES.items():
        if applies(operation) and code not in listed:
            yield operation.fault(f"can answer {code} and does not list it in x-errors")
        if code in listed and not applies(operation) and not _is_of_a_service(operation, code):
            yield operation.fault(f"lists {code}, which its policies never answer", "x-errors", listed.index(code))


def codes_of_properties(operation: Operation) -> Iterator[Fault]:
    """Demand the codes of the properties that the operation takes."""
    if operation.body is None:
        return
    for content in operation.body.get("content", {}).values():
        for code in sorted(_own_codes(operation.document, content.get("schema", {}), set())):
            if code not in operation.raw.get("x-errors", []):
                yield operation.fault(f"takes a property whose code is {code} and does not list it in x-errors")


def _own_codes(document: Document, schema: Any, seen: set[str]) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _own_codes(document, item, seen)
    elif isinstance(schema, dict):
        if "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            yield from _own_codes(document, document.resolved(schema), seen)
        if "x-error-code" in schema:
            yield schema["x-error-code"]
        for child in schema.values():
            yield from _own_codes(document, child, seen)


def _catalogue(operation: Operation) -> Mapping[str, Any]:
    found: Mapping[str, Any] = operation.document.root.get(CATALOGUE, {})
    return found


def _takes_organization(operation: Operation) -> bool:
    return operation.credentialled and operation.raw.get("x-organization", "required") == "required"


def _writes_as_person(operation: Operation) -> bool:
    return operation.writes and operation.for_people


def _is_validated(operation: Operation) -> bool:
    """Tell whether its body is checked by its schema: JSON of a client, and nothing but JSON."""
    content = (operation.body or {}).get("content", {})
    return set(content) == {"application/json"} and not operation.from_code_host


def _is_of_a_service(operation: Operation, code: str) -> bool:
    return code in _OF_SERVICES_TOO and _OF_SERVICES_TOO[code](operation)


def _applicable(operation: Operation) -> set[str]:
    """Return the cross-cutting codes that the operation's shape allows."""
    listed = operation.document.root.get(CROSS_CUTTING, [])
    return {code for code in listed if code not in _SHAPES or _SHAPES[code](operation)}


_SHAPES: Mapping[str, Callable[[Operation], bool]] = {
    "malformed_json": lambda operation: operation.body is not None,
    "unsupported_content_type": lambda operation: operation.body is not None,
    "payload_too_large": lambda operation: operation.body is not None,
    "missing_credentials": lambda operation: operation.credentialled,
    "invalid_token": lambda operation: operation.credentialled,
    "token_expired": lambda operation: operation.credentialled,
    "rate_limited": lambda operation: operation.credentialled,
    "database_unavailable": lambda operation: bool(operation.schemes),
    "maintenance": lambda operation: bool(operation.schemes),
}
_POLICIES: Mapping[str, Callable[[Operation], bool]] = {
    "insufficient_scope": lambda operation: "ApiKey" in operation.schemes,
    "credential_type_not_allowed": lambda operation: (
        operation.credentialled and not (operation.for_people and "ApiKey" in operation.schemes)
    ),
    "insufficient_permission": lambda operation: operation.raw.get("x-least-role", "viewer") != "viewer",
    "organization_not_provisioned": _takes_organization,
    "no_organization_selected": _takes_organization,
    "organization_deleted": _takes_organization,
    "impersonation_read_only": _writes_as_person,
    "idempotency_key_reuse": lambda operation: operation.writes and operation.credentialled,
    "installation_removed": lambda operation: operation.raw.get("x-installation") == "required",
    "invalid_cursor": lambda operation: operation.is_list,
    "validation_failed": _is_validated,
    "origin_not_allowed": lambda operation: operation.writes and "SessionCookie" in operation.schemes,
    "invalid_signature": lambda operation: operation.from_code_host,
}
_OF_SERVICES_TOO: Mapping[str, Callable[[Operation], bool]] = {
    "organization_deleted": lambda operation: operation.credentialled,
    "insufficient_permission": _writes_as_person,
}
"""Codes that a service tells too: of an organisation which its operation names, of roles that are a setting."""
RULES: tuple[Callable[[Document], Iterator[Fault]], ...] = (catalogue_rows, cross_cutting_codes, property_codes)
OPERATION_RULES: tuple[Callable[[Operation], Iterator[Fault]], ...] = (
    listed_codes,
    documented_statuses,
    codes_of_policies,
    codes_of_properties,
)
