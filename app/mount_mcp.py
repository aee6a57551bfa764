"""Mounts the MCP server at `{base_url}/mcp`: the request pipeline before it, and behind each of its tools.

Clients without a client id metadata document register at `/register`: they are told there how they can connect.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import orjson
import psycopg

from app.edge.authentication import Identity
from app.edge.bodies import read_bytes, require_json
from app.edge.errors import JSON
from app.edge.operation import Edge
from app.edge.rate_limits import raise_if_exceeded
from app.edge.request_context import IDENTITY, Reply, RequestContext, budget_headers
from mcp_server.messages import read_message
from mcp_server.server import CALLER, MAX_BODY, McpServer
from rules import web_addresses
from rules.access.organization_settings import OrganizationSettings
from rules.access.permissions import Principal
from rules.errors import MethodNotAllowedError, ServiceError
from rules.web_addresses import WebOrigin
from schemas.calls import REQUEST_ID, Answer, Application
from schemas.contract import Operation

_METADATA_PATH = f"/.well-known/oauth-protected-resource{web_addresses.MCP}"
_NO_MESSAGE = orjson.dumps(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": "The body must be one request or notification of JSON-RPC 2.0."},
    }
)
_SETTINGS = "SELECT settings FROM organizations WHERE id = %s"
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NO_REGISTRATION = orjson.dumps(
    {
        "error": "invalid_client_metadata",
        "error_description": (
            "This service does not register clients. Ways to connect: (1) an API key in the header "
            "'Authorization: Bearer svc_live_...'; (2) a client that has a client id metadata document, whose https "
            "address some clients take as --client-metadata-url; (3) for other clients, the program mcp-remote with "
            "--header or --client-metadata-url."
        ),
    }
)
"""An error of RFC 7591, 3.2.2. Clients send it to their person, as they received it."""
_PORT = re.compile(r":[0-9]+\Z")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(slots=True)
class McpCaller:
    """Who sends a request to the MCP server."""

    edge: Edge
    request: RequestContext
    identity: Identity
    counted: bool = False
    """True if the request has been counted against the rate limits, or its operation does it."""
    limits: list[tuple[bytes, bytes]] = field(default_factory=list)
    """The headers of the operation that has counted the request."""
    refused: tuple[Operation, str] | None = None
    """The operation that has refused the caller, and the code."""

    @property
    def principal(self) -> Principal:
        """The principal of the credential."""
        return self.identity.principal

    def authenticate(self, scope: dict[str, Any]) -> None:
        """Let a call of an operation act for the caller, whose credential has just been checked."""
        scope[IDENTITY] = self.identity
        self.counted = True

    async def clock(self) -> dict[str, str]:
        """Return the time of the request, and what clocks of the organisation show then.

        Raise `database_unavailable` or `busy`.
        """
        organization_id = self.principal.organization_id
        try:
            rows = await self.edge.reader.fetch(_SETTINGS, (organization_id,), organization_id)
        except psycopg.Error as error:
            raise self.edge.errors.to_service_error(error, self.request) from None
        zone = OrganizationSettings.from_json(rows[0]["settings"] if rows else {}).timezone
        local = self.identity.now.astimezone(ZoneInfo(zone)).replace(microsecond=0)
        return {
            "now": local.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "timezone": zone,
            "localTime": local.isoformat(),
            "weekday": _WEEKDAYS[local.weekday()],
        }

    async def count(self, *, refuse: bool = True) -> None:
        """Count a request that calls no operation, as a read. Raise `rate_limited` if there were too many."""
        self.counted = True
        self.request.budget = await self.edge.rate_limits.count(self.principal, write=False)
        if refuse:
            raise_if_exceeded(self.request.budget)

    def limit_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that say what is left of the rate limits."""
        budget = self.request.budget
        return self.limits if budget is None else budget_headers(budget)

    def note_limits(self, answer: Answer) -> None:
        """Note what an operation has left of the rate limits."""
        self.limits = [header for header in answer.headers if header[0].startswith(b"ratelimit-")]

    def envelope(self, error: ServiceError) -> bytes:
        """Return the error envelope of the contract."""
        return self.edge.errors.envelope(error, self.request.request_id).body

    def note_refusal(self, operation: Operation, code: str) -> None:
        """Note the code with which an operation has refused the caller."""
        self.refused = operation, code


