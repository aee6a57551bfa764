"""Every tool with every kind of credential: its verdict is that of its route.

The pairs make themselves: tools are read from the contract, kinds of credential from `tests/harness/credentials.py`.
Both ways in are called with an unknown argument, which is validated after authorisation: so nothing changes. What the
route has to answer is proven by `test_credentials_matrix.py`.
"""

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import orjson
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.main import create_app
from mcp_server.tools import Tool, tools_of
from rules.access.permissions import ROLES, Role, role_reaches
from schemas.calls import Answer, Application, call_application
from schemas.contract import load_contract
from tests.harness.credentials import Credential, connections, everybody
from tests.harness.product import product_config, product_parts
from tests.harness.wakeups import RecordedWakeups
from tools.mcp_requests import request_of

CONTRACT = load_contract()
TOOLS = tools_of(CONTRACT)
SCOPES = tuple(CONTRACT.document["components"]["securitySchemes"]["ApiKey"]["x-scopes"])
POLICY = {401, 403, 410}
"""Statuses of those who are not let in; others get an error for the unknown argument, or for those that are missing."""


@dataclass(frozen=True, slots=True)
class Service:
    """The product, called without a socket: thousands of pairs take seconds."""

    application: Application
    loop: asyncio.AbstractEventLoop
    credentials: dict[str, Credential]

    def send(self, method: str, path: str, headers: dict[str, str], *, query: str = "", body: bytes = b"") -> Answer:
        """Send a request as from the network."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8080),
        }
        return self.loop.run_until_complete(call_application(self.application, scope, body))

    def verdict_of_route(self, tool: Tool, credential: Credential) -> str | None:
        """Return the code that refuses the credential at the route; None if it is let in."""
        path = tool.operation.path
        for parameter in tool.operation.parameters:
            path = path.replace("{" + parameter.name + "}", "nobodys")
        return _verdict(self.send(tool.operation.method, path, dict(credential.headers), query="unknown=1").content)

    def verdict_of_tool(self, tool: Tool, credential: Credential) -> str | None:
        """Return the code that refuses the credential at the tool, or at the entrance; None if it is let in."""
        parameters = tool.operation.parameters
        arguments: dict[str, Any] = {one.name: "nobodys" for one in parameters if one.location == "path"} | {
            "unknown": "1"
        }
        if tool.confirms:
            arguments["confirm"] = True
        headers, body = request_of("tools/call", {"name": tool.name, "arguments": arguments})
        content = self.send("POST", "/mcp", {**headers, **credential.headers, "Host": "localhost"}, body=body).content
        if "error" in content:
            return _verdict(content)
        result = content["result"]
        assert result["isError"], result
        return _verdict(result)


def _verdict(content: dict[str, Any]) -> str | None:
    error = content["error"] if "error" in content else orjson.loads(content["content"][0]["text"])["error"]
    code: str = error["code"]
    return code if CONTRACT.errors[code].status in POLICY else None


@pytest.fixture(scope="module")
def service(module_database: str, redis_url: str) -> Iterator[Service]:
    engine = create_engine(module_database)
    with Session(engine, expire_on_commit=False) as session:
        credentials = {one.name: one for one in (*everybody(session, SCOPES), *connections(session, SCOPES))}
        session.commit()
    engine.dispose()
    app = create_app(product_config(module_database, redis_url), product_parts(wakeups=RecordedWakeups()))
    with asyncio.Runner() as runner, _running(app, runner.get_loop()):
        yield Service(app, runner.get_loop(), credentials)


@contextmanager
def _running(app: Application, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Start an application as a server does, and stop it."""
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    lifespan = app({"type": "lifespan", "asgi": {"version": "3.0"}}, incoming.get, outgoing.put)
    task = asyncio.ensure_future(lifespan, loop=loop)
    incoming.put_nowait({"type": "lifespan.startup"})
    assert loop.run_until_complete(outgoing.get())["type"] == "lifespan.startup.complete"
    yield
    incoming.put_nowait({"type": "lifespan.shutdown"})
    loop.run_until_complete(task)


