"""Calls of operations by pages: the credential is the visitor's session, and it is one inside the process alone."""

import asyncio

import httpx
import pytest
from flask import Flask

from schemas.contract import load_contract
from tests.web.people.forms import Person
from web.operations import Call, Operations


async def unreachable(scope: object, receive: object, send: object) -> None:
    raise AssertionError("no operation may be called")


def test_session_token_is_no_credential_of_v1_from_the_network(ada: Person) -> None:
    headers = {
        "Authorization": f"Bearer {ada.session}",
        "change_freeze.entrance": "web",
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
        scope = {"change_freeze.loop": asyncio.get_running_loop(), "change_freeze.request_id": "req_1", "asgi": {}}
        with Flask("test").test_request_context("/", environ_base={"asgi.scope": scope}):
            operations.call(Call("get_me"))

    with pytest.raises(RuntimeError, match="thread of its own"):
        asyncio.run(call())
