"""Requests of MCP clients, in both eras of the protocol, as real clients send them."""

from collections.abc import Mapping
from typing import Any, Literal

import orjson

Era = Literal["handshake", "stateless"]
ERAS: tuple[Era, ...] = ("handshake", "stateless")
VERSIONS: Mapping[Era, str] = {"handshake": "2025-06-18", "stateless": "2026-07-28"}
_META = "io.modelcontextprotocol/"


def request_of(
    method: str, params: Mapping[str, Any], era: Era = "stateless", capabilities: Mapping[str, Any] | None = None
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of one request of JSON-RPC, without a credential."""
    media = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers = {**media, "MCP-Protocol-Version": VERSIONS[era]}
    given = dict(params)
    if era == "stateless":
        headers["Mcp-Method"] = method
        if "name" in given:
            headers["Mcp-Name"] = given["name"]
        given["_meta"] = {
            f"{_META}protocolVersion": VERSIONS[era],
            f"{_META}clientCapabilities": dict(capabilities or {}),
        }
    return headers, orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": given})
