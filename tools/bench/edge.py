"""What the edge costs: CPU microseconds per request in process, beside bare Starlette with as many routes.

Both are measured in turns in one run. The edge has the whole contract loaded, parses the credential (looked up
already), counts the request, makes a request id and sends the rate-limit headers; Starlette parses JSON with orjson,
checks that the fields exist, and answers with orjson too. Starlette tries its routes one after the other, so it is
measured twice: with the measured routes in the middle of the others, and with them last. The SQL and Redis commands of
both are left out: they would be the same. Handlers answer on the event loop; a second pair of cases has them in worker
threads.
"""

import asyncio
import json
import statistics
from collections.abc import AsyncIterator, Iterator
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
from tools.bench.in_process import Application, MeasuredRequest, make_request, measure

SECONDS, ROUNDS = 2.0, 5
"""Seconds of measuring for each figure, and in how many rounds."""
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
    body: bytes = b""

    def request(self, application: Application) -> MeasuredRequest:
        """Return the request to an application."""
        headers = {"accept": "*/*", "authorization": f"Bearer {SECRET}"}
        if self.body:
            headers |= {"content-type": "application/json", "content-length": str(len(self.body))}
        return make_request(application, self.method, self.path, headers, self.body)


CASES = [
    Case("GET", "GET", "/v1/bench/thg_1?limit=20"),
    Case("POST, ten fields", "POST", "/v1/bench/thg_1", orjson.dumps(BODY)),
    Case("GET in a thread", "GET", "/v1/bench_in_thread/thg_1?limit=20"),
    Case("POST in a thread", "POST", "/v1/bench_in_thread/thg_1", orjson.dumps(BODY)),
]


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
        requests = {name: case.request(application) for name, application in applications.items()}
        costs: dict[str, list[float]] = {name: [] for name in applications}
        for _ in range(rounds):
            for name, request in requests.items():
                costs[name].append((await measure(request, seconds / rounds)).cpu)
        medians = {name: statistics.median(values) for name, values in costs.items()}
        ratios = " ".join(f"{medians['edge'] / medians[f'starlette, {place}']:.2f}" for place in ("middle", "last"))
        print(f"{case.name:20}" + "".join(f"{value:22.1f}" for value in medians.values()) + f"{ratios:>20}")


def main() -> None:
    """Print the table."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(compare(SECONDS, ROUNDS))


if __name__ == "__main__":
    main()
