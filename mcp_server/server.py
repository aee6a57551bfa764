"""The protocol, as the SDK speaks it: streamable HTTP without sessions, one JSON response to each request.

The SDK serves the revisions with a handshake (up to 2025-11-25) and the one without (2026-07-28). The request has been
authenticated before: `scope["change_freeze.mcp"]` has its caller.
"""

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import mcp_types as types
import orjson
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mcp_server.input_schemas import CONFIRM
from mcp_server.listing import listed
from mcp_server.output_schemas import DONE
from mcp_server.tools import Tool, tools_of
from rules.access.permissions import Principal
from rules.errors import Detail, ServiceError
from schemas.calls import Answer, Application, call_application, call_scope
from schemas.contract import Contract, Operation

CALLER = "change_freeze.mcp"
"""The key of the caller in the scope of a request."""
MAX_BODY = 1 << 16
"""Bytes of a request, which is read on the event loop."""
LIST_LIFETIME_MS = 300_000
"""How long a client may keep the list of tools."""
_WITHOUT_HANDSHAKE = "2026-07-28"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_COMPLETE = {"resultType": "complete"}
"""What a result says from 2026-07-28 on; the SDK leaves it out for older clients."""
_PASSED_ON = frozenset({b"user-agent", b"traceparent", b"tracestate"})
_INSTRUCTIONS = (
    "Freezes and thaws merging on branches of GitHub repositories. Preview a scope before you freeze it, and say how "
    "many repositories it covers. End or override a freeze only when the person requests it. Repositories are "
    "named owner/name. Times in results are in UTC; those in arguments may have any offset. Each result, also of a "
    "refusal, has a clock: the time now, and the organisation's time zone with its local time and weekday. Read it, "
    "such as with svc_get_overview, before you work out a date. Lists have pages: pass nextCursor as cursor. A call "
    "that is repeated with the same idempotencyKey takes effect once. What several tools take is described by the "
    "first of them."
)
_FAILED = "Something went wrong on our side. Before you retry, read what the call was to change."
logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]
logging.getLogger("mcp").setLevel(logging.WARNING)  # it would log two lines for each request


class Caller(Protocol):
    """Who sends a request, and what the request pipeline does for it."""

    @property
    def principal(self) -> Principal:
        """The principal of the credential."""

    def authenticate(self, scope: dict[str, Any]) -> None:
        """Let a call of an operation act for the caller."""

    async def clock(self) -> Mapping[str, str]:
        """Return the time of the request, and what clocks of the organisation show then. Raise a ServiceError."""

    async def count(self) -> None:
        """Count a request that calls no operation. Raise `rate_limited` if there were too many."""

    def envelope(self, error: ServiceError) -> bytes:
        """Return the error envelope of the contract."""

    def note_refusal(self, operation: Operation, code: str) -> None:
        """Note the code with which an operation has refused the caller."""

    def note_limits(self, answer: Answer) -> None:
        """Note what an operation has left of the caller's rate limits."""


