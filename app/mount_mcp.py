"""Mounts the MCP server at `{base_url}/mcp`: the request pipeline before it, and behind each of its tools."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from app.edge.authentication import Identity
from app.edge.bodies import read_bytes, require_json
from app.edge.operation import Edge
from app.edge.rate_limits import raise_if_exceeded
from app.edge.request_context import IDENTITY, RequestContext
from mcp_server.server import CALLER, McpServer
from rules import web_addresses
from rules.access.permissions import Principal
from rules.errors import MethodNotAllowedError, ServiceError
from schemas.calls import REQUEST_ID, Application
from schemas.contract import Operation

_METADATA_PATH = f"/.well-known/oauth-protected-resource{web_addresses.MCP}"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(slots=True)
class McpCaller:
    """Who sends a request to the MCP server."""

    edge: Edge
    request: RequestContext
    identity: Identity
    counted: bool = False
    """True if the request has been counted against the rate limits, or its operation does it."""
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

    async def count(self) -> None:
        """Count a request that calls no operation, as a read. Raise `rate_limited` if there were too many."""
        self.counted = True
        raise_if_exceeded(await self.edge.rate_limits.count(self.principal, write=False))

    def envelope(self, error: ServiceError) -> bytes:
        """Return the error envelope of the contract."""
        return self.edge.errors.envelope(error, self.request.request_id).body

    def note_refusal(self, operation: Operation, code: str) -> None:
        """Note the code with which an operation has refused the caller."""
        self.refused = operation, code


class MountedMcp:
    """Serves `/mcp`: checks origin and credential, then passes the request to the MCP server."""

    def __init__(self, edge: Edge, server: McpServer, *, base_url: str, origins: Sequence[str]) -> None:
        self._edge = edge
        self._server = server
        self._origins = origins
        scopes = " ".join(sorted({scope for tool in server.tools.values() for scope in tool.operation.any_scope}))
        self._metadata = f'resource_metadata="{base_url}{_METADATA_PATH}"'
        self._scopes = f'scope="{scopes}"'
        self.lifespan = server.lifespan

    def serves(self, path: str) -> bool:
        """True for the path of the MCP server."""
        return path == web_addresses.MCP

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request."""
        request: RequestContext = scope["request_context"]
        request.operation_id = "mcp"
        if scope["method"] != "POST":  # the SDK would hold a GET open, although nothing is ever sent there
            raise MethodNotAllowedError(scope["method"], "POST")
        self._check_origin(request)
        self._edge.maintenance.check()
        identity = await self._identify(request)
        if identity is None:
            return
        require_json(request)
        body = await read_bytes(request, self._server.max_body)
        if request.is_late:
            identity = await self._identify(request)
            if identity is None:
                return
        caller = McpCaller(self._edge, request, identity)
        if _method_of(body) != "tools/call":
            await caller.count()
        inner = {
            **scope,
            "headers": [
                (name, value.strip() if name.startswith(b"mcp-") else value) for name, value in scope["headers"]
            ],
            REQUEST_ID: request.request_id,
            CALLER: caller,
        }
        await self._server(inner, _Body(body, receive), partial(self._send, caller, send))
        if not caller.counted:  # the SDK has refused the call
            await self._edge.rate_limits.count(caller.principal, write=False)

    async def _identify(self, request: RequestContext) -> Identity | None:
        """Return whose credential a request has; without a valid one, challenge the client and return None."""
        try:
            identity = await self._edge.credentials.identify_mcp_client(request.header(b"authorization"))
        except ServiceError as error:
            self._challenge_client(request, error)
            return None
        request.principal = identity.principal
        return identity

    def _check_origin(self, request: RequestContext) -> None:
        """Raise `origin_not_allowed` for a request by a web page of another origin."""
        origin = request.header(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in self._origins:
            raise ServiceError("origin_not_allowed", "Web pages of other origins cannot use the MCP server.")

    async def _send(self, caller: McpCaller, send: Any, message: dict[str, Any]) -> None:
        """Send a message of a response. One whose tool needs a further scope has status 403, and names all scopes.

        So the client can ask the person for them; the scopes of a key never change.
        """
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


def _method_of(body: bytes) -> str | None:
    """Return the JSON-RPC method of a request; None if it is not valid, which the SDK says."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return message.get("method") if isinstance(message, dict) else None


def mount_mcp(edge: Edge, application: Application, *, base_url: str) -> MountedMcp:
    """Return the MCP server, whose tools call the operations of the application."""
    web_url = edge.uow_factories["identity"].dependencies.web_url
    hosts = [*(urlsplit(url).netloc for url in (base_url, web_url)), *_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)]
    origins = [f"{parts.scheme}://{parts.netloc}".lower() for parts in map(urlsplit, (base_url, web_url))]
    server = McpServer(edge.contract, application, website_url=web_url, hosts=hosts, origins=origins)
    return MountedMcp(edge, server, base_url=base_url, origins=origins)
