"""What people do: type commands, click, submit forms, install and uninstall. Each sends what Slack sends."""

import json
from typing import Any

from tools.fake_slack.core import APP_ID, Core
from tools.fake_slack.limits import elements_of, error_of_form
from tools.fake_slack.methods import show_answer
from tools.fake_slack.model import Form, Json, ResponseAddress, Trigger
from tools.fake_slack.sender import Reply, send_event, send_form

LEGACY_TOKEN = "a legacy token, which nobody may believe"  # noqa: S105 - of a simulation
CHOICES = {"static_select": "selected_option", "radio_buttons": "selected_option", "checkboxes": "selected_options"}
DATES = {"datepicker": "selected_date", "timepicker": "selected_time", "datetimepicker": "selected_date_time"}


def type_command(core: Core, user: str, channel: str, text: str, command: str | None = None) -> Reply:
    """Type a slash command into a channel."""
    team = core.team_of(user)
    with core.lock:
        found = core.workspace(team).channels[channel]
        number = _response_address(core, team, channel, user, None)
        fields = {
            "token": LEGACY_TOKEN,
            "team_id": team,
            "team_domain": core.workspace(team).name.lower(),
            "channel_id": channel,
            "channel_name": "privategroup" if found.private else found.name,
            "user_id": user,
            "user_name": core.workspace(team).people[user],
            "command": command or core.settings.command,
            "text": text,
            "api_app_id": APP_ID,
            "is_enterprise_install": "false",
            "response_url": f"{core.base_url}/respond/{number}",
            "trigger_id": _trigger(core, team, user),
        }
    reply = send_form(core, fields)
    _take_answer(core, core.responses[number], reply)
    return reply


def click(core: Core, user: str, channel: str, ts: str, action_id: str, *, from_team: str | None = None) -> Reply:
    """Click a button of a message; `from_team` is the person's own workspace, if the channel is shared with it."""
    with core.lock:
        message = core.message(channel, ts)
        if message is None:
            raise KeyError(f"no message {ts} in {channel}")
        block, element = _element(message.blocks, action_id)
        payload = {
            **_interaction(core, message.team, user, "block_actions", from_team),
            "container": {
                "type": "message",
                "message_ts": ts,
                "channel_id": channel,
                "is_ephemeral": message.only_for is not None,
            },
            "channel": {"id": channel, "name": core.workspace(message.team).channels[channel].name},
            "message": {"ts": ts, "text": message.text, "blocks": message.blocks, "type": "message", "app_id": APP_ID},
            "state": {"values": {}},
            "actions": [_action(core, block, element)],
        }
        number = _response_address(core, message.team, channel, user, ts)
        payload["response_url"] = f"{core.base_url}/respond/{number}"
    return send_form(core, {"payload": json.dumps(payload)})


def submit(core: Core, form_id: str, values: dict[str, Any], *, from_team: str | None = None) -> Reply:
    """Submit a form with a value for each of its blocks; raise ValueError for what Slack's client does not submit."""
    with core.lock:
        form = _open_form(core, form_id)
        state = _state(form.view, values)
        payload = {
            **_interaction(core, form.team, form.user, "view_submission", from_team),
            "view": _view_of(form, state),
            "response_urls": [],
        }
    reply = send_form(core, {"payload": json.dumps(payload)})
    with core.lock:
        _take_form_answer(form, reply)
        core.changes += 1
    return reply


def uninstall(core: Core, team: str, *, tokens_first: bool = True) -> list[Reply]:
    """Uninstall the app in a workspace: its token ends, and two events are sent, in either order."""
    with core.lock:
        for token in core.tokens:
            token.revoked = token.revoked or token.team == team
        core.changes += 1
    events: list[Json] = [
        {"type": "tokens_revoked", "tokens": {"oauth": [], "bot": ["U0BOT"]}},
        {"type": "app_uninstalled"},
    ]
    return [deliver_event(core, team, event) for event in (events if tokens_first else reversed(events))]


def deliver_event(core: Core, team: str, event: Json, event_id: str | None = None, retry: int = 0) -> Reply:
    """Send an event of a workspace."""
    body = {
        "token": LEGACY_TOKEN,
        "team_id": team,
        "api_app_id": APP_ID,
        "type": "event_callback",
        "event_id": event_id or core.next_id("Ev"),
        "event_time": int(core.clock()),
        "event": event,
        "authorizations": [],
        "is_ext_shared_channel": False,
    }
    return send_event(core, body, retry)


def _interaction(core: Core, team: str, user: str, kind: str, from_team: str | None = None) -> Json:
    own = from_team or team
    return {
        "type": kind,
        "token": LEGACY_TOKEN,
        "api_app_id": APP_ID,
        "team": {"id": team, "domain": core.workspace(team).name.lower()},
        "enterprise": None,
        "is_enterprise_install": False,
        "user": {"id": user, "username": user.lower(), "name": user.lower(), "team_id": own},
        "trigger_id": _trigger(core, team, user),
    }


