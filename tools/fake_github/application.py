"""The ASGI application: lets faults, latency and limits act on a request, and answers as GitHub does."""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from tools.fake_github.answers import fault_answer, refusal_answer
from tools.fake_github.app_manifest import answer_manifest
from tools.fake_github.control.routes import answer as answer_control
from tools.fake_github.github import FakeGitHub
from tools.fake_github.graph import endpoint
from tools.fake_github.graph.costs import measure
from tools.fake_github.graph.documents import prepare
from tools.fake_github.identity import Caller
from tools.fake_github.install_page import PAGE, install_page
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.pull_page import PAGE as PULL_PAGE
from tools.fake_github.pull_page import pull_page
from tools.fake_github.rest import (
    activity_routes,
    app_routes,
    branch_routes,
    check_routes,
    protection_routes,
    pull_routes,
    repository_routes,
    ruleset_routes,
)
from tools.fake_github.rest.routing import Call, Route, check_credential, locate, match
from tools.simulation.answers import Answer
from tools.simulation.faults import CALL_KINDS
from tools.simulation.wire import Incoming, is_loopback, read, reply, withhold

ROUTE_MODULES = (
    activity_routes,
    app_routes,
    branch_routes,
    check_routes,
    protection_routes,
    pull_routes,
    repository_routes,
    ruleset_routes,
)
OAUTH_PATHS = ("/login/oauth/", "/applications/")
VERSIONS = ("2026-03-10", "2022-11-28")
NO_AGENT = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"


@dataclass(slots=True)
class RequestedOperation:
    """The operation that a request is for: its name for counters, its label for faults, and what runs it."""

    operation: str
    label: str
    route: Route | None = None
    params: dict[str, str] = field(default_factory=dict)
    path: str = ""
    body: Any = None
    graph: endpoint.Description | None = None


def _selected_version(incoming: Incoming) -> str:
    """Return the API version of a request; refuses unknown ones, and callers without a name."""
    if not incoming.headers.get("user-agent"):
        raise Refusal(403, NO_AGENT)
    version = incoming.headers.get("x-github-api-version", VERSIONS[-1])
    if version not in VERSIONS:  # GitHub documents the status, not the words
        raise Refusal(400, f"The API version '{version}' is not supported.")
    return version


def _json(raw: bytes) -> Any:
    """Return a parsed body; none, and `null`, are an empty object."""
    if not raw.strip():
        return {}
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "Problems parsing JSON") from error
    return {} if found is None else found


