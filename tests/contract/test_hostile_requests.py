"""Paths, queries and headers that are costly to read, for every operation, made from the contract.

None of them keeps the event loop busy, and none is answered with a status of 5xx. The requests take the whole way of a
request from the network, from the router to where a unit of work would be opened, which is refused here. They are as
large as the connection lets a head be (`tests/app/edge/test_http_protocol.py`).
"""

import base64
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, LiteralString, NoReturn, cast

import orjson
import pytest

from app.edge import connexion_adapter
from app.edge.access_log import AccessLog
from app.edge.authentication import Credentials
from app.edge.early_errors import EarlyErrors
from app.edge.http_protocol import MAX_HEAD_BYTES, MAX_HEADERS
from app.edge.middleware import RequestMiddleware
from app.edge.operation import CompiledOperation, Edge
from app.edge.token_verification import TokenVerifier
from app.edge.validation_errors import MAX_VIOLATIONS
from rules.errors import ServiceError
from schemas.contract import DatabaseRole, Operation
from services.core.clock import DatabaseClock
from services.core.unit_of_work import UnitOfWorkFactory
from services.identity.access_tokens import verify_access_token
from services.identity.oauth.access_tokens import verify_grant_token
from tests.contract.hostile_edge import CONTRACT, AnyCredential, Application, bounded, edge_of

SIZE = MAX_HEAD_BYTES - 5000
"""Bytes of a hostile part: what the rest of the head leaves."""
FEW = ("get_freeze_state", "list_audit_entries", "get_freeze", "create_freeze", "sign_in", "receive_github_webhook")
"""Operations with many kinds of parameters and credentials, for all others."""
OPERATIONS = [one for one in CONTRACT.operations.values() if not one.classic]

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Hostile:
    """A request of an operation with one costly part."""

    name: str
    path: bytes
    query: bytes = b""
    headers: Headers = ()
    codes: frozenset[str] = frozenset()
    """The codes of which the response has one; any below 500 if there are none."""


