"""What a tool call costs beside the same operation over HTTP, and how large the list of tools is.

Measured in process on the real PostgreSQL: `GET /v1/freeze-state` and the tool that calls it, in turns, through the
whole application, in both eras of the protocol. The difference of the two is the SDK's and our gate's; what the SDK
takes for a tool that does nothing is measured too. Aims: a tool call takes at most 3 times the CPU, the list at most
60 KB (12 KB for `freeze:read`), and the check of a client's access token at most 1.2 times that of a session JWT.
"""

import asyncio
import statistics
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvloop
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams

from app.database import Reads
from app.main import Application
from models.organizations import Organization
from rules import web_addresses
from schemas.calls import call_application
from services.identity.oauth.access_tokens import issue_grant_token
from tests import factories
from tools.bench.credentials import ROUNDS, make_application, make_config, make_credential_check, sign_in
from tools.bench.freeze_state import PATH, seed
from tools.bench.in_process import Lifespan, MeasuredRequest, make_request, make_scope, measure
from tools.bench.servers import Storage, machine, storage
from tools.mcp_requests import ERAS, VERSIONS, Era, request_of

SECONDS = 1.0
NAMES: Mapping[Era, str] = {"stateless": "without a handshake", "handshake": "with a handshake"}
_ARGUMENTS = dict(pair.split("=") for pair in PATH.partition("?")[2].split("&"))


def keys_and_tokens(stores: Storage) -> tuple[dict[str, str], str]:
    """Return an API key for all scopes and one for `freeze:read`, and the access token of a connected client."""
    with stores.rows() as session:
        organization = session.query(Organization).one()
        member = factories.user(session)
        factories.membership(session, organization, member)
        keys = {
            "all scopes": factories.api_key(session, organization).secret,
            "freeze:read": factories.api_key(session, organization, "freeze:read").secret,
        }
        grant = factories.connection(session, member, organization)
        return keys, issue_grant_token(factories.signer(session), grant, grant.scopes, now=factories.now())


class Client:
    """Sends requests of JSON-RPC to the MCP server of an application."""

    def __init__(self, application: Application, key: str, era: Era = "stateless") -> None:
        self._application = application
        self._authorization = {"authorization": f"Bearer {key}"}
        self._era = era

    async def send(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Return the body of the response to one request, which succeeds."""
        headers, body = request_of(method, params, self._era)
        scope = make_scope("POST", web_addresses.MCP, {**self._authorization, **headers})
        answer = await call_application(self._application, scope, body)
        assert answer.status == 200, answer
        return answer.body

    def request(self, method: str, params: Mapping[str, Any]) -> MeasuredRequest:
        """Return a request that can be sent again and again."""
        return partial(self.send, method, params)


@asynccontextmanager
async def sdk_alone() -> AsyncIterator[Application]:
    """Serve a tool that does nothing, with the SDK alone, set up as in our server."""

    async def call_tool(_request: ServerRequestContext[Any, Any], _params: CallToolRequestParams) -> dict[str, Any]:
        return {"content": [], "isError": False, "resultType": "complete"}

    server: Server[dict[str, Any]] = Server("sdk", get_tool_input_schema=lambda _: {"type": "object"})
    server.middleware.clear()
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    sessions = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    async with sessions.run():
        yield sessions.handle_request


async def compare(stores: Storage, key: str, jwt: str) -> None:
    """Measure in turns, and print the medians."""
    config = make_config(stores)
    keys, token = keys_and_tokens(stores)
    application = make_application(config)
    call = {"name": "svc_get_freeze_state", "arguments": _ARGUMENTS}
    requests = {"HTTP": make_request(application, "GET", PATH, {"authorization": f"Bearer {key}"})}
    for era in ERAS:
        requests[era] = Client(application, key, era).request("tools/call", call)
    lists = {name: Client(application, secret) for name, secret in keys.items()}
    requests |= {name: client.request("tools/list", {}) for name, client in lists.items()}
    reads = Reads(stores.database_url, 2)
    credentials, uses = make_credential_check(reads, config)
    requests["JWT"] = partial(credentials.identify, b"Bearer " + jwt.encode())
    requests["token"] = partial(credentials.identify_mcp_client, b"Bearer " + token.encode())
    async with Lifespan(application), sdk_alone() as sdk:
        requests |= {f"SDK {era}": Client(sdk, key, era).request("tools/call", call) for era in ERAS}
        found = {
            name: statistics.median([(await measure(request, SECONDS)).cpu for _ in range(ROUNDS)])
            for name, request in requests.items()
        }
        sizes = {name: len(await client.send("tools/list", {})) for name, client in lists.items()}
    await uses.close()
    await reads.close()
    report(found, sizes)


def report(found: Mapping[str, float], sizes: Mapping[str, int]) -> None:
    """Print the table, in microseconds of CPU."""
    print(f"MCP ({machine()}; one process, one request after the other)")
    http = found["HTTP"]
    print(f"  GET /v1/freeze-state {http:6.0f} µs of CPU")
    for era, name in NAMES.items():
        cost = found[era]
        print(
            f"  its tool, {name} ({VERSIONS[era]}) {cost:6.0f} µs, {cost / http:.1f} times; "
            f"SDK and gate {cost - http:.0f} µs, the SDK alone {found[f'SDK {era}']:.0f} µs"
        )
    for name, size in sizes.items():
        print(f"  tools/list for {name}: {size / 1000:.0f} KB, {found[name] / 1000:.1f} ms")
    times = found["token"] / found["JWT"]
    print(f"  check of a client's access token {found['token']:.0f} µs, {times:.2f} times that of a JWT")


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        key, jwt = seed(stores), sign_in(stores)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(compare(stores, key, jwt))
