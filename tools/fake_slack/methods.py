"""The methods of the Web API that an app calls with its token. A refusal is HTTP 200 with `ok: false`."""

from collections.abc import Callable
from typing import Any

from tools.fake_slack.core import APP_ID, BOT, Core
from tools.fake_slack.limits import error_of_form, error_of_message
from tools.fake_slack.model import Channel, Form, Json, Message, ResponseAddress, Token
from tools.simulation.answers import Answer

SCOPES_OF_TYPES = {"public_channel": "channels:read", "private_channel": "groups:read"}
TRIGGER_SECONDS = 3.0
RESPONSE_SECONDS, RESPONSE_USES = 1800.0, 5


def call(core: Core, method: str, params: Json, access_token: str | None) -> Answer:
    """Answer a call."""
    token = next((each for each in core.tokens if access_token and each.access_token == access_token), None)
    if token is None:
        return refuse("invalid_auth" if access_token else "not_authed")
    if token.revoked:
        return refuse("token_revoked")
    if method not in METHODS:
        return refuse("unknown_method")
    scope, run = METHODS[method]
    if scope is not None and scope not in token.scopes:
        return refuse("missing_scope", needed=scope, provided=",".join(token.scopes))
    return run(core, params, token)


def refuse(error: str, **more: Any) -> Answer:
    """Return a refusal with Slack's error code."""
    return Answer(200, {"ok": False, "error": error, **more})


def respond(core: Core, number: str, body: Json) -> Answer:
    """Answer a message to a `response_url`."""
    address = core.responses.get(number)
    if address is None or core.clock() - address.made_at > RESPONSE_SECONDS:
        return Answer(404, {"ok": False, "error": "expired_url"})
    if address.uses >= RESPONSE_USES:
        return Answer(404, {"ok": False, "error": "used_url"})
    address.uses += 1
    core.changes += 1
    message = core.message(address.channel, address.message_ts) if address.message_ts else None
    if body.get("delete_original") and message is not None:
        message.deleted = True
        return Answer(200, b"ok", {"Content-Type": "text/html"})
    wrong = error_of_message(body.get("text", ""), body.get("blocks", []))
    if wrong:
        return Answer(400, {"ok": False, "error": wrong[0]})
    if body.get("replace_original") and message is not None:
        message.text, message.blocks, message.edited = body.get("text", ""), body.get("blocks", []), True
    else:
        show_answer(core, address, body)
    return Answer(200, b"ok", {"Content-Type": "text/html"})


def show_answer(core: Core, address: ResponseAddress, body: Json) -> None:
    """Show an answer to a command or click: to the person alone, unless it says otherwise."""
    only_for = None if body.get("response_type") == "in_channel" else address.user
    shown = body.get("text", ""), body.get("blocks", [])
    core.messages.append(Message(core.next_ts(), address.team, address.channel, *shown, only_for=only_for))
    core.changes += 1


def _revoke(core: Core, _params: Json, token: Token) -> Answer:
    token.revoked = True
    core.changes += 1
    return Answer(200, {"ok": True, "revoked": True})


def _post(core: Core, params: Json, token: Token) -> Answer:
    refused = _refuse_channel(core, params, token) or _refuse_content(params) or _refuse_rate(core, params)
    if refused:
        return refused
    thread = params.get("thread_ts")
    made = Message(
        core.next_ts(), str(token.team), params["channel"], params.get("text", ""), params.get("blocks", []), thread
    )
    core.messages.append(made)
    core.changes += 1
    shown = {"type": "message", "user": BOT, "bot_id": "B0BOT", "app_id": APP_ID, "text": made.text, "ts": made.ts}
    return Answer(200, {"ok": True, "channel": made.channel, "ts": made.ts, "message": shown})


def _update(core: Core, params: Json, token: Token) -> Answer:
    refused = _refuse_channel(core, params, token) or _refuse_content(params)
    if refused:
        return refused
    found = core.message(params["channel"], params.get("ts", ""))
    if found is None or found.only_for is not None:
        return refuse("message_not_found")
    found.text, found.blocks, found.edited = params.get("text", ""), params.get("blocks", []), True
    core.changes += 1
    return Answer(200, {"ok": True, "channel": found.channel, "ts": found.ts, "text": found.text})