def filled(pattern: bytes, size: int = SIZE) -> bytes:
    return pattern * (size // len(pattern))


def numbered(pattern: bytes, joint: bytes = b"&", size: int = SIZE) -> bytes:
    return joint.join(pattern % number for number in range(size // (len(pattern) + 4)))


TEXTS: dict[str, bytes] = {
    "letters": filled(b"a"),
    "digits": filled(b"9"),
    "minus signs": filled(b"-"),
    "commas": filled(b"a,"),
    "no more than commas": filled(b","),
    "slashes": filled(b"%2F"),
    "encoded letters": filled(b"%61"),
    "letters beyond ASCII": filled(b"%C3%A4"),
    "encodings of encodings": filled(b"%25"),
    "broken encodings": filled(b"%"),
    "bytes that are no UTF-8": filled(b"%FF"),
    "NULs": filled(b"%00"),
    "plus signs": filled(b"+"),
    "wildcards": filled(b"*a"),
    "open brackets": filled(b"%5B"),
    "an almost valid id": b"frz_" + filled(b"0"),
    "an almost valid instant": b"2026-11-21T" + filled(b"00:"),
    "an almost valid cursor": base64.urlsafe_b64encode(b'{"a":' * 8000),
}
"""Values of parameters."""

QUERIES: dict[str, bytes] = {
    "unknown parameters": numbered(b"p%d=1"),
    "parameters without a value": numbered(b"p%d"),
    "one unknown parameter many times": filled(b"p=1&"),
    "empty names": filled(b"=1&"),
    "ampersands": filled(b"&"),
    "equal signs": filled(b"="),
    "semicolons": filled(b"a=1;"),
    "deep brackets": b"p" + filled(b"[a]") + b"=1",
    "encoded names": filled(b"%70%71=1&"),
    "broken names": filled(b"%zz=1&"),
    "a name of 60 KB": filled(b"p") + b"=1",
    "names with NULs": filled(b"p%00=1&"),
}

PATHS: dict[str, bytes] = {
    "many segments": filled(b"/a"),
    "many segments below /v1": b"/v1" + filled(b"/repos"),
    "empty segments": filled(b"/"),
    "parents": b"/v1" + filled(b"/.."),
    "encoded segments": b"/v1" + filled(b"/%61"),
    "one segment": b"/v1/" + filled(b"a"),
    "bytes that are no UTF-8": b"/v1/" + filled(b"%FF"),
    "a page": b"/docs/" + filled(b"a/"),
}

HEADERS: dict[str, Headers] = {
    "a huge cookie": [(b"cookie", b"a=" + filled(b"b"))],
    "many cookies": [(b"cookie", numbered(b"c%d=1", b"; "))],
    "separators of cookies": [(b"cookie", filled(b";"))],
    "session cookies": [(b"cookie", filled(b"session=svc_session_a; "))],
    "a header many times": [(b"x-a", b"a" * 200)] * (MAX_HEADERS - 10),
    "Content-Type of 60 KB": [(b"content-type", b"application/json; " + filled(b"charset=utf-8; "))],
    "Accept of 60 KB": [(b"accept", filled(b"text/html;q=0.1, "))],
    "Idempotency-Key of 60 KB": [(b"idempotency-key", b'"' + filled(b"\\a") + b'"')],
    "User-Agent of 60 KB": [(b"user-agent", filled(b"\xe4"))],
    "If-None-Match of 60 KB": [(b"if-none-match", filled(b'W/"'))],
    "tags without an end": [(b"if-none-match", filled(b"W/"))],
    "Origin of 60 KB": [(b"origin", b"http://" + filled(b"a."))],
    "X-Forwarded-For of 60 KB": [(b"x-forwarded-for", filled(b"1.2.3.4, "))],
    "Host of 60 KB": [(b"host", filled(b"a."))],
}

AUTHORIZATIONS: dict[str, bytes] = {
    "no scheme": filled(b"a"),
    "spaces": b"Bearer" + filled(b" "),
    "bytes beyond ASCII": b"Bearer " + filled(b"\xe4"),
    "an API key of 60 KB": b"Bearer svc_live_" + filled(b"a"),
    "a session token of 60 KB": b"Bearer svc_session_" + filled(b"a"),
    "dots": b"Bearer " + filled(b"."),
    "a token of 60 KB": b"Bearer " + filled(b"eyJh") + b".e30.e30",
    "a token with a deep header": b"Bearer " + base64.urlsafe_b64encode(b"[" * 3000).rstrip(b"=") + b".e30.e30",
    "a token with deep claims": b"Bearer eyJhbGciOiJFUzI1NiJ9."
    + base64.urlsafe_b64encode(b'{"a":' * 590).rstrip(b"=")
    + b".e30",
    "a token with a long number": b"Bearer " + base64.urlsafe_b64encode(b'{"kid":%s}' % (b"9" * 2900)) + b".e30.e30",
}


class Refusing:
    """Refuses every unit of work and every read, so that nothing behind the edge is reached."""

    dependencies = cast("Any", None)

    def open(self, *_: object, **__: object) -> NoReturn:
        raise ServiceError("invalid_state", "Nothing is done here.")

    async def fetch(self, _: LiteralString, *__: object) -> NoReturn:
        raise ServiceError("not_found", "Nothing is here.")

    async def check(self) -> NoReturn:
        raise ServiceError("not_found", "Nothing is here.")


class NoRows:
    """A database in which nothing is found."""

    async def fetch(self, _: LiteralString, *__: object) -> list[Mapping[str, Any]]:
        return []


class NoKeyUses:
    def record(self, key_id: str, at: datetime) -> None:
        """Record nothing: no key is valid."""


@asynccontextmanager
async def no_lifespan(_: object) -> AsyncIterator[None]:
    yield


def application_of(edge: Edge) -> Application:
    application: Application = connexion_adapter.build(
        CONTRACT,
        "handlers",
        partial(CompiledOperation, edge),
        outermost=partial(
            RequestMiddleware,
            errors=edge.errors,
            count=EarlyErrors(edge.credentials, edge.rate_limits, edge.contract.classic_prefix).count,
            log=AccessLog(None),
        ),
        lifespan=no_lifespan,
    )
    return application


@pytest.fixture(scope="module")
def edge() -> Edge:
    refusing = cast("Any", Refusing())
    factories = cast("dict[DatabaseRole, UnitOfWorkFactory]", {"organization": refusing, "identity": refusing})
    health_checks = {"database": refusing.check, "redis": refusing.check}
    return replace(
        edge_of(AnyCredential()),
        uow_factories=factories,
        reader=refusing,
        downloads=refusing,
        health_checks=health_checks,
    )


@pytest.fixture(scope="module")
def application(edge: Edge) -> Application:
    return application_of(edge)


@pytest.fixture(scope="module")
def strict(edge: Edge) -> Application:
    """The application with the credentials of the product, of which none is valid."""
    reads = cast("Any", NoRows())
    verifier = TokenVerifier(reads, partial(verify_access_token, issuer="https://example", audience="https://example"))
    grants = TokenVerifier(reads, partial(verify_grant_token, issuer="https://example", audience="https://example"))
    credentials = Credentials(
        reads, verifier, grants, DatabaseClock(), web_url="http://example", key_uses=cast("Any", NoKeyUses())
    )
    return application_of(replace(edge, credentials=credentials))


def path_of(operation: Operation, value: bytes = b"frz_00000000000000000000000001") -> bytes:
    path = operation.path.encode()
    for parameter in operation.parameters:
        if parameter.location == "path":
            path = path.replace(b"{" + parameter.name.encode() + b"}", value)
    return path


def assert_bounded(application: Application, operation: Operation, hostile: Hostile) -> None:
    scope = {
        "method": operation.method,
        "path": hostile.path.decode("latin-1"),
        "raw_path": hostile.path,
        "query_string": hostile.query,
        "headers": [(b"authorization", b"Bearer svc_live_a"), *hostile.headers],
    }
    shape = (operation.id, hostile.name)
    response = bounded(application, scope, b"", *shape)
    assert 200 <= response.status < 500, (*shape, response.status, response.body[:500])
    if hostile.codes:
        error = orjson.loads(response.body)["error"]
        assert error["code"] in hostile.codes, (*shape, error)
        assert len(error.get("details", ())) <= MAX_VIOLATIONS
        assert len(response.body) < 100_000, (*shape, len(response.body))


INVALID = frozenset({"invalid_parameter", "missing_parameter", "validation_failed", "invalid_cursor"})
NO_PLACE = frozenset({"not_found", "method_not_allowed"})


def of_queries(operation: Operation) -> Iterator[Hostile]:
    """Yield costly queries; an operation that is not of the API itself may ignore what it does not know."""
    codes = INVALID if operation.path.startswith("/v1/") else frozenset[str]()
    for name, query in QUERIES.items():
        yield Hostile(name, path_of(operation), query, codes=frozenset() if name == "ampersands" else codes)


def of_parameters(operations: Iterable[Operation]) -> Iterator[tuple[Operation, Hostile]]:
    """Yield costly values of all parameters; one that several operations share, once."""
    seen: set[tuple[str, str, int]] = set()
    for operation in operations:
        for parameter in operation.parameters:
            key = (parameter.location, parameter.name, id(CONTRACT.resolve(parameter.schema)))
            if key in seen:
                continue
            seen.add(key)
            named = parameter.name.encode()
            for name, text in TEXTS.items():
                label = f"{name} in {parameter.name}"
                if parameter.location == "query":
                    yield operation, Hostile(label, path_of(operation), named + b"=" + text)
                elif parameter.location == "path":
                    yield operation, Hostile(label, path_of(operation, text))
                else:
                    yield operation, Hostile(label, path_of(operation), headers=[(named.lower(), text)])
            if parameter.location == "query":
                repeated = filled(named + b"=a&")
                yield operation, Hostile(f"{parameter.name} many times", path_of(operation), repeated)


def of_headers(operation: Operation) -> Iterator[Hostile]:
    for name, headers in HEADERS.items():
        yield Hostile(name, path_of(operation), headers=headers)


@pytest.mark.parametrize("operation_id", FEW)
def test_hostile_query_and_headers_are_answered_at_little_cost(application: Application, operation_id: str) -> None:
    operation = CONTRACT.operations[operation_id]
    for hostile in (*of_queries(operation), *of_headers(operation)):
        assert_bounded(application, operation, hostile)


@pytest.mark.check
def test_hostile_query_and_headers_are_answered_at_little_cost_everywhere(application: Application) -> None:
    for operation in OPERATIONS:
        for hostile in (*of_queries(operation), *of_headers(operation)):
            assert_bounded(application, operation, hostile)


@pytest.mark.check
def test_hostile_value_of_any_parameter_is_answered_at_little_cost(application: Application) -> None:
    for operation, hostile in of_parameters(OPERATIONS):
        assert_bounded(application, operation, hostile)


@pytest.mark.parametrize("name", PATHS)
def test_hostile_path_is_answered_at_little_cost(application: Application, name: str) -> None:
    for method in ("GET", "POST"):
        operation = replace(CONTRACT.operations["get_freeze"], method=method)
        assert_bounded(application, operation, Hostile(name, PATHS[name], codes=NO_PLACE))


@pytest.mark.parametrize("name", AUTHORIZATIONS)
def test_hostile_credential_is_refused_at_little_cost(strict: Application, name: str) -> None:
    headers = [(b"authorization", AUTHORIZATIONS[name])]
    codes = frozenset({"invalid_token", "missing_credentials"})
    for operation_id in ("get_freeze", "create_freeze", "sign_out"):
        operation = CONTRACT.operations[operation_id]
        assert_bounded(strict, operation, Hostile(name, path_of(operation), headers=headers, codes=codes))
