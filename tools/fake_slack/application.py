"""The ASGI application: control plane, pages and API, with latency and faults around the API."""

import asyncio
import base64
import binascii
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from tools.fake_slack import control, methods, oauth, pages
from tools.fake_slack.calls import Exchange
from tools.fake_slack.core import REFUSAL
from tools.fake_slack.slack import FakeSlack
from tools.simulation.answers import Answer
from tools.simulation.faults import CALL_KINDS, Fault
from tools.simulation.wire import Incoming, is_loopback, read, reply, withhold

API, RESPOND, CONTROL = "/api/", "/respond/", "/_control/"
FORMS_ONLY = frozenset({"conversations.list"})
"""Methods that read no parameters from JSON."""


class Application:
    """Serves one Slack."""

    def __init__(self, slack: FakeSlack) -> None:
        self.slack = slack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        incoming = await read(scope, receive)
        if incoming.path.startswith((API, RESPOND)):
            await self._converse(incoming, receive, send)
        elif not incoming.path.startswith(CONTROL):
            await reply(send, await asyncio.to_thread(pages.answer, self.slack, incoming), {})
        elif is_loopback(scope):
            await reply(send, await asyncio.to_thread(control.answer, self.slack, incoming), {})
        else:
            await reply(send, Answer(403, {"message": "the control plane is for this machine only"}), {})

    async def _converse(self, incoming: Incoming, receive: Receive, send: Send) -> None:
        """Apply latency and faults around an answer of the API."""
        if self.slack.settings.latency_ms:
            await asyncio.sleep(self.slack.settings.latency_ms / 1000)
        fault = self.slack.faults.hit((*CALL_KINDS, REFUSAL), f"{incoming.method} {incoming.path}")
        if fault is None or fault.kind == "slow_body":
            await reply(send, self._answer(incoming), {}, fault.seconds if fault else 0.0)
            return
        instead = None if fault.kind in {"timeout", "disconnect"} else _fault_answer(fault)
        if fault.after:
            self._answer(incoming)
        else:
            self._record(incoming, instead)
        if instead:
            await reply(send, instead, {})
        else:
            await withhold(fault, receive, send)

    def _answer(self, incoming: Incoming) -> Answer:
        slack, params = self.slack, _params(incoming)
        with slack.lock:
            if incoming.path.startswith(RESPOND):
                answer = methods.respond(slack, incoming.path.removeprefix(RESPOND), params)
            elif incoming.path == API + "oauth.v2.access":
                answer = Answer(200, oauth.access(slack, params, _basic(incoming)))
            else:
                answer = methods.call(slack, incoming.path.removeprefix(API), params, _bearer(incoming, params))
            self._record(incoming, answer)
        return answer

    def _record(self, incoming: Incoming, answer: Answer | None) -> None:
        status, body = (answer.status, answer.body) if answer else (0, None)
        method = incoming.path.removeprefix(API)
        self.slack.calls.record(Exchange(method, _params(incoming), status, body if isinstance(body, dict) else None))


def _fault_answer(fault: Fault) -> Answer:
    """Return the answer that a fault gives."""
    if fault.kind == REFUSAL:
        return methods.refuse(fault.message or "internal_error")
    if fault.kind == "revoked":
        return methods.refuse("token_revoked")
    if fault.status == 429:
        return Answer(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "2", **fault.headers})
    return Answer(fault.status, b"<html>Something failed</html>", {"Content-Type": "text/html", **fault.headers})


def _params(incoming: Incoming) -> dict[str, Any]:
    """Return the parameters of a call: JSON, or a form whose structured values are JSON."""
    if incoming.headers.get("content-type", "").startswith("application/json") or incoming.path.startswith(RESPOND):
        found = orjson.loads(incoming.raw or b"{}")
        is_read = isinstance(found, dict) and incoming.path.removeprefix(API) not in FORMS_ONLY
        return found if is_read else {}
    params: dict[str, Any] = dict(parse_qsl(incoming.raw.decode() or incoming.query_string, keep_blank_values=True))
    for name in ("blocks", "view"):
        if isinstance(params.get(name), str):
            params[name] = orjson.loads(params[name])
    return params


def _bearer(incoming: Incoming, params: dict[str, Any]) -> str | None:
    scheme, _, token = incoming.headers.get("authorization", "").partition(" ")
    return token if scheme == "Bearer" else params.get("token")


def _basic(incoming: Incoming) -> tuple[str, str] | None:
    scheme, _, value = incoming.headers.get("authorization", "").partition(" ")
    try:
        name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if scheme == "Basic" else None
