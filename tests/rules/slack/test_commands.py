"""What people type after the command, and the scopes and payloads that are read from it."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.slack.commands import read_command, read_scope, read_subscription
from rules.slack.payloads import (
    FORM,
    JSON,
    Challenge,
    Click,
    Ignored,
    SlackEvent,
    SlackPerson,
    Submission,
    TypedCommand,
    read_payload,
)


@pytest.mark.parametrize(
    ("text", "verb", "words"),
    [
        ("", "help", ()),
        ("  STATUS acme/web#main ", "status", ("acme/web#main",)),
        ("request <https://github.com/acme/web/pull/7|#7>", "request", ("https://github.com/acme/web/pull/7",)),
        ("start a&amp;b &lt;!channel&gt;", "start", ("a&b", "<!channel>")),
        ("explode now", "explode", ("now",)),
    ],
)
def test_command_is_read_as_it_was_typed(text: str, verb: str, words: tuple[str, ...]) -> None:
    command = read_command(text)
    assert (command.verb, tuple(command.words)) == (verb, words)
    assert command.is_known == (verb != "explode")


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("everything", {"type": "organization"}),
        ("acme/web", {"type": "repositories", "repositories": ["acme/web"]}),
        ("acme/web, acme/api", {"type": "repositories", "repositories": ["acme/web", "acme/api"]}),
        ("acme/web#main", {"type": "branch", "repository": "acme/web", "branch": "main"}),
        (
            "acme/web:main acme/api:main",
            {"type": "repositories", "repositories": ["acme/web", "acme/api"], "branches": ["main"]},
        ),
        ("acme/web#release/*", {"type": "repositories", "repositories": ["acme/web"], "branches": ["release/*"]}),
        ("acme/* !acme/docs", {"type": "glob", "patterns": ["acme/*", "!acme/docs"]}),
        ("acme/*#main", {"type": "glob", "patterns": ["acme/*"], "branches": ["main"]}),
    ],
)
def test_scope_is_read_from_names_and_patterns(text: str, scope: dict[str, Any]) -> None:
    assert read_scope(text) == scope


@pytest.mark.parametrize("text", ["", "acme/web#main acme/api", "acme/web#a acme/api#b", "everything acme/web"])
def test_scope_is_refused_when_it_is_ambiguous(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(Give|Write)"):
        read_scope(text)


def test_subscription_is_read_in_any_order() -> None:
    read = read_subscription(["freeze.started,freeze.ended", "acme/*", "exception.requested", "!acme/docs"])
    assert read == (["freeze.started", "freeze.ended", "exception.requested"], ["acme/*", "!acme/docs"])


COMMAND = {
    "team_id": "T1",
    "user_id": "U1",
    "user_name": "ada",
    "command": "/freeze",
    "text": "status",
    "channel_id": "C1",
    "channel_name": "releases",
    "trigger_id": "1.2.a",
    "response_url": "https://hooks.slack.com/commands/1",
}
CLICK = {
    "type": "block_actions",
    "team": {"id": "T1"},
    "user": {"id": "U1", "username": "ada", "team_id": "T2"},
    "trigger_id": "1.2.a",
    "response_url": "https://hooks.slack.com/actions/1",
    "actions": [{"action_id": "freeze.lift", "value": "frz_1", "action_ts": "1.5"}],
}
SUBMISSION = {
    "type": "view_submission",
    "team": {"id": "T1"},
    "user": {"id": "U1", "team_id": "T1"},
    "view": {"id": "V1", "callback_id": "freeze.start", "state": {"values": {}}},
}


def interaction(payload: object) -> bytes:
    """Return a body with the payload of an interaction."""
    return urlencode({"payload": json.dumps(payload)}).encode()


def test_payloads_of_all_kinds_are_read() -> None:
    assert read_payload(urlencode(COMMAND).encode(), FORM) == TypedCommand(
        SlackPerson("T1", "U1"),
        "ada",
        "/freeze",
        "status",
        "C1",
        "releases",
        "1.2.a",
        "https://hooks.slack.com/commands/1",
    )
    assert read_payload(interaction(CLICK), FORM) == Click(
        SlackPerson("T1", "U1", foreign=True),
        "ada",
        "freeze.lift",
        "frz_1",
        "1.5",
        "1.2.a",
        "https://hooks.slack.com/actions/1",
    )
    sent = read_payload(interaction(SUBMISSION), FORM)
    assert isinstance(sent, Submission)
    assert (sent.person, sent.form, sent.view_id) == (SlackPerson("T1", "U1"), "freeze.start", "V1")
    event = {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": {"type": "app_uninstalled"}}
    assert read_payload(json.dumps(event).encode(), JSON) == SlackEvent("Ev1", "T1", event)
    asked = {"type": "url_verification", "challenge": "abc"}
    assert read_payload(json.dumps(asked).encode(), JSON) == Challenge("abc")
    assert read_payload(b"ssl_check=1", FORM) == Ignored()
    assert read_payload(interaction({**CLICK, "team": None}), FORM) == Ignored()


@pytest.mark.parametrize(
    ("body", "content_type"), [(b"\xff", JSON), (b"\xff", FORM), (b"[]", JSON), (b"{", JSON), (b"[" * 100_000, JSON)]
)
def test_payload_that_cannot_be_read_raises(body: bytes, content_type: str) -> None:
    with pytest.raises(ValueError):
        read_payload(body, content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", FORM),
        (b"payload=[]", FORM),
        (b"payload={", FORM),
        (b"team_id=T1", FORM),
        (urlencode({**COMMAND, "user_id": "U\x00"}).encode(), FORM),
        (interaction({**CLICK, "actions": [7]}), FORM),
        (interaction({**SUBMISSION, "view": "V"}), FORM),
        (b'{"type": "event_callback", "team_id": "T1"}', JSON),
    ],
)
def test_payload_of_an_unknown_shape_asks_for_nothing(body: bytes, content_type: str) -> None:
    assert read_payload(body, content_type) == Ignored()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_payload_of_any_shape_is_read(value: object) -> None:
    for changed in ({**CLICK, "actions": value}, {**SUBMISSION, "view": value}, {**CLICK, "user": value}, value):
        read_payload(interaction(changed), FORM)


def test_double_click_has_one_key_and_a_later_click_another() -> None:
    first, again = (read_payload(interaction(CLICK), FORM) for _ in range(2))
    later = read_payload(interaction({**CLICK, "actions": [{**CLICK["actions"][0], "action_ts": "2.5"}]}), FORM)  # type: ignore[index]
    assert isinstance(first, Click)
    assert isinstance(again, Click)
    assert isinstance(later, Click)
    assert first.key == again.key != later.key
