"""A real client, that of the Python SDK: with and without a handshake, with a key or connected, and with a person."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from models.freezes import Freeze
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant

Mode = Literal["auto", "legacy"]
each_mode = pytest.mark.parametrize("mode", ["auto", "legacy"])


def run(served: str, caller: Caller, use: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Connect a client with the credential of a caller, and use it."""

    async def connect() -> None:
        headers = {"Authorization": f"Bearer {caller.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{served}/mcp", http_client=http), **options) as client,
        ):
            await use(client)

    asyncio.run(connect())


def text_of(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


@each_mode
def test_client_lists_tools_and_calls_them(served: str, acme: Tenant, mode: Mode) -> None:
    factories.branch(acme.session, acme.repository("web"))

    async def use(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "svc_start_freeze" in tools
        assert tools["svc_end_freeze"].annotations is not None
        assert tools["svc_end_freeze"].annotations.destructive_hint is True
        started = await client.call_tool("svc_start_freeze", dict(EVERYTHING))
        assert not started.is_error
        state = await client.call_tool("svc_get_freeze_state", {"repo": "acme/web", "branch": "main"})
        assert state.structured_content is not None
        assert state.structured_content["frozen"] is True
        refused = await client.call_tool("svc_end_freeze", {"freezeId": started.structured_content["id"]})
        assert refused.is_error
        assert "confirm: true" in text_of(refused)

    run(served, acme.key(), use, mode=mode)


@pytest.mark.parametrize(("answer", "state"), [(True, "ended"), (False, "in_force")])
def test_client_shows_its_person_the_form(served: str, acme: Tenant, answer: bool, state: str) -> None:
    freeze: Freeze = factories.freeze(
        acme.session, acme.organization, [factories.branch(acme.session, acme.repository("web"))]
    )
    shown: list[str] = []

    async def ask(_: Any, form: Any) -> types.ElicitResult:
        shown.append(form.message)
        return types.ElicitResult(action="accept", content={"confirm": answer})

    async def use(client: Client) -> None:
        result = await client.call_tool("svc_end_freeze", {"freezeId": freeze.id})
        assert result.is_error is not answer

    run(served, acme.key(), use, elicitation_callback=ask)
    [message] = shown
    assert freeze.id in message
    assert acme.key().get(f"/v1/freezes/{freeze.id}").json()["state"] == state


def test_connected_client_calls_a_tool(served: str, acme: Tenant) -> None:
    async def use(client: Client) -> None:
        assert not (await client.call_tool("svc_list_freezes", {})).is_error

    run(served, acme.connected("viewer", "freeze:read"), use)
