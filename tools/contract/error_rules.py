"""Rules on error codes: the catalogue, and the codes and error responses that authors write."""

from collections.abc import Iterator, Mapping
from typing import Any

from tools.contract import derivation, refusals
from tools.contract.document import Document, Operation, Place, Problem
from tools.contract.vocabulary import CATALOGUE_KEYS, EXAMPLE_KEYS, SNAKE_CASE

CATALOGUE = "x-error-catalogue"
CROSS_CUTTING = "x-cross-cutting-errors"


def catalogue_rows(document: Document) -> Iterator[Problem]:
    """Require a status, a type, a meaning and an example of each code, and no unknown keys."""
    for code, row in document.catalogue.items():
        place: Place = (CATALOGUE, code)
        if not SNAKE_CASE.fullmatch(code):
            yield document.problem(place, "is not snake_case")
        for key in ("status", "type", "meaning"):
            if not row.get(key):
                yield document.problem(place, f"has no {key}")
        for key in sorted(set(row) - CATALOGUE_KEYS):
            yield document.problem((*place, key), f"has the unknown key {key}")
        for key in sorted(_examples_of(row) | EXAMPLE_KEYS & set(row)):
            if not row.get(key, {}).get("message"):
                yield document.problem(place, f"has no message in its {key}")


def _examples_of(row: Mapping[str, Any]) -> set[str]:
    """Return the keys of the examples that a row needs; a reserved code needs none."""
    if row.get("emitted") is False:
        return set()
    return {"example", "alsoExample"} if "alsoStatus" in row else {"example"}


def own_codes(document: Document) -> Iterator[Problem]:
    """Require that the codes of properties, of parameters and of every operation are in the catalogue."""
    for place, value in document.nodes():
        if place[-1:] in {("x-error-code",), ("x-not-found",), (CROSS_CUTTING,)}:
            for code in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
                if code not in document.catalogue:
                    yield document.problem(place, f"{code} is not in the catalogue")


def listed_codes(operation: Operation) -> Iterator[Problem]:
    """Require that a listed code exists and is not reserved."""
    listed = operation.raw.get("x-errors", [])
    for index, code in enumerate(listed):
        row = operation.document.catalogue.get(code)
        if row is None:
            yield operation.problem(f"its code {code} is not in the catalogue", "x-errors", index)
        elif row.get("emitted") is False:
            yield operation.problem(f"its code {code} is reserved and never returned", "x-errors", index)


def documented_statuses(operation: Operation) -> Iterator[Problem]:
    """Require a response for each status that the codes give, and no response for another status.

    A response in OAuth's error format has a status of OAuth's, whatever the codes.
    """
    catalogue = operation.document.catalogue
    codes = {*derivation.error_codes(operation), *derivation.cross_cutting(operation)} & set(catalogue)
    documented = {status for status in operation.responses if status >= "400"}
    for code in sorted(codes):
        status = str(catalogue[code].get("status"))
        if status not in documented and status not in refusals.DESCRIPTIONS:
            yield operation.problem(f"can return {code} and has no {status} response", "responses")
    possible = {str(catalogue[code].get(key)) for code in codes for key in ("status", "alsoStatus")}
    for status in sorted(status for status in documented - possible if not _is_of_oauth(operation, status)):
        yield operation.problem(f"documents {status}, which none of its codes has", "responses", status)


def _is_of_oauth(operation: Operation, status: str) -> bool:
    content = operation.responses[status].get("content", {})
    schema: object = content.get("application/json", {}).get("schema")
    return schema == {"$ref": "#/components/schemas/OAuthError"}
