"""Buttons of messages.

Since the message was posted, the person may have lost the right to do what the button says, or somebody else may have
done it: the operation decides.
"""

from collections.abc import Awaitable, Callable, Mapping

from rules.slack import actions as names
from rules.slack import answers, forms
from rules.slack.blocks import Message
from rules.slack.payloads import Click
from slack_app.calls import Call, Calls, RefusedError
from slack_app.commands import NOT_OPENED
from slack_app.ports import Workspaces

_DONE_BEFORE = ("invalid_state", "not_frozen")
"""Error codes for a freeze or an exception that has changed since its message was posted."""


async def press(click: Click, calls: Calls, workspaces: Workspaces) -> Message | None:
    """Do what a button says, and return what the person is shown, if anything. Raise RefusedError."""
    if click.action in _FORMS:
        opened = await workspaces.open_form(click.person, click.trigger_id, _FORMS[click.action](click))
        return None if opened else answers.said(NOT_OPENED)
    if click.action not in _CALLS:
        return None
    try:
        return await _CALLS[click.action](click, calls)
    except RefusedError as error:
        if error.code in _DONE_BEFORE:
            await workspaces.redraw(click.person, click.value)
        raise


async def _lift(click: Click, calls: Calls) -> Message:
    return answers.lifted(
        await calls.call("lift_freeze", Call(path_params={"freezeId": click.value}, body={}, key=click.key))
    )


async def _grant(click: Click, calls: Calls) -> None:
    path_params = {"exceptionId": click.value}
    await calls.call(
        "decide_exception_request", Call(path_params=path_params, body={"decision": "grant"}, key=click.key)
    )


_CALLS: Mapping[str, Callable[[Click, Calls], Awaitable[Message | None]]] = {names.LIFT: _lift, names.GRANT: _grant}
_FORMS: Mapping[str, Callable[[Click], forms.Form]] = {
    names.REQUEST: lambda _: forms.request_form(),
    names.DENY: lambda click: forms.deny_form(click.value),
}
