"""What a tool call costs beside the same operation over HTTP, and how large the list of tools is.

Measured in process on the real PostgreSQL: `GET /v1/freeze-state` and the tool that calls it, in turns, through the
whole application, in both eras of the protocol. The difference of the two is the SDK's and our gate's. Aims: a tool
call takes at most 3 times the CPU, the list at most 110 KB (25 KB for `freeze:read`), and the check of a client's
access token at most 1.2 times that of a session JWT.
"""

import asyncio
import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
import uvloop
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.config import Config
from app.database import Reads
from app.edge.auth import Credentials
from app.edge.key_uses import KeyUses
from app.edge.token_verification import TokenVerifier
from app.main import Parts, create_app
from models.organizations import Organization
from services.core.clock import DatabaseClock
from services.identity.access_tokens import verify_access_token
from services.identity.oauth.access_tokens import issue_grant_token, verify_grant_token
from tests import factories
from tools.bench.credentials import ROUNDS, Ask, Lifespan, measure, request, scope, tokens
from tools.bench.freeze_state import PATH, seed
from tools.bench.servers import Storage, machine, storage

SECONDS = 1.0
ERAS = {"2026-07-28": "without a handshake", "2025-06-18": "with a handshake"}
_META = "io.modelcontextprotocol/"
_ARGUMENTS = dict(pair.split("=") for pair in PATH.partition("?")[2].split("&"))


class _NoWakeups:
    def send(self, names: set[str]) -> None:
        """Send no wake-ups: nothing is written here."""


def keys_and_tokens(database_url: str) -> tuple[dict[str, str], str]:
    """Return an API key for all scopes and one for `freeze:read`, and the access token of a connected client."""
    engine = create_engine(database_url)
    with Session(engine) as session:
        organization = session.query(Organization).one()
        member = factories.user(session)
        factories.membership(session, organization, member)
        keys = {
            "all scopes": factories.api_key(session, organization).secret,
            "freeze:read": factories.api_key(session, organization, "freeze:read").secret,
        }
        grant = factories.connection(session, member, organization)
        token = issue_grant_token(factories.signer(session), grant, grant.scopes, now=factories.now())
        session.commit()
    engine.dispose()
    return keys, token


class Client:
    """Sends requests of JSON-RPC to the MCP server of an application."""

    def __init__(self, application: Any, key: str, version: str) -> None:
        self._application = application
        self._authorization = b"Bearer " + key.encode()
        self._version = version

    async def send(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Return the body of the response to one request, which succeeds."""
        given = dict(params)
        if self._version >= "2026":
            given["_meta"] = {f"{_META}protocolVersion": self._version, f"{_META}clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
        outgoing = {
            **scope(self._authorization),
            "method": "POST",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
        }
        outgoing["headers"] = [
            *outgoing["headers"],
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            (b"mcp-protocol-version", self._version.encode()),
            (b"mcp-method", method.encode()),
            (b"mcp-name", str(params.get("name", "")).encode()),
        ]
        incoming = iter([{"type": "http.request", "body": orjson.dumps(message), "more_body": False}])
        chunks: list[bytes] = []

        async def receive() -> dict[str, Any]:
            for one in incoming:
                return one
            return await asyncio.Future()

        async def take(message: dict[str, Any]) -> None:
            assert message.get("status", 200) == 200, message
            chunks.append(message.get("body", b""))

        await self._application(outgoing, receive, take)
        return b"".join(chunks)

    def asking(self, method: str, params: Mapping[str, Any]) -> Ask:
        """Return what sends the request."""
        return partial(self.send, method, params)


async def compare(stores: Storage, key: str, jwt: str) -> None:
    """Measure in turns, and print the medians."""
    config = Config(
        database_url=stores.database_url,
        redis_url=stores.redis_url,
        rate_limit_organization=10**9,
        cursor_secret="a secret of the benchmark",  # noqa: S106 - opens nothing
        secret_key="another secret of the benchmark",  # noqa: S106 - the same
    )
    keys, token = keys_and_tokens(stores.database_url)
    application = create_app(config, Parts(wakeups=_NoWakeups(), access_log=False))
    call = {"name": "svc_get_freeze_state", "arguments": _ARGUMENTS}
    asks: dict[str, Ask] = {"HTTP": request(application, b"Bearer " + key.encode())}
    for version in ERAS:
        asks[version] = Client(application, key, version).asking("tools/call", call)
    lists = {name: Client(application, secret, "2026-07-28") for name, secret in keys.items()}
    asks |= {name: client.asking("tools/list", {}) for name, client in lists.items()}
    reads = Reads(stores.database_url, 2)
    uses = KeyUses(reads)
    asks |= checks(reads, uses, config, jwt, token)
    async with Lifespan(application):
        found = {
            name: statistics.median([(await measure(ask, SECONDS)).processor for _ in range(ROUNDS)])
            for name, ask in asks.items()
        }
        sizes = {name: len(await client.send("tools/list", {})) for name, client in lists.items()}
    await uses.close()
    await reads.close()
    report(found, sizes)


def checks(reads: Reads, uses: KeyUses, config: Config, jwt: str, token: str) -> dict[str, Ask]:
    """Return what checks the JWT of a session, and the access token of a connected client."""
    of_sessions = partial(verify_access_token, issuer=config.issuer, audience=config.base_url)
    of_grants = partial(verify_grant_token, issuer=config.issuer, audience=f"{config.base_url}/mcp")
    verifiers = TokenVerifier(reads, of_sessions), TokenVerifier(reads, of_grants)
    credentials = Credentials(reads, *verifiers, DatabaseClock(), web_url=config.web_url, key_uses=uses)
    return {
        "JWT": partial(credentials.identify, b"Bearer " + jwt.encode()),
        "token": partial(credentials.identify_mcp_client, b"Bearer " + token.encode()),
    }


def report(found: Mapping[str, float], sizes: Mapping[str, int]) -> None:
    """Print the table, in microseconds of the processor."""
    print(f"MCP ({machine()}; one process, one request after the other)")
    http = found["HTTP"]
    print(f"  GET /v1/freeze-state {http:6.0f} µs of the processor")
    for version, name in ERAS.items():
        cost = found[version]
        print(
            f"  its tool, {name} ({version}) {cost:6.0f} µs, {cost / http:.1f} times; SDK and gate {cost - http:.0f} µs"
        )
    for name, size in sizes.items():
        print(f"  tools/list for {name}: {size / 1000:.0f} KB, {found[name] / 1000:.1f} ms")
    times = found["token"] / found["JWT"]
    print(f"  check of a client's access token {found['token']:.0f} µs, {times:.2f} times that of a JWT")


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        key = seed(stores.database_url)
        [jwt] = tokens(stores.database_url, 1)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(compare(stores, key, jwt))


if __name__ == "__main__":
    main()