class McpServer:
    """Serves the tools of a contract, whose operations it calls in `application`."""

    def __init__(
        self,
        contract: Contract,
        application: Application,
        *,
        website_url: str,
        hosts: Sequence[str],
        origins: Sequence[str],
    ) -> None:
        """Make the tools. A request is served only for one of `hosts`, and from a web page only of one of `origins`."""
        self.tools = tools_of(contract)
        self._application = application
        self._security = TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins))
        self._sessions: StreamableHTTPSessionManager | None = None
        self._server: Server[dict[str, Any]] = Server(
            "change-freeze",
            version=contract.document["info"]["version"],
            title="Change-Freeze Service",
            instructions=_INSTRUCTIONS,
            website_url=website_url,
            cache_hints={"tools/list": CacheHint(ttl_ms=LIST_LIFETIME_MS, scope="private")},
            get_tool_input_schema=self._input_schema,
        )
        self._server.middleware[:] = [_refuse_unexpected]  # not the SDK's tracing: there is no exporter for it
        self._server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        self._server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve requests until the end of the process."""
        sessions = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            security_settings=self._security,
            max_request_body_size=MAX_BODY,
        )
        async with sessions.run():
            self._sessions = sessions
            yield
            self._sessions = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request, whose scope has its caller."""
        if self._sessions is None:
            raise RuntimeError("the MCP server has not been started")
        await self._sessions.handle_request(scope, receive, send)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool. Without this function the SDK would list all tools to find it."""
        tool = self.tools.get(name)
        return tool.input_schema if tool else None

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        if params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Unknown cursor: the list has one page")
        principal = _caller_of(context).principal
        visible = [tool for tool in self.tools.values() if tool.is_visible_to(principal)]
        return {"tools": listed(tool.declaration for tool in visible), **_COMPLETE}

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> dict[str, Any] | types.InputRequiredResult:
        caller = _caller_of(context)
        tool = self.tools.get(params.name)
        given = params.arguments or {}
        clock: Mapping[str, str] = {}
        try:
            if tool is None:
                await caller.count()
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
            clock = await caller.clock()
            if tool.confirms and given.get(CONFIRM) is not True and not _is_confirmed(context, params):
                await caller.count()
                return _request_confirmation(context, params, tool)
            answer = await self._call_operation(context, tool, given)
        except ServiceError as error:
            return _error_result(caller.envelope(error), clock, retry_after=error.retry_after)
        caller.note_limits(answer)
        if answer.status >= 400:
            caller.note_refusal(tool.operation, answer.content["error"]["code"])
            return _error_result(answer.body, clock, retry_after=answer.header(b"retry-after"))
        return _success_result(answer, clock)

    async def _call_operation(self, context: Context, tool: Tool, given: Mapping[str, Any]) -> Answer:
        caller = _caller_of(context)
        try:
            arguments = tool.arguments(given)
        except ServiceError:
            await caller.count()
            raise
        outer = _scope_of(context)
        headers = [(name, value) for name, value in outer["headers"] if name in _PASSED_ON]
        if arguments.body:
            headers.append((b"content-type", b"application/json"))
        if arguments.idempotency_key is not None:
            headers.append((b"idempotency-key", arguments.idempotency_key.encode("utf-8", "surrogatepass")))
        scope = call_scope(
            "mcp", outer, tool.operation, headers, path_params=arguments.path_params, query=arguments.query
        )
        caller.authenticate(scope)
        return await call_application(self._application, scope, arguments.body)


def _scope_of(context: Context) -> dict[str, Any]:
    """Return the ASGI scope of the HTTP request."""
    assert context.request is not None, "only requests over HTTP are served"
    scope: dict[str, Any] = context.request.scope
    return scope


def _caller_of(context: Context) -> Caller:
    caller: Caller = _scope_of(context)[CALLER]
    return caller


def _is_confirmed(context: Context, params: types.CallToolRequestParams) -> bool:
    """True if the person has confirmed this call, with these arguments, in the form of their client.

    Revisions with a handshake have no such form.
    """
    if context.protocol_version < _WITHOUT_HANDSHAKE or params.request_state != _digest(params):
        return False
    given = (params.input_responses or {}).get(CONFIRM)
    if not isinstance(given, types.ElicitResult) or given.action != "accept":
        return False
    return (given.content or {}).get(CONFIRM) is True


def _digest(params: types.CallToolRequestParams) -> str:
    """Return what a tool and its arguments have in common with a repeated call alone."""
    call = json.dumps([params.name, params.arguments or {}], sort_keys=True)
    return hashlib.sha256(call.encode()).hexdigest()


def _request_confirmation(
    context: Context, params: types.CallToolRequestParams, tool: Tool
) -> types.InputRequiredResult:
    """Return the result with which the client shows the person a form.

    Raise `missing_parameter` if the client cannot do that, or if the person has seen the form and did not confirm.
    """
    answered = params.request_state == _digest(params)
    shown = answered and CONFIRM in (params.input_responses or {})
    capabilities: Any = (context.meta or {}).get(_CAPABILITIES) or {}
    if not shown and context.protocol_version >= _WITHOUT_HANDSHAKE and "elicitation" in capabilities:
        arguments = ", ".join(f"{name} {value}" for name, value in (params.arguments or {}).items())
        form = types.ElicitRequestFormParams(
            message=f"{tool.title}: {arguments}",
            requested_schema={
                "type": "object",
                "properties": {CONFIRM: {"type": "boolean", "title": "Yes, do it", "default": False}},
                "required": [CONFIRM],
            },
        )
        return types.InputRequiredResult(
            input_requests={CONFIRM: types.ElicitRequest(params=form)}, request_state=_digest(params)
        )
    message = (
        "The person did not confirm. Nothing was changed."
        if shown
        else "This cannot be undone. Ask the person, then call the tool again with confirm: true."
    )
    raise ServiceError("missing_parameter", message, details=(Detail(CONFIRM, message, "missing_parameter"),))


def _success_result(answer: Answer, clock: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of a call: the same as text and structured, because some clients show one, some the other."""
    content = {"clock": clock, **(answer.content if answer.body else {DONE: True})}
    text = orjson.dumps(content).decode()
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": content,
        "isError": False,
        **_COMPLETE,
    }


def _error_result(envelope: bytes, clock: Mapping[str, str], *, retry_after: float | str | None) -> dict[str, Any]:
    """Return the result of a call that was refused, with the error envelope of the contract as its text."""
    error = orjson.loads(envelope)["error"]
    if retry_after is not None:
        error["retryAfterSeconds"] = int(retry_after)
    text = orjson.dumps({"error": error, **({"clock": clock} if clock else {})}).decode()
    return {"content": [{"type": "text", "text": text}], "isError": True, **_COMPLETE}


async def _refuse_unexpected(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Handle a request. An exception that nobody expects is logged; the SDK would send what the exception says."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception:
        logger.exception("request of an MCP client failed: %s", ctx.method)
        raise MCPError(types.INTERNAL_ERROR, _FAILED) from None