def _list_channels(core: Core, params: Json, token: Token) -> Answer:
    """List channels as Slack does: what is left out is left out of a page after the page was cut."""
    types = set(str(params.get("types") or "public_channel").split(","))
    if types - SCOPES_OF_TYPES.keys():
        return refuse("invalid_types")
    missing = [SCOPES_OF_TYPES[each] for each in sorted(types) if SCOPES_OF_TYPES[each] not in token.scopes]
    if missing:
        return refuse("missing_scope", needed=",".join(missing), provided=",".join(token.scopes))
    limit, cursor = str(params.get("limit") or "100"), str(params.get("cursor") or "")
    if not limit.isdecimal() or not 0 < int(limit) < 1000:
        return refuse("invalid_limit")
    channels = list(core.workspace(str(token.team)).channels.values())
    visible = [each for each in channels if not each.private or each.joined]
    ids = [each.id for each in visible]
    if cursor and cursor not in ids:
        return refuse("invalid_cursor")
    start = ids.index(cursor) if cursor else 0
    end = start + int(limit)
    shown = [
        _channel_view(core, each, token)
        for each in visible[start:end]
        if ("private_channel" if each.private else "public_channel") in types
        and not (each.archived and params.get("exclude_archived") in {"true", "1", True})
    ]
    next_cursor = ids[end] if end < len(ids) else ""
    return Answer(200, {"ok": True, "channels": shown, "response_metadata": {"next_cursor": next_cursor}})


def _channel_view(core: Core, channel: Channel, token: Token) -> Json:
    """Return a channel with the properties of a listed one."""
    written = {"value": "", "creator": "", "last_set": 0}
    return {
        "id": channel.id,
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": not channel.private,
        "is_group": channel.private,
        "is_im": False,
        "is_mpim": False,
        "is_private": channel.private,
        "is_archived": channel.archived,
        "is_general": channel.name == "general",
        "is_member": channel.joined,
        "is_shared": False,
        "is_ext_shared": False,
        "is_org_shared": False,
        "is_pending_ext_shared": False,
        "pending_shared": [],
        "pending_connected_team_ids": [],
        "shared_team_ids": [str(token.team)],
        "context_team_id": str(token.team),
        "created": 1_700_000_000,
        "creator": next(iter(core.workspace(str(token.team)).people)),
        "unlinked": 0,
        "topic": written,
        "purpose": written,
        "previous_names": [],
        "num_members": len(core.workspace(str(token.team)).people),
    }


def _open_view(core: Core, params: Json, token: Token) -> Answer:
    trigger = core.triggers.get(params.get("trigger_id", ""))
    if trigger is None or trigger.team != token.team:
        return refuse("invalid_trigger_id")
    if trigger.used:
        return refuse("exchanged_trigger_id")
    if core.clock() - trigger.made_at > TRIGGER_SECONDS:
        return refuse("expired_trigger_id")
    view = params.get("view")
    wrong = error_of_form(view) if isinstance(view, dict) else "no view"
    if wrong or not isinstance(view, dict):
        return refuse("invalid_arguments", response_metadata={"messages": [f"[ERROR] {wrong}"]})
    trigger.used = True
    form = Form(core.next_id("V"), trigger.team, trigger.user, view)
    core.forms[form.id] = form
    shown = {**form.view, "id": form.id, "team_id": form.team, "app_id": APP_ID, "hash": "1", "state": {"values": {}}}
    return Answer(200, {"ok": True, "view": shown})


def _refuse_channel(core: Core, params: Json, token: Token) -> Answer | None:
    channel = core.channel(str(token.team), str(params.get("channel", "")))
    if channel is None or (channel.private and not channel.joined):
        return refuse("channel_not_found")
    if channel.archived:
        return refuse("is_archived")
    if channel.restricted:
        return refuse("restricted_action")
    if not channel.joined and "chat:write.public" not in token.scopes:
        return refuse("not_in_channel")
    return None


def _refuse_content(params: Json) -> Answer | None:
    wrong = error_of_message(params.get("text", ""), params.get("blocks", []))
    if wrong is None:
        return None
    return refuse(wrong[0], response_metadata={"messages": [f"[ERROR] {wrong[1]}"]})


def _refuse_rate(core: Core, params: Json) -> Answer | None:
    now, pause = core.clock(), core.settings.seconds_per_message
    last = core.posted_at.get(params["channel"])
    if pause and last is not None and now - last < pause:
        return Answer(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "1"})
    core.posted_at[params["channel"]] = now
    return None


METHODS: dict[str, tuple[str | None, Callable[[Core, Json, Token], Answer]]] = {
    "auth.revoke": (None, _revoke),
    "chat.postMessage": ("chat:write", _post),
    "chat.update": ("chat:write", _update),
    "conversations.list": (None, _list_channels),
    "views.open": (None, _open_view),
}
"""Each method with the scope that it needs; `conversations.list` needs one for each type that is asked for."""
