"""What the edge costs: CPU microseconds per request in process, beside bare Starlette with as many routes.

`python -m tools.bench.edge [--seconds 2]` prints both and their ratio, measured in turns in one run. The edge has
the whole contract loaded, parses the credential (looked up already), counts the request, makes a request id and sends
the rate-limit headers; Starlette parses JSON with orjson, checks that the fields exist, and answers with orjson too.
Starlette tries its routes one after the other, so it is measured twice: the route in the middle of the contract's, and
last. The SQL and Redis commands of both are left out: they would be the same. Handlers answer on the event loop; a
second pair of cases has them in worker threads.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, LiteralString, cast

import orjson
import uvloop
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.edge import connexion_adapter
from app.edge.access_log import AccessLog
from app.edge.authentication import Credentials
from app.edge.downloads import DatabaseDownloads
from app.edge.early_errors import EarlyErrors
from app.edge.errors import ErrorMapper
from app.edge.key_uses import KeyUses
from app.edge.maintenance_mode import Maintenance
from app.edge.middleware import RequestMiddleware
from app.edge.operation import CompiledOperation, Edge
from app.edge.rate_limits import RateLimits
from app.edge.token_verification import TokenVerifier
from app.edge.worker_threads import Workers
from schemas.contract import Contract, load_contract, parse_contract
from schemas.dialect import Validators
from schemas.serialization import Serializers
from services.core.clock import DatabaseClock
from services.core.read_context import Parameters
from services.core.unit_of_work import UnitOfWorkFactory
from services.identity.access_tokens import verify_access_token
from services.identity.api_key_secrets import new_secret
from services.identity.oauth.access_tokens import verify_grant_token

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
SECRET = new_secret()
BODY = {
    "name": "Release week",
    "timezone": "Europe/London",
    "reason": "The release is being cut",
    "enabled": True,
    "exceptionsAllowed": False,
    "interval": 1,
    "count": 12,
    "startsAt": "2026-11-23T17:00:00Z",
    "endsAt": "2026-11-30T08:00:00Z",
    "days": ["MO", "TU", "WE"],
}
REPLY = {"id": "frz_00000000000000000000000001", **BODY}

_TEXT = {"type": "string", "minLength": 1, "maxLength": 100}
_INSTANT = {"type": "string", "format": "date-time"}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 1000}
TEN_FIELDS: dict[str, Any] = {
    "name": _TEXT,
    "timezone": _TEXT,
    "reason": {**_TEXT, "minLength": 8},
    "enabled": {"type": "boolean"},
    "exceptionsAllowed": {"type": "boolean", "default": True},
    "interval": _COUNT,
    "count": _COUNT,
    "startsAt": _INSTANT,
    "endsAt": _INSTANT,
    "days": {"type": "array", "maxItems": 7, "items": {"type": "string", "enum": ["MO", "TU", "WE", "TH", "FR"]}},
}

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class KnownKey:
    """A reader that has looked the key up already."""

    async def fetch(
        self,
        sql: LiteralString,  # noqa: ARG002 - the reader's signature
        parameters: Parameters = (),  # noqa: ARG002 - the same
        organization_id: str | None = None,  # noqa: ARG002 - the same
    ) -> list[dict[str, Any]]:
        """Return the key's row."""
        return [KEY_ROW]


KEY_ROW: dict[str, Any] = {
    "key_id": "key_00000000000000000000000001",
    "key_name": "bench",
    "organization_id": "org_00000000000000000000000001",
    "scopes": ["freeze:read", "freeze:write"],
    "expires_at": NOW + timedelta(days=30),
    "revoked_at": None,
    "secret_ends_at": None,
    "organization_grants": '[["manual", "business", null]]',
    "organization_deleted_at": None,
    "now": NOW,
}


@cache
def bench_contract() -> Contract:
    """Return the whole contract with the measured operations in its middle."""
    contract = load_contract()
    document = json.loads(orjson.dumps(contract.document))
    paths = list(document["paths"].items())
    middle = len(paths) // 2
    document["paths"] = dict([*paths[:middle], *_bench_paths().items(), *paths[middle:]])
    document["components"]["schemas"]["BenchReply"] = {
        "type": "object",
        "required": ["id", *TEN_FIELDS],
        "properties": {"id": _TEXT, **TEN_FIELDS},
    }
    return parse_contract(json.dumps(document).encode())


def _bench_paths() -> dict[str, Any]:
    reply = {
        "description": "ok",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/BenchReply"}}},
    }
    body = {"type": "object", "additionalProperties": False, "required": list(TEN_FIELDS), "properties": TEN_FIELDS}
    paths: dict[str, Any] = {}
    for suffix in ("", "_in_thread"):
        path = f"/v1/bench{suffix}/{{thingId}}"
        common = {
            "tags": ["Operations"],
            "summary": "bench",
            "security": [{"ApiKey": ["freeze:read"]}, {"Session": []}],
        }
        thing = {"name": "thingId", "in": "path", "required": True, "schema": _TEXT}
        limit = {"name": "limit", "in": "query", "schema": {**_COUNT, "default": 50}}
        paths[path] = {
            "get": {**common, "operationId": f"get{suffix}", "parameters": [thing, limit], "responses": {"200": reply}},
            "post": {
                **common,
                "operationId": f"post{suffix}",
                "x-effect": "write" if suffix else "read",
                "parameters": [thing],
                "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
                "responses": {"200": reply},
            },
        }
    return paths


