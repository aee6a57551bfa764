"""The error responses of operations and their examples, which follow from the codes that an operation can answer.

Operations that can answer the same codes with a status share one response. Its name has its codes: `ScheduleNotFound`,
`RepositoryNotFoundOrScheduleNotFound`; codes that often come together have one name (`_TOGETHER`). Its examples are
those of the codes, each of which stands once in `components/examples`, made of its row in the catalogue.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.contract import derivation
from tools.contract.document import Document, Operation
from tools.contract.vocabulary import pascal_case

DESCRIPTIONS = {
    "400": "The request is malformed: its JSON, its content type, or a parameter.",
    "401": "There is no credential, or it is not valid.",
    "403": "The credential is valid, and does not allow this.",
    "404": "There is no such object in this organisation.",
    "405": "This path does not support this method.",
    "408": "The request did not arrive in time. The connection is closed.",
    "409": "The state of an object, or an earlier request, does not allow this.",
    "410": "The organisation is deleted, or the GitHub App is not installed any more.",
    "412": "The object has changed since it was read.",
    "413": "The request, or what it asks for, is too large.",
    "422": "The JSON is well-formed, but its content is not valid; `details` has one row for each problem.",
    "429": "Too many requests, by you to the service or by the service to GitHub.",
    "500": "An error in the service. Freezes are not affected.",
    "502": "Another service did not respond.",
    "503": "The service is temporarily unavailable. Checks that are written keep blocking where a rule requires them.",
}
"""Status → the description of a response with several codes; one with a single code has the meaning of that code."""
_TOGETHER = {
    "BadRequest": frozenset({"malformed_request", "invalid_parameter"}),
    "Unauthorized": frozenset({"missing_credentials", "invalid_token", "token_expired"}),
    "Forbidden": frozenset({"organization_not_provisioned", "no_organization_selected"}),
    "Conflict": frozenset({"idempotency_key_reuse"}),
    "Gone": frozenset({"organization_deleted"}),
    "InvalidBody": frozenset({"validation_failed", "invalid_parameter"}),
    "UpstreamError": frozenset({"github_unavailable"}),
    "Unavailable": frozenset({"database_unavailable", "busy", "maintenance", "too_many_connections"}),
}
_UNCOUNTED = frozenset({"401", "405"})
"""Statuses that are answered before a request is counted, so that no `RateLimit` header comes with them."""
_RETRIED = frozenset(
    {
        *("idempotency_key_reuse", "rate_limited", "github_rate_limited", "github_secondary_rate_limit"),
        *("github_unavailable", "database_unavailable", "busy", "maintenance", "too_many_connections"),
    }
)
"""Codes that can come with a `Retry-After`."""
_SCHEMAS = {False: "ErrorResponse", True: "CompatError"}
"""The schema of an error: of the compatibility API or not."""
_DOCS_URL = "https://changefreeze.example/docs/errors"
_REQUEST_ID = "req_06aq1m3k0v5t8c2n7d4e9f1g81"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error response: what operations answer with a status."""

    status: str
    codes: tuple[str, ...]
    """In the order of the catalogue."""
    counted: bool
    """True if the headers of the rate limit come with it."""
    classic: bool
    """True in the compatibility API."""

    @property
    def name(self) -> str:
        """The name of its component."""
        left, parts = set(self.codes), []
        for name, codes in _TOGETHER.items():
            if codes <= left:
                parts.append(name)
                left -= codes
        parts += [pascal_case(code) for code in self.codes if code in left]
        uncounted = "" if self.counted or self.status in _UNCOUNTED else "WithoutCredential"
        return f"{'Compat' if self.classic else ''}{'Or'.join(parts)}{uncounted}"

    @property
    def headers(self) -> Iterator[str]:
        """The names of its headers."""
        if self.counted and self.status not in _UNCOUNTED:
            yield from ("RateLimit-Remaining", "RateLimit-Reset")
        if not _RETRIED.isdisjoint(self.codes):
            yield "Retry-After"
        if self.status == "405":
            yield "Allow"
        if self.status == "401":
            yield "WWW-Authenticate"
        if self.classic:
            yield "Cache-Control"
        yield "X-Request-Id"


def refusals(operation: Operation) -> dict[str, Refusal]:
    """Return status → error response of everything that the operation can answer, but for what is written by hand."""
    codes = {*derivation.error_codes(operation), *derivation.cross_cutting(operation)}
    found = defaultdict[str, list[str]](list)
    for code, row in operation.document.catalogue.items():
        if code in codes:
            found[str(row.get("status"))].append(code)
            if "alsoStatus" in row and operation.body is not None and operation.validated:
                found[str(row["alsoStatus"])].append(code)
    return {
        status: Refusal(status, tuple(codes), operation.credentialled, operation.classic)
        for status, codes in found.items()
        if status in DESCRIPTIONS
    }


def components(document: Document) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the error responses of all operations that are not written by hand, and their examples, by their names."""
    used = {
        refusal
        for operation in document.operations()
        for status, refusal in refusals(operation).items()
        if status not in operation.responses
    }
    ordered = sorted(used, key=lambda refusal: (refusal.classic, refusal.status, refusal.name))
    wanted = {_example_name(refusal, code): (refusal, code) for refusal in used for code in refusal.codes}
    order = {code: rank for rank, code in enumerate(document.catalogue)}
    names = sorted(wanted, key=lambda name: (wanted[name][0].classic, order[wanted[name][1]], name))
    return (
        {refusal.name: _response(document, refusal) for refusal in ordered},
        {name: _example(document, *wanted[name]) for name in names},
    )


def _response(document: Document, refusal: Refusal) -> dict[str, Any]:
    only = document.catalogue[refusal.codes[0]] if len(refusal.codes) == 1 else {}
    names = [name for name in refusal.headers if name in document.components("headers")]
    return {
        "description": " ".join(only.get("meaning", DESCRIPTIONS[refusal.status]).split()),
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": {
            _JSON: {
                "schema": {"$ref": f"#/components/schemas/{_SCHEMAS[refusal.classic]}"},
                "examples": {
                    code: {"$ref": f"#/components/examples/{_example_name(refusal, code)}"} for code in refusal.codes
                },
            }
        },
    }


def _example_name(refusal: Refusal, code: str) -> str:
    in_body = "InBody" if (refusal.status, code) == ("422", "invalid_parameter") else ""
    return f"{'Compat' if refusal.classic else ''}Error{pascal_case(code)}{in_body}"


def _example(document: Document, refusal: Refusal, code: str) -> dict[str, Any]:
    """Return the answer with a code, as the catalogue's row says it."""
    row = document.catalogue[code]
    is_also = refusal.status == str(row.get("alsoStatus"))
    example = (row.get("compatExample") if refusal.classic else None) or row.get(
        "alsoExample" if is_also else "example", {}
    )
    message = example.get("message", "")
    if refusal.classic:
        return {"summary": code, "value": {"error": message, "code": code, "request_id": _REQUEST_ID}}
    types = {str(one.get("status")): one.get("type") for one in document.catalogue.values()}
    error = {"type": types[refusal.status] if is_also else row.get("type"), "code": code, "message": message}
    details = {"details": example["details"]} if "details" in example else {}
    rest = {"docsUrl": f"{_DOCS_URL}#{code}", "requestId": _REQUEST_ID}
    return {"summary": code, "value": {"error": {**error, **details, **rest}}}
