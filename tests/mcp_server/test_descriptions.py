"""What agents read of the tools: it speaks of tools, arguments and error codes, not of the requests behind them."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from mcp_server.listing import listed
from mcp_server.tools import Tool, tools_of
from schemas.contract import load_contract

CONTRACT = load_contract()
TOOLS = tools_of(CONTRACT)
END_AND_START = [TOOLS[name].declaration for name in ("svc_end_freezes", "svc_start_freeze")]
each_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)

METHODS = r"\b(?:GET|HEAD|POST|PUT|PATCH|DELETE|HTTP)\b"
STATUSES = r"\b[1-5]\d\d\b(?! (?:days|characters|occurrences|schedules))"
HEADERS = r"\bETags?\b|\bAuthorization\b|\bRetry-After\b|\bIdempotency-Key\b|\bIf-[A-Z]|\b[Hh]eaders?\b"
PLACES = r"/v1\b|/api/|/oauth/|%2F|percent-encoded|\bquery\b|\bbody\b"
SPEAKS_HTTP = re.compile(f"{METHODS}|{STATUSES}|{HEADERS}|{PLACES}")


def texts(node: Any) -> Iterator[str]:
    """Yield every description in a declaration."""
    if isinstance(node, dict):
        if isinstance(node.get("description"), str):
            yield node["description"]
        for value in node.values():
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


@each_tool
def test_description_of_a_tool_does_not_speak_http(tool: Tool) -> None:
    assert [text for text in texts(tool.declaration) if SPEAKS_HTTP.search(text)] == []


@pytest.mark.parametrize(
    "text", ["the response is 409 `not_frozen`", "use `POST /v1/x`", "Send its `ETag`", "The body is optional", "%2F"]
)
def test_text_that_speaks_http_is_found(text: str) -> None:
    assert SPEAKS_HTTP.search(text)


class TestList:
    """What the list of tools leaves out, because another tool of the same list has it."""

    def test_repeated_argument_is_described_by_the_first_tool(self) -> None:
        tools = {tool["name"]: tool for tool in listed([TOOLS["svc_preview_scope"].declaration, *END_AND_START])}
        scopes = [tool["inputSchema"]["properties"]["scope"] for tool in tools.values()]
        assert [scope["description"] for scope in scopes[1:]] == ["As in svc_preview_scope."] * 2
        for scope in scopes[1:]:
            assert scope["properties"].keys() == scopes[0]["properties"].keys()
            assert scope["properties"]["type"]["enum"] == scopes[0]["properties"]["type"]["enum"]
            assert scope["required"] == ["type"]

    def test_repeated_result_is_described_by_the_first_tool(self) -> None:
        first, second = listed([TOOLS[name].declaration for name in ("svc_list_exception_rules", "svc_list_freezes")])
        assert first["outputSchema"]["properties"] == {"data": {"type": "array"}}
        assert "outputSchema" not in second

    def test_first_tool_of_any_list_describes_its_arguments(self) -> None:
        """A caller sees the tools that it may call, and no reference to another."""
        [alone] = listed([TOOLS["svc_end_freezes"].declaration])
        assert alone == TOOLS["svc_end_freezes"].declaration

    def test_confirmation_is_described_by_every_tool(self) -> None:
        for tool in listed(tool.declaration for tool in TOOLS.values() if tool.confirms):
            assert "Ask the person first" in tool["inputSchema"]["properties"]["confirm"]["description"]

    def test_listed_tools_take_the_arguments_of_the_whole_ones(self) -> None:
        for tool in listed(tool.declaration for tool in TOOLS.values()):
            whole = TOOLS[tool["name"]].input_schema
            assert tool["inputSchema"]["properties"].keys() == whole["properties"].keys()
            assert tool["inputSchema"].get("required") == whole.get("required")


class TestOutputSchemas:
    @each_tool
    def test_examples_of_the_operation_are_results_of_its_tool(self, tool: Tool) -> None:
        raw = CONTRACT.document["paths"][tool.operation.path][tool.operation.method.lower()]
        validator = jsonschema_rs.Draft202012Validator(tool.declaration["outputSchema"])
        for status, response in raw["responses"].items():
            content = CONTRACT.resolve(response).get("content", {}).get("application/json", {})
            if status.startswith("2"):
                for example in content.get("examples", {}).values():
                    validator.validate(CONTRACT.resolve(example)["value"])

    @each_tool
    def test_schema_of_a_result_is_open_and_says_something(self, tool: Tool) -> None:
        schema = tool.declaration["outputSchema"]
        assert schema["type"] == "object"
        assert schema["properties"]
        assert "additionalProperties" not in schema
        assert "clock" not in schema["properties"], "that every result has, whatever its operation answers"