def make_edge(*, check_replies: bool) -> Application:
    """Return the edge with its credential looked up and its limits counted in the process."""
    contract = bench_contract()
    reader = KnownKey()
    errors = ErrorMapper(contract, "https://docs.example")
    clock = DatabaseClock()
    edge = Edge(
        contract=contract,
        errors=errors,
        maintenance=Maintenance(None, ""),
        credentials=Credentials(
            reader,
            TokenVerifier(reader, partial(verify_access_token, issuer="", audience="")),
            TokenVerifier(reader, partial(verify_grant_token, issuer="", audience="")),
            clock,
            web_url="",
            key_uses=KeyUses(reader),
        ),
        rate_limits=RateLimits(None, organization=10**9, writes=10**9),
        workers={"organization": Workers(4)},
        uow_factories={"organization": cast(UnitOfWorkFactory, _NoUnits())},
        reader=reader,
        downloads=DatabaseDownloads("postgresql://"),
        validators=Validators(contract.document),
        serializers=Serializers(contract.document),
        check_replies=check_replies,
    )

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield

    application: Application = connexion_adapter.build(
        contract,
        "tools.bench",
        partial(CompiledOperation, edge),
        outermost=partial(
            RequestMiddleware,
            errors=errors,
            count=EarlyErrors(edge.credentials, edge.rate_limits, edge.contract.classic_prefix).count,
            log=AccessLog(None),
        ),
        lifespan=lifespan,
        complete=False,
    )
    return application


class _NoUnits:
    """Units of work without a database, for handlers that do nothing with theirs."""

    @contextmanager
    def open(self, *_: Any, **__: Any) -> Iterator[None]:
        yield None


def make_starlette(*, last: bool) -> Application:
    """Return the bare application: as many routes, JSON by orjson, a check that the fields exist."""

    async def get(request: Request) -> Response:
        limit = int(request.query_params.get("limit", "50"))
        assert limit
        return Response(orjson.dumps({**REPLY, "name": request.path_params["thingId"]}), media_type="application/json")

    async def post(request: Request) -> Response:
        body = orjson.loads(await request.body())
        missing = [name for name in TEN_FIELDS if name not in body]
        return Response(orjson.dumps(missing or {**REPLY, **body}), media_type="application/json")

    async def get_in_thread(request: Request) -> Response:
        limit = int(request.query_params.get("limit", "50"))
        content = await run_in_threadpool(lambda: {**REPLY, "count": limit})
        return Response(orjson.dumps(content), media_type="application/json")

    async def post_in_thread(request: Request) -> Response:
        body = orjson.loads(await request.body())
        missing = [name for name in TEN_FIELDS if name not in body]
        content = await run_in_threadpool(lambda: missing or {**REPLY, **body})
        return Response(orjson.dumps(content), media_type="application/json")

    measured = {"get": get, "post": post, "get_in_thread": get_in_thread, "post_in_thread": post_in_thread}
    operations = sorted(bench_contract().operations.values(), key=lambda one: last and one.id in measured)
    return Starlette(routes=[Route(one.path, measured.get(one.id, get), methods=[one.method]) for one in operations])


@dataclass(frozen=True)
class Case:
    """One request that is sent again and again."""

    name: str
    method: str
    path: str
    query: bytes
    body: bytes

    def scope(self) -> dict[str, Any]:
        """Return a fresh ASGI scope, as uvicorn makes it."""
        headers = [
            (b"host", b"127.0.0.1:8080"),
            (b"user-agent", b"bench"),
            (b"accept", b"*/*"),
            (b"authorization", b"Bearer " + SECRET.encode()),
        ]
        if self.body:
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8080),
            "state": {},
        }


CASES = [
    Case("GET", "GET", "/v1/bench/thg_1", b"limit=20", b""),
    Case("POST, ten fields", "POST", "/v1/bench/thg_1", b"", orjson.dumps(BODY)),
    Case("GET in a thread", "GET", "/v1/bench_in_thread/thg_1", b"limit=20", b""),
    Case("POST in a thread", "POST", "/v1/bench_in_thread/thg_1", b"", orjson.dumps(BODY)),
]


async def measure(application: Application, case: Case, seconds: float) -> float:
    """Return the CPU microseconds of one request."""
    status = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": case.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    for _ in range(200):
        await application(case.scope(), receive, send)
    assert status == 200, f"{case.name}: {status}"
    count, began, deadline = 0, time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for _ in range(50):
            await application(case.scope(), receive, send)
        count += 50
    return (time.process_time() - began) / count * 1e6


async def compare(seconds: float, rounds: int) -> None:
    """Measure in turns, and print the medians and their ratios."""
    applications = {
        "starlette, middle": make_starlette(last=False),
        "starlette, last": make_starlette(last=True),
        "edge": make_edge(check_replies=False),
        "edge, replies checked": make_edge(check_replies=True),
    }
    print(f"{'CPU µs per request':20}" + "".join(f"{name:>22}" for name in applications) + f"{'edge / starlette':>20}")
    for case in CASES:
        taken: dict[str, list[float]] = {name: [] for name in applications}
        for _ in range(rounds):
            for name, application in applications.items():
                taken[name].append(await measure(application, case, seconds / rounds))
        medians = {name: statistics.median(values) for name, values in taken.items()}
        ratios = " ".join(f"{medians['edge'] / medians[f'starlette, {place}']:.2f}" for place in ("middle", "last"))
        print(f"{case.name:20}" + "".join(f"{value:22.1f}" for value in medians.values()) + f"{ratios:>20}")


def main(seconds: float = 2.0, rounds: int = 5) -> None:
    """Print the table."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(compare(seconds, rounds))


def _from_command_line() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    main(arguments.seconds, arguments.rounds)


if __name__ == "__main__":
    _from_command_line()
