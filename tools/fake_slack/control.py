"""The control plane under `/_control/`, for loopback development only: faults, settings, people, messages, counters.

What people do calls the app, which may call back, so it runs without the lock.
"""

from dataclasses import asdict

import orjson

from tools.fake_slack import people
from tools.fake_slack.sender import Reply
from tools.fake_slack.slack import FakeSlack
from tools.simulation import control
from tools.simulation.answers import Answer
from tools.simulation.control import Action, Json
from tools.simulation.wire import Incoming


def _put_settings(slack: FakeSlack, _query: dict[str, str], body: Json) -> Answer:
    slack.settings.update(body)
    slack.changes += 1
    return Answer(200, slack.settings.as_json())


def _list_messages(slack: FakeSlack, query: dict[str, str], _body: Json) -> Answer:
    """Query: `?channel=C…&user=U…`: the messages that a person sees in a channel."""
    shown = slack.shown(query["channel"], query.get("user"))
    return Answer(200, {"messages": [asdict(each) for each in shown]})


def _list_forms(slack: FakeSlack, query: dict[str, str], _body: Json) -> Answer:
    """Query: `?user=U…`: the forms that a person has open."""
    return Answer(200, {"forms": [asdict(each) for each in slack.open_forms(query["user"])]})


def _list_requests(slack: FakeSlack, _query: dict[str, str], _body: Json) -> Answer:
    return Answer(200, {"requests": slack.requests})


def _put_channel(slack: FakeSlack, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"team", "channel", "archived", "private", "restricted", "joined"}`."""
    channel = slack.workspace(body["team"]).channels[body["channel"]]
    for name in body.keys() - {"team", "channel"}:
        if name not in {"archived", "private", "restricted", "joined"}:
            raise ValueError(f"unknown property {name}")
        setattr(channel, name, bool(body[name]))
    slack.changes += 1
    return Answer(200, asdict(channel))


def _install(slack: FakeSlack, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"url", "user", "everywhere"}`: consent to an installation; returns the query of the way back."""
    user, everywhere = body.get("user", "U0ADA"), bool(body.get("everywhere"))
    return Answer(200, slack.install(body["url"], user, everywhere=everywhere))


def _type(slack: FakeSlack, body: Json) -> Reply:
    return people.type_command(slack, body["user"], body["channel"], body["text"], body.get("command"))


def _click(slack: FakeSlack, body: Json) -> Reply:
    from_team = body.get("fromTeam")
    return people.click(slack, body["user"], body["channel"], body["ts"], body["action"], from_team=from_team)


def _submit(slack: FakeSlack, body: Json) -> Reply:
    return people.submit(slack, body["form"], body["values"], from_team=body.get("fromTeam"))


def _uninstall(slack: FakeSlack, body: Json) -> Reply:
    replies = people.uninstall(slack, body["team"], tokens_first=bool(body.get("tokensFirst", True)))
    return max(replies, key=lambda reply: reply.status)


def _event(slack: FakeSlack, body: Json) -> Reply:
    return people.deliver_event(slack, body["team"], body["event"], body.get("id"), int(body.get("retry", 0)))


ACTIONS: dict[tuple[str, str], Action[FakeSlack]] = {
    ("PUT", "settings"): _put_settings,
    ("GET", "messages"): _list_messages,
    ("GET", "forms"): _list_forms,
    ("GET", "requests"): _list_requests,
    ("PUT", "channels"): _put_channel,
    ("POST", "install"): _install,
}
PEOPLE_ACTIONS = {"type": _type, "click": _click, "submit": _submit, "uninstall": _uninstall, "event": _event}
"""What people do: `POST /_control/<name>` → function. The answer is that of the app: `{"status", "body"}`."""


def answer(slack: FakeSlack, incoming: Incoming) -> Answer:
    """Answer a request of the control plane; what is wrong with it is said in a 400."""
    act = PEOPLE_ACTIONS.get(incoming.path.removeprefix("/_control/")) if incoming.method == "POST" else None
    if act is None:
        return control.answer(slack, ACTIONS, incoming)
    try:
        return Answer(200, asdict(act(slack, orjson.loads(incoming.raw))))
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        return Answer(400, {"message": f"{type(error).__name__}: {error}"})
