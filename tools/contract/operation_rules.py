"""Rules on one operation: its names, its policies, its parameters and its responses."""

import re
from collections.abc import Iterator

from rules.audit.actions import ACTIONS
from tools.contract.derivation import template_names
from tools.contract.document import Operation, Problem
from tools.contract.vocabulary import OPERATION_VALUES, SNAKE_CASE

_MCP_TOOL = re.compile(r"svc_[a-z][a-z0-9_]*")


def required(operation: Operation) -> Iterator[Problem]:
    """Require an operationId that is a name of a Python function, texts, and an effect.

    The effect, read or write, decides idempotency, budgets, support sessions and audit.
    """
    for name in ("operationId", "summary", "description", "x-effect"):
        if not operation.raw.get(name):
            yield operation.problem(f"has no {name}")
    if operation.id and not SNAKE_CASE.fullmatch(operation.id):
        yield operation.problem("its operationId is not snake_case", "operationId")


def security(operation: Operation) -> Iterator[Problem]:
    """Require explicit credentials, `[]` for none, whose schemes and scopes exist."""
    if "security" not in operation.raw:
        yield operation.problem("has no security; write [] if no credential is needed")
    schemes = operation.document.root.get("components", {}).get("securitySchemes", {})
    for alternative in operation.raw.get("security", ()):
        for name, scopes in alternative.items():
            known = schemes.get(name, {}).get("x-scopes", {})
            if name not in schemes:
                yield operation.problem(f"its security scheme {name} does not exist", "security")
            elif known and not scopes:
                yield operation.problem(f"{name} names no scope", "security")
            for scope in scopes:
                if scope not in known:
                    yield operation.problem(f"its scope {scope} is not one of the x-scopes of {name}", "security")


def audit(operation: Operation) -> Iterator[Problem]:
    """Require that every write names the audit actions of its success, which are in the vocabulary."""
    if operation.writes != ("x-audit" in operation.raw):
        yield operation.problem("writes and has no x-audit" if operation.writes else "only reads and has an x-audit")
    for action in operation.raw.get("x-audit", ()):
        if action not in ACTIONS:
            yield operation.problem(f"its x-audit {action} is not in rules/audit/actions.py", "x-audit")


def policy_values(operation: Operation) -> Iterator[Problem]:
    """Require that an extension has one of its known values."""
    for key, values in OPERATION_VALUES.items():
        if key in operation.raw and operation.raw[key] not in values:
            yield operation.problem(f"{key} must be one of {', '.join(values)}", key)
    limit = operation.raw.get("x-body-limit", 1)
    if not isinstance(limit, int) or limit < 1:
        yield operation.problem("x-body-limit must be a number of bytes", "x-body-limit")


def rate_limit(operation: Operation) -> Iterator[Problem]:
    """Require that a rate limit of its own is of an operation without credentials, and names a path parameter."""
    limit = operation.raw.get("x-rate-limit")
    if limit is None:
        return
    known = isinstance(limit, dict) and limit.get("parameter") in template_names(operation.path)
    if operation.credentialled or not known or not isinstance(limit.get("perMinute"), int):
        message = "x-rate-limit has a path parameter and perMinute, where no credential is counted"
        yield operation.problem(message, "x-rate-limit")


def mcp_tool(operation: Operation) -> Iterator[Problem]:
    """Require that the name of a tool is unique, and that keys and people may call it and get JSON.

    `x-mcp-confirm` stands on tools that take something away: true if they need confirmation, false if they need none.
    """
    name, confirm = operation.raw.get("x-mcp-tool"), operation.raw.get("x-mcp-confirm")
    if confirm is not None and (name is None or not operation.writes or not isinstance(confirm, bool)):
        yield operation.problem("x-mcp-confirm is true or false, and for tools that write", "x-mcp-confirm")
    if name is None:
        return
    if not operation.schemes >= {"ApiKey", "Session"}:
        yield operation.problem("is a tool, which keys and people must be able to call", "x-mcp-tool")
    if any(set(response.get("content", ())) - {"application/json"} for response in operation.successes.values()):
        yield operation.problem("is a tool, and its success is not JSON", "x-mcp-tool")
    if not _MCP_TOOL.fullmatch(name):
        yield operation.problem("x-mcp-tool must look like svc_list_freezes", "x-mcp-tool")
    if sum(other.raw.get("x-mcp-tool") == name for other in operation.document.operations()) > 1:
        yield operation.problem(f"the tool {name} is given twice", "x-mcp-tool")


def least_role(operation: Operation) -> Iterator[Problem]:
    """Require a least role if sessions are accepted, and none if no person can call it."""
    if "Session" in operation.schemes and "x-least-role" not in operation.raw:
        yield operation.problem("accepts sessions and has no x-least-role")
    if not operation.for_people and "x-least-role" in operation.raw:
        yield operation.problem("accepts no sessions and has an x-least-role", "x-least-role")


def list_name(operation: Operation) -> Iterator[Problem]:
    """Require that an operation called a list returns one."""
    if operation.id.startswith("list_") and not operation.is_list:
        yield operation.problem("is called a list and returns no nextCursor")


def created(operation: Operation) -> Iterator[Problem]:
    """Require a link to the created object, from which `Location` is made, if and only if it can be read."""
    response = operation.responses.get("201")
    if response is None:
        return
    readable = {other.id: other.path for other in operation.document.operations() if other.method == "get"}
    own = response.get("links", {}).get("self")
    if own is not None and own.get("operationId") not in readable:
        yield operation.problem("its link self leads to nothing that can be read", "responses", "201", "links")
    elif own is None and any(re.fullmatch(re.escape(operation.path) + r"/\{\w+\}", path) for path in readable.values()):
        yield operation.problem("its 201 has no link self", "responses", "201")


def successes(operation: Operation) -> Iterator[Problem]:
    """Require exactly one success."""
    if len(operation.successes) != 1:
        yield operation.problem("needs exactly one 2xx response", "responses")


def links(operation: Operation) -> Iterator[Problem]:
    """Require that a link names an operation and parameters that exist."""
    others = {other.id: other for other in operation.document.operations()}
    for status, response in operation.responses.items():
        for name, link in response.get("links", {}).items():
            target = others.get(link.get("operationId"))
            if target is None:
                yield operation.problem(f"its link {name} names no operation", "responses", status, "links", name)
                continue
            known = {parameter["name"] for _, parameter in target.parameters}
            for unknown in sorted(set(link.get("parameters", {})) - known):
                message = f"its link {name} fills {unknown}, which {target.id} does not take"
                yield operation.problem(message, "responses", status, "links", name)
