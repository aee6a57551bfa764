"""Signed payloads that Slack never sends: parts are missing, or of another type. None of them is an error of ours."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any
from urllib.parse import urlencode

import pytest

from integrations.slack.signatures import sign
from models.freezes import Freeze
from models.pull_requests import PullRequest
from rules.slack import actions as names
from tests.handlers.callers import Tenant
from tests.handlers.slack_app.conftest import ADA, Link
from tests.harness.random_seed import exploring
from tools.fake_slack import FakeSlack
from tools.fake_slack.settings import SIGNING_SECRET

ODD: tuple[Any, ...] = (None, True, 10**30, "", "x" * 9000, "\ud800\x00<[%", [None], {})
GONE = object()
STEP = 3
"""Which of the variants of a form an ordinary run sends: the parts take turns with what is odd."""
USER = {"id": ADA, "username": "ada", "name": "ada", "team_id": "T0ACME"}
FIELDS = {
    names.SCOPE: {names.VALUE: {"type": "plain_text_input", "value": "acme/*"}},
    names.UNTIL: {names.VALUE: {"type": "datetimepicker", "selected_date_time": 4102444800}},
    names.REASON: {names.VALUE: {"type": "plain_text_input", "value": "Quarter-end close"}},
    names.PULL_REQUEST: {names.VALUE: {"type": "plain_text_input", "value": "acme/web#7"}},
}
CARRIED = {"scope": "acme/*", "until": 4102444800, "reason": "Quarter-end close", "count": 1}
EVENT = {
    "type": "event_callback",
    "event_id": "Ev1",
    "team_id": "T0ACME",
    "event_time": 1,
    "event": {"type": "tokens_revoked", "tokens": {"bot": ["U0BOT"]}},
}
COMMAND = {
    "team_id": "T0ACME",
    "user_id": ADA,
    "user_name": "ada",
    "command": "/freeze",
    "text": "status acme/web#main",
    "channel_id": "C0RELEASES",
    "channel_name": "releases",
    "trigger_id": "1.2.3",
    "response_url": "http://127.0.0.1:9/answer",
}


def click(action: str, value: str) -> dict[str, Any]:
    """Return the payload of a button."""
    pressed = {"action_id": action, "value": value, "action_ts": "1.5"}
    common = {"team": {"id": "T0ACME"}, "user": USER, "trigger_id": "1.2.3", "response_url": "http://127.0.0.1:9/x"}
    return {"type": "block_actions", **common, "actions": [pressed]}


def form(name: str, metadata: str = "", fields: Sequence[str] = ()) -> dict[str, Any]:
    """Return the payload of a form that a person has filled in."""
    blocks = [{"type": "input", "block_id": field} for field in fields]
    view = {
        "callback_id": name,
        "id": "V1",
        "private_metadata": metadata,
        "blocks": blocks,
        "state": {"values": {field: FIELDS[field] for field in fields}},
    }
    return {"type": "view_submission", "team": {"id": "T0ACME"}, "user": USER, "view": view}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every part of a payload."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def changed(payload: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the payload with another value at a path, or without what is there."""
    made = deepcopy(payload)
    part = made
    for key in path[:-1]:
        part = part[key]
    if value is GONE:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return made


def variants(payload: Any) -> list[Any]:
    """Return the payload, and all that differ from it in one part."""
    return [payload, *(changed(payload, path, odd) for path in places(payload) for odd in (*ODD, GONE))]


class Door:
    """Sends signed bytes to the address for Slack."""

    def __init__(self, tenant: Tenant, slack: FakeSlack) -> None:
        self.tenant, self.slack = tenant, slack
        self.found: Counter[int] = Counter()
        self.failed: list[bytes] = []

    def send(self, body: bytes, content_type: str) -> None:
        stamp = str(int(self.slack.clock()))
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(SIGNING_SECRET, body, stamp)}
        headers["Content-Type"] = content_type
        status = self.tenant.anybody.send("POST", "/webhooks/slack", content=body, headers=headers).status_code
        self.found[status] += 1
        if status not in {200, 400}:
            self.failed.append(body)

    def send_json(self, payload: Any) -> None:
        self.send(json.dumps(payload).encode(), "application/json")

    def send_form(self, fields: dict[str, str]) -> None:
        self.send(urlencode(fields, errors="surrogatepass").encode(), "application/x-www-form-urlencoded")


@pytest.fixture
def door(acme: Tenant, slack: FakeSlack, link: Link, freeze: Freeze, pull: PullRequest) -> Iterator[Door]:
    link("owner")
    hooks = acme.http.event_hooks
    acme.http.event_hooks = {}  # what a payload does is recorded by the operations that it calls
    yield Door(acme, slack)
    acme.http.event_hooks = hooks


def test_odd_events_are_answered(door: Door) -> None:
    for payload in (*ODD, *variants({"type": "url_verification", "challenge": "abc"}), *variants(EVENT)):
        door.send_json(payload)
    assert (door.failed, door.found[200] > 50) == ([], True)


def test_odd_commands_are_answered(door: Door) -> None:
    for payload in variants(COMMAND):
        door.send_form({key: value if isinstance(value, str) else json.dumps(value) for key, value in payload.items()})
    for text in (
        "lift %",
        "lift \x00",
        "status [",
        "subscribe * \x00 freeze.*",
        "start <<>>",
        "request #",
        "unlink \x7f",
    ):
        door.send_form({**COMMAND, "text": text})
    assert (door.failed, door.found[200] > 50) == ([], True)


@pytest.mark.parametrize(("action", "value"), [(names.LIFT, "frz_1"), (names.GRANT, "exc_1"), (names.REQUEST, "")])
def test_odd_clicks_are_answered(door: Door, action: str, value: str) -> None:
    for payload in variants(click(action, value)):
        door.send_form({"payload": json.dumps(payload)})
    assert (door.failed, door.found[200] > 50) == ([], True)


@pytest.mark.parametrize(
    ("name", "metadata", "fields"),
    [
        (names.START_FORM, "", [names.SCOPE, names.UNTIL, names.REASON]),
        (names.REQUEST_FORM, "", [names.PULL_REQUEST, names.REASON]),
        (names.DENY_FORM, "exc_1", [names.REASON]),
    ],
)
def test_odd_forms_are_answered(door: Door, name: str, metadata: str, fields: list[str]) -> None:
    for payload in variants(form(name, metadata, fields))[:: 1 if exploring() else STEP]:
        door.send_form({"payload": json.dumps(payload)})
    assert (door.failed, door.found[200] > 50) == ([], True)


def test_odd_confirmations_are_answered(door: Door) -> None:
    texts = [json.dumps(carried) for carried in (*ODD, *variants(CARRIED))]
    for metadata in (*texts, "[" * 2900, "{", "NaN", '{"scope": "\\ud800"}'):
        door.send_form({"payload": json.dumps(form(names.CONFIRM_FORM, metadata))})
    assert (door.failed, door.found[200] > 40) == ([], True)
