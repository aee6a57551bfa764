"""Pages in plain HTML: the consent of an installation, and workspaces where a person types, clicks and submits."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape, unescape
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

from tools.fake_slack import oauth, people
from tools.fake_slack.model import Form, Json, Message, Workspace
from tools.fake_slack.slack import FakeSlack
from tools.simulation.answers import Answer
from tools.simulation.wire import Incoming

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1d1c1d;"
    "background:#fff}h1{font-size:1.4rem}button,input,select,textarea{font:inherit;padding:.3rem .6rem;margin:.15rem 0}"
    "form{display:inline}.message,.form{border:1px solid #d5d5d5;padding:.5rem .8rem;margin:.6rem 0}"
    ".reply{margin-left:2rem}.ephemeral{background:#f8f8f0}.form{background:#f3f7fb}nav a{margin-right:.8rem}"
    "label{display:block;margin:.5rem 0}[role=alert]{color:#a41c4e}.facts{color:#5f5e60;font-size:.85rem}"
    "pre{white-space:pre-wrap;font:inherit;margin:0}input[type=text],textarea{width:100%;box-sizing:border-box}"
)
HEADERS = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
_MARKUP = re.compile(r"<([^<>]*)>")
_BOLD = re.compile(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])")
_DATE = re.compile(r"!date\^(\d+)\^[^|]*\|.*")


def answer(slack: FakeSlack, incoming: Incoming) -> Answer:
    """Answer a request for a page."""
    if incoming.path == "/oauth/v2/authorize":
        return _authorize(slack, incoming)
    if incoming.path.strip("/") not in {"", "do"}:
        return page("Not found", "<p>There is no such page.</p>", 404)
    sent = parse_qs(incoming.raw.decode(), keep_blank_values=True)
    try:
        return _do(slack, sent) if incoming.method == "POST" else _show(slack, incoming.query)
    except (KeyError, ValueError, StopIteration) as error:
        return page("Not possible", f"<p role=alert>{escape(str(error))}</p>", 400)


def page(title: str, body: str, status: int = 200) -> Answer:
    """Return a page; `body` is HTML."""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>{body}"
        '<p class="facts">This is a simulation of Slack.</p></main></body></html>'
    )
    return Answer(status, text.encode(), dict(HEADERS))


def _authorize(slack: FakeSlack, incoming: Incoming) -> Answer:
    """Show the consent of an installation, or do what a person has decided."""
    query = incoming.query
    refused = oauth.refuse(slack, query)
    if refused:
        return page("Something went wrong", f"<p role=alert>{escape(refused)}</p>", 400)
    if incoming.method == "POST":
        sent = dict(parse_qsl(incoming.raw.decode()))
        with slack.lock:
            if sent.get("decision") != "allow":
                return Answer(303, None, {"Location": oauth.cancel(query)})
            team = sent["team"]
            user = "U0ADA" if team == oauth.EVERYWHERE else next(iter(slack.workspace(team).people))
            return Answer(303, None, {"Location": oauth.consent(slack, query, team, user)})
    chosen = query.get("team")
    options = "".join(
        f'<option value="{each.id}"{" selected" if each.id == chosen else ""}>{escape(each.name)}</option>'
        for each in slack.workspaces.values()
    )
    scopes = "".join(f"<li>{escape(scope)}</li>" for scope in query["scope"].split(","))
    body = (
        f"<p>The app requests permission to:</p><ul>{scopes}</ul>"
        f'<form method="post"><label>Workspace <select name="team">{options}'
        f'<option value="{oauth.EVERYWHERE}">All workspaces of the enterprise</option></select></label>'
        '<button name="decision" value="allow">Allow</button> '
        '<button name="decision" value="cancel">Cancel</button></form>'
    )
    return page("Change freezes requests access to a workspace", body)


def _show(slack: FakeSlack, query: dict[str, str]) -> Answer:
    """Show a channel as a person sees it, with their open forms."""
    workspace = slack.workspace(query.get("team") or next(iter(slack.workspaces)))
    user = query.get("user") or next(iter(workspace.people))
    channel = query.get("channel") or next(iter(workspace.channels))
    with slack.lock:
        body = _navigation(slack, workspace, channel, user)
        body += "".join(_form(form, workspace.id, channel, user) for form in slack.open_forms(user))
        messages = slack.shown(channel, user)
        tops = [each for each in messages if each.thread_ts is None]
        for top in tops:
            body += _message(top, workspace.id, user)
            body += "".join(_message(each, workspace.id, user) for each in messages if each.thread_ts == top.ts)
    hidden = _hidden(team=workspace.id, channel=channel, user=user)
    body += (
        f'<form method="post" action="/do">{hidden}<label>Message <input type="text" name="text" autocomplete="off" '
        f'value="{escape(slack.settings.command)} "></label><button name="do" value="type">Send</button></form>'
    )
    named = workspace.channels[channel].name
    return page(f"#{named} · {workspace.name}", body)


def _do(slack: FakeSlack, sent: dict[str, list[str]]) -> Answer:
    """Do what a person has done on the page, and show it again."""
    given = {name: values[-1] for name, values in sent.items()}
    kind, where = given["do"], {name: given[name] for name in ("team", "channel", "user")}
    if kind == "type":
        command, _, text = given["text"].strip().partition(" ")
        people.type_command(slack, where["user"], where["channel"], text, command)
    elif kind == "click":
        people.click(slack, where["user"], where["channel"], given["ts"], given["action"])
    elif kind == "submit":
        people.submit(slack, given["form"], _values(slack.forms[given["form"]].view, sent))
    elif kind == "close":
        slack.forms[given["form"]].open = False
    elif kind == "uninstall":
        people.uninstall(slack, where["team"])
    else:
        raise ValueError(f"unknown action {kind}")
    return Answer(303, None, {"Location": f"/?{urlencode(where)}"})


def _values(view: Json, sent: dict[str, list[str]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for block in view["blocks"]:
        if block["type"] == "input":
            found = sent.get(f"value:{block['block_id']}", [])
            several = block["element"]["type"] == "checkboxes"
            values[block["block_id"]] = tuple(found) if several else next(iter(found), "").replace("\r\n", "\n")
    return values


def _navigation(slack: FakeSlack, workspace: Workspace, channel: str, user: str) -> str:
    def link(label: str, shown: bool, **where: str) -> str:  # noqa: FBT001 - of this function alone
        current = ' aria-current="page"' if shown else ""
        return f'<a href="/?{escape(urlencode(where))}"{current}>{escape(label)}</a>'

    teams = "".join(link(each.name, each.id == workspace.id, team=each.id) for each in slack.workspaces.values())
    channels = "".join(
        link(f"#{each.name}", each.id == channel, team=workspace.id, channel=each.id, user=user)
        for each in workspace.channels.values()
    )
    people_shown = "".join(
        link(name, each == user, team=workspace.id, channel=channel, user=each)
        for each, name in workspace.people.items()
    )
    installed = slack.token_of(workspace.id) is not None
    end = (
        f'<form method="post" action="/do">{_hidden(team=workspace.id, channel=channel, user=user)}'
        '<button name="do" value="uninstall">Uninstall the app</button></form>'
        if installed
        else "The app is not installed in this workspace."
    )
    return (
        f"<nav>Workspaces: {teams}</nav><nav>Channels: {channels}</nav><nav>You are: {people_shown}</nav>"
        f'<p class="facts">{end}</p>'
    )


def _message(message: Message, team: str, user: str) -> str:
    kinds = "message" + (" reply" if message.thread_ts else "") + (" ephemeral" if message.only_for else "")
    at = datetime.fromtimestamp(float(message.ts), UTC)
    notes = ["only visible to you"] * bool(message.only_for) + ["edited"] * message.edited
    body = (
        "".join(_block(block, message, team, user) for block in message.blocks) or f"<pre>{_mrkdwn(message.text)}</pre>"
    )
    facts = f'<p class="facts">Change freezes · {at:%H:%M:%S} {" · ".join(notes)}</p>'
    return f'<div class="{kinds}" id="m{escape(message.ts)}">{facts}{body}</div>'


def _block(block: Json, message: Message, team: str, user: str) -> str:
    """Return a block of a message."""
    if block["type"] == "actions":
        return "<p>" + "".join(_button(each, message, team, user) for each in block["elements"]) + "</p>"
    text = _static(block)
    accessory = block.get("accessory")
    return text + (_button(accessory, message, team, user) if accessory and accessory["type"] == "button" else "")


def _static(block: Json) -> str:
    """Return a block without what can be clicked."""
    kind = block["type"]
    if kind == "header":
        return f"<h2>{escape(block['text']['text'])}</h2>"
    if kind == "divider":
        return "<hr>"
    if kind == "context":
        return "".join(f'<p class="facts">{_text(each)}</p>' for each in block["elements"])
    texts = [block["text"]] if "text" in block else []
    return "".join(f"<pre>{_text(each)}</pre>" for each in [*texts, *block.get("fields", [])])


def _button(button: Json, message: Message, team: str, user: str) -> str:
    label = escape(button["text"]["text"])
    if "url" in button:
        return f'<a href="{escape(button["url"])}" rel="noreferrer">{label}</a> '
    confirm = button.get("confirm")
    asked = f' title="{escape(confirm["text"]["text"])}"' if confirm else ""
    hidden = _hidden(team=team, channel=message.channel, user=user, ts=message.ts, action=button["action_id"])
    return f'<form method="post" action="/do">{hidden}<button name="do" value="click"{asked}>{label}</button></form> '


def _form(form: Form, team: str, channel: str, user: str) -> str:
    view = form.view
    rows = "".join(_input(block, form) if block["type"] == "input" else _static(block) for block in view["blocks"])
    general = f'<p role="alert">{escape(form.errors[""])}</p>' if "" in form.errors else ""
    submit = view.get("submit", {}).get("text")
    buttons = f'<button name="do" value="submit">{escape(submit)}</button> ' if submit else ""
    buttons += '<button name="do" value="close">Close</button>'
    hidden = _hidden(team=team, channel=channel, user=user, form=form.id)
    title = escape(view["title"]["text"])
    return (
        f'<div class="form" id="form"><h2>{title}</h2>{general}'
        f'<form method="post" action="/do">{hidden}{rows}{buttons}</form></div>'
    )


def _input(block: Json, form: Form) -> str:
    element, name = block["element"], f"value:{block['block_id']}"
    error = form.errors.get(block["block_id"])
    alerted = f'<span role="alert">{escape(error)}</span>' if error else ""
    hint = f'<span class="facts">{escape(block["hint"]["text"])}</span>' if "hint" in block else ""
    optional = " (optional)" if block.get("optional") else ""
    field = _FIELDS.get(element["type"], _text_field)(element, escape(name))
    return f"<label>{escape(block['label']['text'])}{optional} {field}{hint}{alerted}</label>"


def _text_field(element: Json, name: str) -> str:
    value = escape(str(element.get("initial_value", "")))
    if element.get("multiline"):
        return f'<textarea name="{name}" rows="3">{value}</textarea>'
    return f'<input type="text" name="{name}" value="{value}">'


def _select(element: Json, name: str) -> str:
    chosen = element.get("initial_option", {}).get("value")
    rows = [
        f'<option value="{escape(each["value"])}"{" selected" if each["value"] == chosen else ""}>'
        f"{escape(each['text']['text'])}</option>"
        for each in element["options"]
    ]
    return f'<select name="{name}"><option value=""></option>{"".join(rows)}</select>'


def _checkboxes(element: Json, name: str) -> str:
    chosen = {each["value"] for each in element.get("initial_options", ())}
    return "".join(
        f'<label><input type="checkbox" name="{name}" value="{escape(each["value"])}"'
        f"{' checked' if each['value'] in chosen else ''}> {escape(each['text']['text'])}</label>"
        for each in element["options"]
    )


def _date(element: Json, name: str) -> str:
    return f'<input type="date" name="{name}" value="{escape(element.get("initial_date", ""))}">'


def _time(element: Json, name: str) -> str:
    return f'<input type="time" name="{name}" value="{escape(element.get("initial_time", ""))}">'


_FIELDS: dict[str, Callable[[Json, str], str]] = {
    "static_select": _select,
    "radio_buttons": _select,
    "checkboxes": _checkboxes,
    "datepicker": _date,
    "timepicker": _time,
}


def _text(text: Json) -> str:
    return _mrkdwn(text["text"]) if text.get("type") == "mrkdwn" else escape(text.get("text", ""))


def _mrkdwn(text: str) -> str:
    """Return the HTML of a text with Slack's markup: links, times, bold."""
    pieces = _MARKUP.split(text)
    shown = [
        _markup(piece) if number % 2 else _BOLD.sub(r"<strong>\1</strong>", escape(unescape(piece), quote=False))
        for number, piece in enumerate(pieces)
    ]
    return "".join(shown)


def _markup(inner: str) -> str:
    """Return what is between `<` and `>`: a time, a link, or a mention."""
    if time := _DATE.fullmatch(inner):
        return f"{datetime.fromtimestamp(int(time[1]), UTC):%Y-%m-%d %H:%M} UTC"
    address, _, label = inner.partition("|")
    if address.startswith(("http://", "https://")):
        return f'<a href="{escape(address)}" rel="noreferrer">{escape(unescape(label) or address)}</a>'
    return escape(unescape(label) or f"<{address}>")


def _hidden(**values: str) -> str:
    return "".join(f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in values.items())
