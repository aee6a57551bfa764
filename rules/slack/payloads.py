"""Payloads that Slack sends to one address: events as JSON; commands, clicks and forms as form fields.

Their signature has been verified. What they hold is still checked, because it becomes keys and addresses.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from rules.slack.actions import UNTIL, VALUE

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
_MAX_FIELDS = 100
_MAX_ID = 64
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_VALUE = 2000
_MAX_METADATA = 3000
"""Characters that a form carries, and at most that a field has."""
MAX_INSTANT = 2**35
"""Seconds: the year 3058."""


@dataclass(frozen=True, slots=True)
class SlackPerson:
    """A Slack user in a workspace."""

    team_id: str
    user_id: str
    foreign: bool = False
    """True for a person of another workspace, in a channel that is shared with it."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Slack asks whether the address is ours: the answer repeats the challenge."""

    challenge: str


@dataclass(frozen=True, slots=True)
class SlackEvent:
    """Something that happened to the app in a workspace; Slack repeats it under the same id."""

    id: str
    team_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A command that a person typed in a channel."""

    person: SlackPerson
    person_name: str
    command: str
    text: str
    channel_id: str
    channel_name: str
    trigger_id: str
    response_url: str

    @property
    def key(self) -> str:
        """The idempotency key of what it does."""
        return key_of("command", self.trigger_id)


@dataclass(frozen=True, slots=True)
class Click:
    """A button that a person pressed."""

    person: SlackPerson
    person_name: str
    action: str
    value: str
    pressed_at: str
    trigger_id: str
    response_url: str

    @property
    def key(self) -> str:
        """The idempotency key of what it does."""
        return key_of("click", self.pressed_at, self.action, self.value, self.person.user_id)


@dataclass(frozen=True, slots=True)
class Submission:
    """A form that a person sent."""

    person: SlackPerson
    form: str
    view_id: str
    fields: Sequence[str]
    """The fields of the form, in their order."""
    values: Mapping[str, str | int]
    """What the person wrote, by field: text, or seconds since the epoch for an instant."""
    metadata: str
    """What the form carries."""

    @property
    def key(self) -> str:
        """The idempotency key of what it does: a form that is sent twice takes effect once."""
        return key_of("form", self.view_id)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A payload that asks for nothing, such as a check of our certificate, or that has no shape that is known."""


Inbound = Challenge | SlackEvent | TypedCommand | Click | Submission | Ignored


def read_payload(raw_body: bytes, content_type: str) -> Inbound:
    """Return what a signed body says; what has none of Slack's shapes asks for nothing.

    Raise ValueError if it is not UTF-8, or no JSON object where it should be one.
    """
    text = raw_body.decode()
    is_form = content_type.lower().lstrip().startswith(FORM)
    try:
        body = {} if is_form else json.loads(text)
    except RecursionError:
        raise ValueError("the payload is nested too deep") from None
    body = _object(body)
    try:
        return _read_form(_fields_of(text)) if is_form else _read_event(body)
    except (ValueError, RecursionError):
        return Ignored()


def _fields_of(text: str) -> Mapping[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))


def key_of(*parts: str) -> str:
    """Return an idempotency key for an interaction."""
    return "slack-" + hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()


def _read_event(body: Mapping[str, Any]) -> Inbound:
    if body.get("type") == "url_verification":
        return Challenge(_text(body.get("challenge"), 500))
    if body.get("type") != "event_callback" or not isinstance(body.get("team_id"), str):
        return Ignored()
    return SlackEvent(_id(body.get("event_id")), _id(body["team_id"]), body)


def _read_form(form: Mapping[str, str]) -> Inbound:
    if "payload" in form:
        return _read_interaction(_object(json.loads(form["payload"])))
    if form.get("ssl_check"):
        return Ignored()
    return TypedCommand(
        SlackPerson(_id(form.get("team_id")), _id(form.get("user_id"))),
        _text(form.get("user_name", ""), 100),
        _text(form.get("command"), 50),
        _text(form.get("text", ""), _MAX_VALUE),
        _id(form.get("channel_id")),
        _text(form.get("channel_name", ""), 100),
        _text(form.get("trigger_id"), 200),
        _text(form.get("response_url", ""), 500),
    )


def _read_interaction(body: Mapping[str, Any]) -> Inbound:
    if body.get("type") not in ("block_actions", "view_submission") or not isinstance(body.get("team"), Mapping):
        return Ignored()  # among others that of an installation for a whole enterprise, which has no team
    user, team_id = _object(body.get("user")), _id(body["team"].get("id"))
    person = SlackPerson(team_id, _id(user.get("id")), user.get("team_id", team_id) != team_id)
    if body["type"] == "view_submission":
        view = _object(body.get("view"))
        metadata = _text(view.get("private_metadata") or "", _MAX_METADATA)
        form, view_id = _text(view.get("callback_id"), 255), _id(view.get("id"))
        return Submission(person, form, view_id, _fields_of_view(view), _values_of_view(view), metadata)
    actions = body.get("actions")
    if not isinstance(actions, list) or not actions:
        return Ignored()
    action = _object(actions[0])
    return Click(
        person,
        _text(user.get("username") or user.get("name") or "", 100),
        _text(action.get("action_id"), 255),
        _text(action.get("value") or "", _MAX_VALUE),
        _text(action.get("action_ts"), 50),
        _text(body.get("trigger_id", ""), 200),
        _text(body.get("response_url", ""), 500),
    )


def _fields_of_view(view: Mapping[str, Any]) -> list[str]:
    """Return the ids of the blocks of a form that people fill in."""
    listed = view.get("blocks")
    blocks = listed if isinstance(listed, list) else []
    return [_text(block.get("block_id"), 255) for block in map(_object, blocks) if block.get("type") == "input"]


def _values_of_view(view: Mapping[str, Any]) -> dict[str, str | int]:
    """Return what a person wrote into a form, without the fields that they left empty."""
    rows = _object(_object(view.get("state") or {}).get("values") or {})
    found: dict[str, str | int] = {}
    for field, elements in rows.items():
        element = _object(_object(elements).get(VALUE) or {})
        value = element.get("value") if "value" in element else element.get("selected_date_time")
        if value is not None:
            found[_text(field, 255)] = _instant(value) if field == UNTIL else _text(value, _MAX_METADATA)
    return found


def _instant(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < MAX_INSTANT:
        raise ValueError("an instant is seconds since the epoch")
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError("an object is missing")


def _id(value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError(f"an id has at most {_MAX_ID} letters and digits")
    return value


def _text(value: Any, length: int) -> str:
    """Return a text that the database and the API take: without NUL and halves of surrogate pairs."""
    if not isinstance(value, str) or len(value) > length:
        raise ValueError(f"a text has at most {length} characters")
    return value.replace("\x00", "").encode("utf-8", "replace").decode()