def _element(blocks: list[Json], action_id: str) -> tuple[Json, Json]:
    for block in blocks:
        for element in elements_of(block):
            if element["action_id"] == action_id:
                return block, element
    raise KeyError(f"nothing to click has the action_id {action_id}")


def _action(core: Core, block: Json, element: Json) -> Json:
    made = {
        "type": element["type"],
        "action_id": element["action_id"],
        "block_id": block.get("block_id", "b1"),
        "action_ts": f"{core.clock():.6f}",
    }
    if element["type"] == "button":
        made |= {"text": {**element["text"], "emoji": True}, "value": element.get("value")}
    return {name: value for name, value in made.items() if value is not None}


def _open_form(core: Core, form_id: str) -> Form:
    form = core.forms[form_id]
    if not form.open:
        raise KeyError(f"the form {form_id} is closed")
    return form


def _view_of(form: Form, state: Json) -> Json:
    kept = ("type", "callback_id", "private_metadata", "title", "submit", "close", "blocks")
    shown = {name: form.view[name] for name in kept if name in form.view}
    return {**shown, "id": form.id, "team_id": form.team, "app_id": APP_ID, "hash": "1", "state": {"values": state}}


def _state(view: Json, values: dict[str, Any]) -> Json:
    """Return the values of a form's inputs as Slack sends them."""
    inputs = {block["block_id"]: block for block in view["blocks"] if block["type"] == "input"}
    if unknown := values.keys() - inputs.keys():
        raise ValueError(f"the form has no input {', '.join(sorted(unknown))}")
    state: Json = {}
    for block_id, block in inputs.items():
        element = block["element"]
        value = values.get(block_id, _initial(element))
        if value in {None, ""} and not block.get("optional"):
            raise ValueError(f"{block_id} is required")
        state[block_id] = {element["action_id"]: _entered(block_id, element, value)}
    return state


def _entered(block_id: str, element: Json, value: Any) -> Json:
    kind = element["type"]
    if kind in DATES:
        return {"type": kind, DATES[kind]: value or None}
    if kind not in CHOICES:
        text = value or None
        shortest, longest = element.get("min_length", 0), element.get("max_length", 3000)
        if text is not None and not shortest <= len(text) <= longest:
            raise ValueError(f"{block_id} must have {shortest} to {longest} characters")
        return {"type": kind, "value": text}
    options = {option["value"]: option for option in element["options"]}
    if kind == "checkboxes":
        return {"type": kind, "selected_options": [options[each] for each in (value or ())]}
    return {"type": kind, "selected_option": options[value] if value else None}


def _initial(element: Json) -> Any:
    """Return the value that an input has before a person touches it."""
    if "initial_option" in element:
        return element["initial_option"]["value"]
    if "initial_options" in element:
        return tuple(option["value"] for option in element["initial_options"])
    names = ("initial_value", "initial_date", "initial_time", "initial_date_time")
    return next((element[name] for name in names if name in element), None)


def _take_answer(core: Core, address: ResponseAddress, reply: Reply) -> None:
    """Show what the app answered to a command."""
    if reply.status == 200 and reply.body:
        shown = reply.body if isinstance(reply.body, dict) else {"text": str(reply.body)}
    elif reply.status == 200:
        return
    else:
        shown = {"text": f"{core.settings.command} failed with the error “operation_timeout” or {reply.status}"}
    with core.lock:
        show_answer(core, address, shown)


def _take_form_answer(form: Form, reply: Reply) -> None:
    """Do what the app answered to a form: show errors, show another form, or close it."""
    if reply.status != 200:
        form.errors = {"": "We had some trouble connecting. Try again?"}
        return
    answer = reply.body if isinstance(reply.body, dict) else {}
    action = answer.get("response_action")
    if action == "errors":
        form.errors = answer["errors"]
        blocks = {block.get("block_id") for block in form.view["blocks"] if block["type"] == "input"}
        if unknown := form.errors.keys() - blocks:
            raise ValueError(f"errors of blocks that are no inputs: {', '.join(sorted(unknown))}")
        return
    if action in {"update", "push"}:
        wrong = error_of_form(answer["view"])
        if wrong:
            raise ValueError(wrong)
        form.view, form.errors = answer["view"], {}
        return
    form.open, form.errors = False, {}


def _trigger(core: Core, team: str, user: str) -> str:
    made = f"{core.next_id('')}.{team}"
    core.triggers[made] = Trigger(team, user, core.clock())
    return made


def _response_address(core: Core, team: str, channel: str, user: str, message_ts: str | None) -> str:
    number = core.next_id("R")
    core.responses[number] = ResponseAddress(team, channel, user, message_ts, core.clock())
    return number