class Application:
    """Serves one GitHub."""

    def __init__(self, github: FakeGitHub) -> None:
        self.github = github

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        incoming = await read(scope, receive)
        if incoming.path.startswith("/_control/"):
            if not is_loopback(scope):
                await reply(send, Answer(403, {"message": "the control plane is for this machine only"}), {})
                return
            await reply(send, answer_control(self.github, incoming), {})
            return
        with self.github.world.lock:
            answer = self._answer_without_token(incoming)
        if answer is not None:
            await reply(send, answer, {})
            return
        found = self._find_operation(incoming)
        self.github.calls.began(found.operation)
        status = 0
        try:
            status = await self._converse(incoming, found, receive, send)
        finally:
            self.github.calls.ended(status)

    def _answer_without_token(self, incoming: Incoming) -> Answer | None:
        """Answer a request of GitHub's pages and of OAuth clients; None if it is one of the API."""
        if incoming.path.startswith(OAUTH_PATHS):
            return self.github.oauth.answer(
                incoming.method, incoming.path, incoming.query, incoming.headers, incoming.raw
            )
        if incoming.method == "GET" and (page := PAGE.fullmatch(incoming.path)):
            return install_page(self.github, page["slug"], incoming.query)
        if incoming.method in {"GET", "POST"} and (page := PULL_PAGE.fullmatch(incoming.path)):
            return pull_page(self.github, incoming, page["full_name"], int(page["number"]))
        return answer_manifest(self.github, incoming)

    def _find_operation(self, incoming: Incoming) -> RequestedOperation:
        """Return the operation of the API that a request is for."""
        if incoming.path in {"/graphql", "/api/graphql"} and incoming.method == "POST":
            try:
                body = _json(incoming.raw)
            except Refusal:
                body = None
            graph = endpoint.describe(body)
            self.github.calls.by_root_field.update(graph.fields)
            return RequestedOperation(graph.label, graph.label, body=body, graph=graph)
        path = incoming.path
        if path.startswith("/repositories/"):
            path = self._path_of_id(path)
        matched = match(incoming.method, path)
        if matched is None:
            return RequestedOperation(f"{incoming.method} (unknown)", f"{incoming.method} {incoming.path}", path=path)
        route, params = matched
        return RequestedOperation(f"{route.method} {route.template}", f"{incoming.method} {path}", route, params, path)

    def _path_of_id(self, path: str) -> str:
        """Return the path `/repos/{owner}/{name}/…` of `/repositories/{id}/…`, or the same if there is no such id."""
        parts = path.split("/", 3)
        repository = self.github.world.repositories.get(int(parts[2])) if parts[2].isdigit() else None
        if repository is None:
            return path
        return f"/repos/{self.github.world.full_name(repository)}" + (f"/{parts[3]}" if len(parts) > 3 else "")

    async def _converse(self, incoming: Incoming, found: RequestedOperation, receive: Receive, send: Send) -> int:
        """Apply latency and faults around the answer; return the status sent, 0 for none."""
        github = self.github
        if github.settings.latency_ms:
            await asyncio.sleep(github.settings.latency_ms / 1000)
        fault = github.faults.hit(CALL_KINDS, found.label)
        answer, headers = (None, self._headers()) if fault and not fault.after else self._answer(incoming, found)
        if fault and fault.kind in {"timeout", "disconnect"}:
            await withhold(fault, receive, send)
            return 0
        if fault and fault.kind in {"error", "revoked"}:
            answer = fault_answer(fault)
        if answer is None:
            answer, headers = self._answer(incoming, found)
        slow = fault.seconds if fault and fault.kind == "slow_body" else 0.0
        await reply(send, answer, headers, slow)
        return answer.status

    @staticmethod
    def _headers() -> dict[str, str]:
        number = secrets.token_hex(10).upper()
        return {
            "X-GitHub-Request-Id": f"{number[:4]}:{number[4:10]}:{number[10:]}",
            "X-GitHub-Media-Type": "github.v3; format=json",
            "Server": "github.com",
        }

    def _answer(self, incoming: Incoming, found: RequestedOperation) -> tuple[Answer, dict[str, str]]:
        headers = self._headers()
        with self.github.world.lock:
            try:
                headers["X-GitHub-Api-Version-Selected"] = _selected_version(incoming)
                caller = self.github.credentials.identify(incoming.headers.get("authorization"))
                self.github.calls.identified(caller.budget, found.operation)
            except Refusal as refusal:
                return refusal_answer(refusal), headers
            try:
                answer = self._respond(incoming, found, caller)
            except Refusal as refusal:
                answer = refusal_answer(refusal)
            headers |= self.github.limits.headers(caller, "graphql" if found.graph else "core")
            if found.route and found.route.permission and caller.installation:
                headers["X-Accepted-GitHub-Permissions"] = found.route.permission.replace(":", "=")
        return answer, headers

    def _respond(self, incoming: Incoming, found: RequestedOperation, caller: Caller) -> Answer:
        if found.graph:
            return self._graph(found, found.graph, caller)
        if found.route is None:
            raise Refusal(404, "Not Found")
        if refused := self.github.limits.charge_rest(caller, incoming.method, found.route.template):
            return refused
        body = _json(incoming.raw)
        if not isinstance(body, dict):
            raise Refusal(400, "Body should be a JSON object")
        call = Call(self.github, caller, found.params, incoming.query, body, found.path)
        if "repo" in found.params and (moved := locate(call, incoming.method, found.route.permission)):
            return moved
        check_credential(found.route, caller)
        return found.route.handler(call)

    def _graph(self, found: RequestedOperation, graph: endpoint.Description, caller: Caller) -> Answer:
        if caller.app is not None:
            raise Refusal(403, "Resource not accessible by integration")
        if found.body is None:
            raise Refusal(400, "Problems parsing JSON")
        cost = self._graph_cost(found.body) if graph.fields else 1
        if refused := self.github.limits.charge_graph(caller, cost, len(graph.fields), mutation=graph.mutation):
            return refused
        return endpoint.answer(self.github, caller, found.body)

    @staticmethod
    def _graph_cost(body: dict[str, Any]) -> int:
        document = prepare(body["query"])
        operation = document.operation(body.get("operationName"))
        return measure(document, operation, body.get("variables") or {})[1]
