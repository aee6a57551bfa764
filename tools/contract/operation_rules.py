"""Rules on one operation: its names, its policies and its responses."""

import re
from collections.abc import Iterator

from tools.contract import derivation, refusals
from tools.contract.document import Operation, Problem


def security(operation: Operation) -> Iterator[Problem]:
    """Require credentials whose schemes and scopes exist."""
    schemes = operation.document.components("securitySchemes")
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
    """Require that every write names the audit actions of its success."""
    if operation.writes != ("x-audit" in operation.raw):
        yield operation.problem("writes and has no x-audit" if operation.writes else "only reads and has an x-audit")


def rate_limit(operation: Operation) -> Iterator[Problem]:
    """Require that a rate limit of its own is of an operation without credentials, and names a path parameter."""
    limit = operation.raw.get("x-rate-limit")
    known = isinstance(limit, dict) and limit.get("parameter") in derivation.template_names(operation.path)
    if limit is not None and (operation.credentialled or not known):
        yield operation.problem("x-rate-limit needs a path parameter, and no credential to count", "x-rate-limit")


def mcp_tool(operation: Operation) -> Iterator[Problem]:
    """Require that the name of a tool is unique, and that keys and people may call it and get JSON.

    `x-mcp-confirm` stands on tools that take something away: true if they need confirmation, false if they need none.
    """
    name, confirm = operation.raw.get("x-mcp-tool"), operation.raw.get("x-mcp-confirm")
    if confirm is not None and (name is None or not operation.writes):
        yield operation.problem("x-mcp-confirm is for tools that write", "x-mcp-confirm")
    if name is None:
        return
    if not operation.schemes >= {"ApiKey", "Session"}:
        yield operation.problem("is a tool, which keys and people must be able to call", "x-mcp-tool")
    if any(set(response.get("content", ())) - {"application/json"} for response in operation.successes.values()):
        yield operation.problem("is a tool, and its success is not JSON", "x-mcp-tool")
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


def documented_statuses(operation: Operation) -> Iterator[Problem]:
    """Require a response for each status that the codes give, and no response for another status.

    A response in OAuth's error format has a status of OAuth's, whatever the codes.
    """
    catalogue = operation.document.catalogue
    codes = {*derivation.error_codes(operation), *derivation.cross_cutting(operation)} & set(catalogue)
    documented = {status for status in operation.responses if status >= "400"}
    for code in sorted(codes):
        status = str(catalogue[code].get("status"))
        if status not in documented and status not in refusals.DESCRIPTIONS:
            yield operation.problem(f"can return {code} and has no {status} response", "responses")
    possible = {str(catalogue[code].get(key)) for code in codes for key in ("status", "alsoStatus")}
    for status in sorted(status for status in documented - possible if not _is_of_oauth(operation, status)):
        yield operation.problem(f"documents {status}, which none of its codes has", "responses", status)


def _is_of_oauth(operation: Operation, status: str) -> bool:
    content = operation.responses[status].get("content", {})
    schema: object = content.get("application/json", {}).get("schema")
    return schema == {"$ref": "#/components/schemas/OAuthError"}