class MountedMcp:
    """Serves `/mcp`: checks origin and credential, then passes the request to the MCP server."""

    def __init__(
        self, edge: Edge, server: McpServer, *, base_url: str, hosts: Sequence[str], origins: Sequence[str]
    ) -> None:
        self._edge = edge
        self._server = server
        self._hosts = hosts
        self._origins = origins
        scopes = " ".join(sorted({scope for tool in server.tools.values() for scope in tool.operation.any_scope}))
        self._metadata = f'resource_metadata="{base_url}{_METADATA_PATH}"'
        self._scopes = f'scope="{scopes}"'
        self.lifespan = server.lifespan

    def serves(self, path: str) -> bool:
        """True for the path of the MCP server, and for the one at which clients register that know no other way."""
        return path in {web_addresses.MCP, web_addresses.REGISTER_CLIENT}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request."""
        request: RequestContext = scope["request_context"]
        request.operation_id = "mcp"
        if scope["path"] == web_addresses.REGISTER_CLIENT:
            _refuse_registration(request)
            return
        self._check_host(request)
        self._check_origin(request)
        self._edge.maintenance.check()
        identity = await self._identify(request)
        if identity is None:
            return
        caller = McpCaller(self._edge, request, identity)
        if scope["method"] != "POST":  # the SDK would hold a GET open, although nothing is ever sent there
            await caller.count()
            raise MethodNotAllowedError(scope["method"], "POST")
        require_json(request)
        body = await read_bytes(request, MAX_BODY)
        if request.is_late:
            identity = await self._identify(request)
            if identity is None:
                return
            caller.identity = identity
        message = read_message(body)
        if message is None or message["method"] != "tools/call":
            await caller.count()
        if message is None:
            request.reply = Reply(400, [JSON], _NO_MESSAGE)
            return
        inner = {
            **scope,
            "headers": [
                (name, value.strip() if name.startswith(b"mcp-") else value) for name, value in scope["headers"]
            ],
            REQUEST_ID: request.request_id,
            CALLER: caller,
        }
        await self._server(inner, _Body(body, receive), partial(self._send, caller, send))

    async def _identify(self, request: RequestContext) -> Identity | None:
        """Return whose credential a request has; without a valid one, challenge the client and return None."""
        try:
            identity = await self._edge.credentials.identify_mcp_client(request.header(b"authorization"))
        except ServiceError as error:
            self._challenge_client(request, error)
            return None
        request.principal = identity.principal
        if identity.organization_deleted:
            raise ServiceError("organization_deleted", "The organisation has been deleted.")
        return identity

    def _check_host(self, request: RequestContext) -> None:
        """Raise `misdirected_request` for a host that is not this server's."""
        host = (request.header(b"host") or b"").decode("latin-1")
        name = host.rpartition(":")[0] if _PORT.search(host) else host
        if host not in self._hosts and name not in _LOOPBACK:
            raise ServiceError("misdirected_request", "The MCP server is not at this host.")

    def _check_origin(self, request: RequestContext) -> None:
        """Raise `origin_not_allowed` for a request by a web page of another origin."""
        origin = request.header(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in self._origins:
            raise ServiceError("origin_not_allowed", "Web pages of other origins cannot use the MCP server.")

    async def _send(self, caller: McpCaller, send: Any, message: dict[str, Any]) -> None:
        """Send a message of a response, with what is left of the rate limits.

        One whose tool needs a further scope has status 403, and names all scopes. So the client can ask the person for
        them; the scopes of a key never change.
        """
        if message["type"] == "http.response.start":
            if not caller.counted:  # the SDK has refused the call
                await caller.count(refuse=False)
            message = {**message, "headers": [*message["headers"], *caller.limit_headers()]}
        if message["type"] == "http.response.start" and caller.principal.kind != "api_key" and caller.refused:
            operation, code = caller.refused
            if code == "insufficient_scope":
                scopes = " ".join(sorted({*caller.principal.scopes, operation.any_scope[0]}))
                challenge = f'Bearer error="insufficient_scope", scope="{scopes}", {self._metadata}'
                headers = [*message["headers"], (b"www-authenticate", challenge.encode())]
                message = {**message, "status": 403, "headers": headers}
        await send(message)

    def _challenge_client(self, request: RequestContext, error: ServiceError) -> None:
        """Answer that a credential is needed, and where a client gets one."""
        reply = self._edge.errors.reply(error, request)
        given = "" if error.code == "missing_credentials" else 'error="invalid_token", '
        challenge = (b"www-authenticate", f"Bearer {given}{self._metadata}, {self._scopes}".encode())
        reply.headers = [*(header for header in reply.headers if header[0] != challenge[0]), challenge]
        request.reply = reply


def _refuse_registration(request: RequestContext) -> None:
    """Answer a client that would register. Raise MethodNotAllowedError for another method than POST."""
    if request.scope["method"] != "POST":
        raise MethodNotAllowedError(request.scope["method"], "POST")
    request.reply = Reply(400, [JSON, (b"access-control-allow-origin", b"*")], _NO_REGISTRATION)


@dataclass(slots=True)
class _Body:
    """Gives a body that has been read once more, and then what follows it."""

    body: bytes
    receive: Any
    given: bool = field(default=False)

    async def __call__(self) -> Any:
        if self.given:
            return await self.receive()
        self.given = True
        return {"type": "http.request", "body": self.body, "more_body": False}


def mount_mcp(edge: Edge, application: Application, *, base_url: str) -> MountedMcp:
    """Return the MCP server, whose tools call the operations of the application."""
    web_url = edge.uow_factories["identity"].ports[WebOrigin].url
    hosts = [*(urlsplit(url).netloc for url in (base_url, web_url)), *_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)]
    origins = [f"{parts.scheme}://{parts.netloc}".lower() for parts in map(urlsplit, (base_url, web_url))]
    server = McpServer(edge.contract, application, website_url=web_url, hosts=hosts, origins=origins)
    return MountedMcp(edge, server, base_url=base_url, hosts=hosts, origins=origins)
