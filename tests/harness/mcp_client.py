"""A client of the MCP server, in both eras of the protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import jsonschema_rs
import orjson

from mcp_server.tools import tools_of
from rules import web_addresses
from schemas.contract import load_contract
from tests.handlers.callers import Caller
from tools.mcp_requests import Era, request_of

_RESULTS = {
    tool.name: jsonschema_rs.Draft202012Validator(tool.declaration["outputSchema"])
    for tool in tools_of(load_contract()).values()
}
"""By tool, what its results have to be."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool."""

    is_error: bool
    text: str
    structured: Any = None
    response: httpx.Response | None = field(default=None, repr=False)

    @property
    def error(self) -> dict[str, Any]:
        """The error of a refusal, as in the envelope of the API."""
        assert self.is_error, self.text
        found: dict[str, Any] = orjson.loads(self.text)["error"]
        return found

    @property
    def code(self) -> str | None:
        """The code of a refusal, None for a success."""
        return self.error["code"] if self.is_error else None


@dataclass(frozen=True, slots=True)
class McpClient:
    """Calls the tools with the credential of a caller."""

    caller: Caller
    era: Era = "stateless"
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    def send(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> httpx.Response:
        """Send one request of JSON-RPC."""
        sent, body = request_of(method, params or {}, self.era, self.capabilities)
        return self.caller.send("POST", web_addresses.MCP, content=body, headers=sent | headers)

    def request(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """Return the result of a request that succeeds."""
        response = self.send(method, params, **headers)
        content = response.json()
        assert "result" in content, response.text
        result: dict[str, Any] = content["result"]
        return result

    def tools(self) -> dict[str, dict[str, Any]]:
        """Return the listed tools by name."""
        return {tool["name"]: tool for tool in self.request("tools/list")["tools"]}

    def call(self, tool: str, **arguments: Any) -> Result:
        """Call a tool."""
        response = self.send("tools/call", {"name": tool, "arguments": arguments})
        content = response.json()
        assert "result" in content, response.text
        result = content["result"]
        if not result["isError"]:
            _RESULTS[tool].validate(result["structuredContent"])
        return Result(result["isError"], result["content"][0]["text"], result.get("structuredContent"), response)


def refusal_of(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON-RPC error of a response."""
    error: dict[str, Any] = response.json()["error"]
    return error
