"""Commands: what a person types in a channel."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from rules.slack import answers, forms
from rules.slack.blocks import Message
from rules.slack.commands import Command, read_subject, read_subscription
from rules.slack.pages import Pages
from rules.slack.payloads import TypedCommand
from slack_app.calls import Call, Calls
from slack_app.ports import Workspaces

_PAGE = 100
_UNNAMED = ("privategroup", "directmessage")
"""What Slack says in place of the names of private channels and conversations."""
_LINKED_ALREADY = ":link: Your Slack user is linked to your account. `unlink` ends that."
NOT_OPENED = "Slack did not open the form in time. Try again."


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed command, with what is needed to run it."""

    command: Command
    payload: TypedCommand
    calls: Calls
    workspaces: Workspaces
    pages: Pages


async def run(typed: Typed) -> Message | None:
    """Run a command, and return the answer; None if a form was opened instead. Raise RefusedError."""
    return await _VERBS[typed.command.verb](typed)


async def _status(typed: Typed) -> Message:
    if not typed.command.words:
        return await _freezes(typed, liftable=False)
    repository, branch = read_subject(typed.command.words[0])
    query = {"repo": repository} | ({"branch": branch} if branch else {})
    return answers.branch_state(await typed.calls.call("get_freeze_state", Call(query=query)), typed.pages)


async def _start(typed: Typed) -> Message | None:
    return await _open(typed, forms.start_form(typed.command.rest))


async def _lift(typed: Typed) -> Message:
    if not typed.command.words:
        return await _freezes(typed, liftable=True)
    freeze_id = typed.command.words[0]
    freeze = await typed.calls.call(
        "lift_freeze", Call(path_params={"freezeId": freeze_id}, body={}, key=typed.payload.key)
    )
    return answers.lifted(freeze)


async def _request(typed: Typed) -> Message | None:
    return await _open(typed, forms.request_form(typed.command.rest))


async def _subscribe(typed: Typed) -> Message:
    events, patterns = read_subscription(typed.command.words)
    name = typed.payload.channel_name
    body = {
        "channelId": typed.payload.channel_id,
        **({} if name in _UNNAMED or not name else {"channelName": name}),
        **({"events": events} if events else {}),
        **({"patterns": patterns} if patterns else {}),
    }
    subscription = await typed.calls.call("subscribe_slack_channel", Call(body=body, key=typed.payload.key))
    return answers.subscribed(subscription)


async def _unsubscribe(typed: Typed) -> Message:
    cursor = ""
    while True:
        query: dict[str, str | int] = {"limit": _PAGE} | ({"cursor": cursor} if cursor else {})
        page = await typed.calls.call("list_slack_subscriptions", Call(query=query))
        for row in page["data"]:
            if row["channelId"] == typed.payload.channel_id:
                path_params = {"slackSubscriptionId": row["id"]}
                await typed.calls.call("unsubscribe_slack_channel", Call(path_params=path_params))
                return answers.said(":no_bell: Nothing is posted to this channel any more.")
        cursor = page["nextCursor"]
        if not cursor:
            return answers.said("This channel is not subscribed to anything.")


async def _link(_: Typed) -> Message:
    return answers.said(_LINKED_ALREADY)


async def _unlink(typed: Typed) -> Message:
    await typed.calls.call("unlink_slack_user")
    return answers.said("Your Slack user is not linked to your account any more.")


async def _freezes(typed: Typed, *, liftable: bool) -> Message:
    query: dict[str, str | int] = {"state": "in_force", "limit": answers.MAX_SHOWN}
    page = await typed.calls.call("list_freezes", Call(query=query))
    more = page["nextCursor"] is not None
    return answers.freezes_in_force(page["data"], typed.pages, more=more, liftable=liftable)


async def _open(typed: Typed, form: forms.Form) -> Message | None:
    opened = await typed.workspaces.open_form(typed.payload.person, typed.payload.trigger_id, form)
    return None if opened else answers.said(NOT_OPENED)


_VERBS: Mapping[str, Callable[[Typed], Awaitable[Message | None]]] = {
    "status": _status,
    "start": _start,
    "lift": _lift,
    "request": _request,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "link": _link,
    "unlink": _unlink,
}
