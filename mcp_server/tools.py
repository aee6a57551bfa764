"""The tools: one for each operation of the contract that has an `x-mcp-tool`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from mcp_server.conversion import first_paragraph
from mcp_server.input_schemas import CONFIRM, IDEMPOTENCY_KEY, body_properties, input_schema
from mcp_server.output_schemas import output_schema
from rules.access.permissions import Principal, Role, role_reaches, scopes_reach
from rules.errors import Detail, ServiceError
from schemas.contract import Contract, Operation


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call, as its operation takes them."""

    path_params: Mapping[str, str]
    query: Mapping[str, Any]
    body: bytes
    idempotency_key: str | None


class Tool:
    """One tool."""

    def __init__(self, contract: Contract, operation: Operation) -> None:
        raw = contract.document["paths"][operation.path][operation.method.lower()]
        self.operation = operation
        self.name: str = raw["x-mcp-tool"]
        self.title: str = raw["summary"]
        self.confirms = operation.mcp_confirm is True
        """True if it refuses to do anything without `confirm: true`."""
        self.input_schema = input_schema(contract, operation, confirms=self.confirms)
        self.declaration = {
            "name": self.name,
            "title": self.title,
            "description": first_paragraph(raw["description"]),
            "inputSchema": self.input_schema,
            "outputSchema": output_schema(contract, operation),
            "annotations": self._annotations(),
        }
        self._takes_body = bool(body_properties(contract, operation))
        self._path = [parameter.name for parameter in operation.parameters if parameter.location == "path"]
        self._query = {parameter.name for parameter in operation.parameters if parameter.location == "query"}

    def _annotations(self) -> dict[str, Any]:
        """Return the hints that are not as the protocol has them by default."""
        if self.operation.effect == "read":
            return {"readOnlyHint": True, "openWorldHint": False}
        destructive = self.operation.mcp_confirm is not None
        repeatable = {"idempotentHint": True} if destructive else {}
        return {"destructiveHint": destructive, **repeatable, "openWorldHint": False}

    def is_visible_to(self, principal: Principal) -> bool:
        """True if the tool is listed: a key sees the tools of its scopes, a client those of its person's role.

        A client sees tools that need other scopes as well: their refusal tells it which to request.
        """
        if principal.kind == "api_key":
            return self.operation.accepts("ApiKey") and scopes_reach(principal.scopes, self.operation.any_scope)
        least = cast("Role", self.operation.least_role)
        return self.operation.accepts("Session") and role_reaches(principal.role, least)

    def arguments(self, given: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a call, by where the operation takes them; it validates them itself.

        Unknown arguments go into the body, or into the query if there is no body, and are refused there. Raise
        `missing_parameter` without a parameter of the path.
        """
        rest = {name: value for name, value in given.items() if not (self.confirms and name == CONFIRM)}
        key = rest.pop(IDEMPOTENCY_KEY, None) if self.operation.effect == "write" else None
        if missing := [name for name in self._path if not rest.get(name)]:
            details = tuple(Detail(name, f"{name} is required", "missing_parameter") for name in missing)
            raise ServiceError("missing_parameter", f"{missing[0]} is required", details=details)
        path_params = {name: _text(rest.pop(name)) for name in self._path}
        in_query = [name for name in rest if name in self._query or not self._takes_body]
        query = {name: _query_value(value) for name in in_query if (value := rest.pop(name)) is not None}
        body = json.dumps(rest).encode() if self._takes_body and (rest or self.operation.body_required) else b""
        return Arguments(path_params, query, body, None if key is None else _text(key))


def tools_of(contract: Contract) -> dict[str, Tool]:
    """Return all tools by name, sorted."""
    tools = [Tool(contract, operation) for operation in contract.operations.values() if operation.mcp_tool]
    return {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}


def _text(value: Any) -> str:
    """Return an argument as the text that stands in an address."""
    return value if isinstance(value, str) else json.dumps(value)


def _query_value(value: Any) -> str | list[str]:
    return [_text(item) for item in value] if isinstance(value, list) else _text(value)
