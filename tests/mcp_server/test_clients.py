"""Clients that people use, from their first request to a tool call: with a person's consent, and with a key."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthRegistrationError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.mcp_server.conftest import Product, fake_browser, node_command, reserved_port, running

pytestmark = pytest.mark.check
TOOL = "svc_get_freeze_state"
ARGUMENTS = {"repo": "acme/web", "branch": "main"}
MAX_TRIES = 5
"""Of a call that is refused for the moment: PostgreSQL on a busy machine may be slow to open a connection."""
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a client of the tests", "version": "1"},
}


class TestMcpRemote:
    """The program that connects clients which only start programs: JSON-RPC by lines."""

    def test_tool_is_called_after_consent_of_a_person(self, product: Product, tmp_path: Path) -> None:
        with reserved_port() as port, fake_browser(tmp_path) as browser:
            command = [*self._command(product), str(port), "--client-metadata-url", product.client_id]
            with running(command, environment(tmp_path, BROWSER=str(browser.command))) as process:
                send(process, "initialize", INITIALIZE)
                assert product.approve(browser.opened(), "freeze:read").status_code == 200
                assert result(process)["serverInfo"]["name"] == "change-freeze"
                self._assert_tool_works(process)

    def test_tool_is_called_with_a_key(self, product: Product, tmp_path: Path) -> None:
        command = [*self._command(product), "--header", "Authorization:${KEY}"]
        with running(command, environment(tmp_path, KEY=f"Bearer {product.key}")) as process:
            send(process, "initialize", INITIALIZE)
            assert result(process)["serverInfo"]["name"] == "change-freeze"
            self._assert_tool_works(process)

    def _command(self, product: Product) -> list[str]:
        return [*node_command("mcp-remote/dist/proxy.js"), f"{product.url}/mcp", "--transport", "http-only"]

    def _assert_tool_works(self, process: subprocess.Popen[str]) -> None:
        for _ in range(MAX_TRIES):
            send(process, "tools/call", {"name": TOOL, "arguments": ARGUMENTS})
            called = result(process)
            if "retryAfterSeconds" not in called["content"][0]["text"]:
                break
        assert not called["isError"], called
        assert called["structuredContent"]["frozen"] is False


class TestInspector:
    """The command line of the MCP inspector, which speaks both eras of the protocol."""

    def test_tools_are_listed_without_errors_of_their_schemas(self, product: Product, tmp_path: Path) -> None:
        given = ("--method", "tools/list", "--strict", "--protocol-era", "modern")
        command = [*self._command(product), *given, "--header", f"Authorization: Bearer {product.key}"]
        with running(command, environment(tmp_path)) as process:
            names = [tool["name"] for tool in output(process)["tools"]]
        assert process.returncode == 0
        assert TOOL in names

    def test_tool_is_called_with_a_key(self, product: Product, tmp_path: Path) -> None:
        given = (*self._call(), "--header", f"Authorization: Bearer {product.key}")
        with running([*self._command(product), *given], environment(tmp_path)) as process:
            assert output(process)["structuredContent"]["frozen"] is False

    def test_tool_is_called_after_consent_of_a_person(self, product: Product, tmp_path: Path) -> None:
        with reserved_port() as port, fake_browser(tmp_path) as browser:
            back = ("--callback-url", f"http://127.0.0.1:{port}/oauth/callback")
            command = [*self._command(product), *self._call(), "--client-metadata-url", product.client_id, *back]
            auto = {"MCP_AUTO_OPEN_ENABLED": "true", "BROWSER": str(browser.command)}
            with running(command, environment(tmp_path, **auto)) as process:
                assert product.approve(browser.opened(), "freeze:read").status_code == 200
                assert output(process)["structuredContent"]["frozen"] is False

    def _command(self, product: Product) -> list[str]:
        script = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        return [*node_command(script), "--cli", f"{product.url}/mcp", "--transport", "http", "--quiet"]

    def _call(self) -> list[str]:
        return [
            "--method",
            "tools/call",
            "--tool-name",
            TOOL,
            "--tool-args-json",
            json.dumps(ARGUMENTS),
        ]


class NoStorage:
    """Remembers nothing of a client."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        raise NotImplementedError

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise NotImplementedError


def test_client_without_a_document_shows_how_it_can_connect(product: Product) -> None:
    """That of the Python SDK registers by itself, and shows its person the answer."""
    metadata = OAuthClientMetadata.model_validate({"redirect_uris": ["http://127.0.0.1/callback"]})

    async def connect() -> None:
        provider = OAuthClientProvider(f"{product.url}/mcp", metadata, NoStorage())
        async with (
            httpx2.AsyncClient(auth=provider, timeout=60) as http,
            Client(streamable_http_client(f"{product.url}/mcp", http_client=http)),
        ):
            raise AssertionError("connected")

    matching = pytest.RaisesExc(OAuthRegistrationError, match="(?s)Registration failed: 400.+API key.+mcp-remote")
    with pytest.RaisesGroup(matching, allow_unwrapped=True, flatten_subgroups=True):
        asyncio.run(connect())


def environment(directory: Path, **changes: str) -> dict[str, str]:
    """Return an environment whose settings and tokens are in a directory."""
    return {"PATH": os.environ["PATH"], "HOME": str(directory), "MCP_REMOTE_CONFIG_DIR": str(directory), **changes}


def output(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the JSON that a program prints until it ends."""
    assert process.stdout is not None
    text = process.stdout.read()
    process.wait(10)
    assert text, process.args
    found: dict[str, Any] = json.loads(text)
    return found


def send(process: subprocess.Popen[str], method: str, params: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}) + "\n")
    process.stdin.flush()


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    message = json.loads(process.stdout.readline())
    assert "result" in message, message
    found: dict[str, Any] = message["result"]
    return found