def at_entrance(credential: Credential) -> str | None:
    """Return the code with which the MCP server refuses a credential that is none of its kinds, or is void."""
    if credential.form in {"key", "connection"}:
        return credential.fault
    if "elsewhere" in credential.headers.get("Origin", ""):
        return "origin_not_allowed"
    sent = credential.headers.get("Authorization", "").startswith("Bearer ") and credential.form != "unreadable"
    return "invalid_token" if sent else "missing_credentials"


def expected(service: Service, tool: Tool, credential: Credential) -> str | None:
    """Return the code that has to refuse a credential: that of the route.

    No route takes the token of a connection: it needs a scope as a key does, and a role as its person does.
    """
    refused = at_entrance(credential)
    if refused or credential.form != "connection":
        return refused or service.verdict_of_route(tool, credential)
    if credential.scopes.isdisjoint(tool.operation.any_scope):
        return "insufficient_scope"
    return service.verdict_of_route(tool, service.credentials[f"{credential.role}, JWT"])


def verdicts(service: Service, pairs: Iterable[tuple[Tool, Credential]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the tools answer, and what they should, by tool and credential."""
    answers: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    for tool, credential in pairs:
        name = f"{tool.name}, {credential.name}"
        answers[name] = service.verdict_of_tool(tool, credential)
        wanted[name] = expected(service, tool, credential)
    return answers, wanted


def test_each_tool_refuses_as_its_route_does(service: Service) -> None:
    """Call each tool with keys and clients that may, that may not, and that may call nothing."""
    pairs = []
    for tool in TOOLS.values():
        other = next(scope for scope in SCOPES if scope not in tool.operation.any_scope)
        keys = (f"a key of {tool.operation.any_scope[0]}", f"a key of {other}", "a key of a deleted organisation")
        clients = (f"a client of {tool.operation.any_scope[0]}", f"a client of {other}", "a client of a viewer")
        pairs += [(tool, service.credentials[name]) for name in (*keys, *clients)]
    answers, wanted = verdicts(service, pairs)
    assert answers == wanted
    refusals = {"insufficient_scope", "insufficient_permission", "organization_deleted"}
    assert {*answers.values()} == {None, *refusals}


def test_tools_refuse_each_credential_as_their_routes_do(service: Service) -> None:
    """Call one tool that reads and one that writes with every kind of credential."""
    tools = (TOOLS["svc_list_freezes"], TOOLS["svc_start_freeze"])
    answers, wanted = verdicts(service, ((tool, one) for tool in tools for one in service.credentials.values()))
    assert answers == wanted
    of_credentials = {"missing_credentials", "invalid_token", "token_expired", "origin_not_allowed"}
    refusals = {"insufficient_scope", "insufficient_permission", "organization_deleted"}
    assert {*answers.values()} == {None, *of_credentials, *refusals}


@pytest.mark.check
def test_every_pair_of_tool_and_credential_has_the_verdict_of_the_route(service: Service) -> None:
    answers, wanted = verdicts(service, itertools.product(TOOLS.values(), service.credentials.values()))
    assert answers == wanted
    assert len(answers) > 3000


def test_listed_tools_are_those_that_a_key_may_call(service: Service) -> None:
    for scope in SCOPES:
        credential = service.credentials[f"a key of {scope}"]
        headers, body = request_of("tools/list", {})
        answer = service.send("POST", "/mcp", {**headers, **credential.headers, "Host": "localhost"}, body=body)
        listed = [tool["name"] for tool in answer.content["result"]["tools"]]
        assert listed == [name for name, tool in TOOLS.items() if scope in tool.operation.any_scope]


@pytest.mark.parametrize("role", ROLES)
def test_listed_tools_are_those_of_the_role_of_a_person(service: Service, role: Role) -> None:
    headers, body = request_of("tools/list", {})
    credential = service.credentials[f"a client of a {role}"]
    answer = service.send("POST", "/mcp", {**headers, **credential.headers, "Host": "localhost"}, body=body)
    listed = {tool["name"] for tool in answer.content["result"]["tools"]}
    least = {name: cast("Role", tool.operation.least_role) for name, tool in TOOLS.items()}
    assert listed == {name for name in TOOLS if role_reaches(role, least[name])}
