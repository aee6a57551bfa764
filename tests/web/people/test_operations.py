"""Calls of operations by pages: the credential is the visitor's session, and it is one inside the process alone."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

import httpx
import pytest
from flask import Flask

from schemas.calls import ENTRANCE, REQUEST_ID
from schemas.contract import load_contract
from tests.web.people.forms import Person
from web.operations import LOOP, Call, Operations


async def unreachable(scope: object, receive: object, send: object) -> None:
    raise AssertionError("no operation may be called")


class Counting:
    """An application whose first four requests wait for each other; `most` is how many ran at the same time."""

    def __init__(self) -> None:
        self.running = self.most = self.served = 0
        self._four = asyncio.Event()

    async def __call__(self, scope: object, receive: object, send: Callable[[object], Awaitable[None]]) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == 4:  # set later, so that a fifth that does not wait begins before
            asyncio.get_running_loop().call_soon(self._four.set)
        await self._four.wait()
        self.running -= 1
        self.served += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def page_of(loop: asyncio.AbstractEventLoop) -> AbstractContextManager[object]:
    """Return the request of a page whose operations this loop serves."""
    scope = {LOOP: loop, REQUEST_ID: "req_1", "asgi": {}}
    return Flask("test").test_request_context("/", environ_base={"asgi.scope": scope})


def test_session_token_is_no_credential_of_v1_from_the_network(ada: Person) -> None:
    headers = {
        "Authorization": f"Bearer {ada.session}",
        ENTRANCE: "web",
        "Change-Freeze-Entrance": "web",
    }
    answer = httpx.get(f"{ada.site}/v1/me", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_token")


def test_api_key_in_the_session_cookie_opens_no_page(visitor: Person) -> None:
    visitor.client.cookies.set("session", "svc_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
    assert visitor.open("/").title == "Sign in"


def test_call_from_the_thread_of_the_loop_raises() -> None:
    operations = Operations(load_contract(), unreachable)

    async def call() -> None:
        with page_of(asyncio.get_running_loop()):
            operations.call(Call("get_me"))

    with pytest.raises(RuntimeError, match="thread of its own"):
        asyncio.run(call())


def test_page_calls_four_operations_at_a_time() -> None:
    application = Counting()
    operations = Operations(load_contract(), application)

    def read(loop: asyncio.AbstractEventLoop) -> int:
        with page_of(loop):
            return len(operations.call_all([Call("get_me")] * 9))

    async def serve() -> int:
        return await asyncio.wait_for(asyncio.to_thread(read, asyncio.get_running_loop()), 30)

    assert asyncio.run(serve()) == 9
    assert (application.served, application.most) == (9, 4)
