"""Requests of Slack, whose signature has been verified: who sends them, and how they are answered."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rules.slack import answers
from rules.slack.blocks import Message
from rules.slack.commands import read_command
from rules.slack.pages import Pages
from rules.slack.payloads import Challenge, Click, Inbound, SlackEvent, SlackPerson, Submission, TypedCommand
from schemas.calls import Application
from schemas.contract import Contract
from slack_app import buttons, commands, submissions
from slack_app.calls import Calls, RefusedError
from slack_app.ports import NoAccess, Workspaces

logger = logging.getLogger(__name__)

_NOT_CONNECTED = "This workspace is not connected to an organisation, or you are of another workspace."
_NOT_LINKED = "Your Slack user is not linked to an account. Type the command `link` in a channel first."

Answer = Mapping[str, Any] | None
"""The JSON that answers a request of Slack; None: an empty response, which shows nothing."""


@dataclass(frozen=True, slots=True)
class SlackApp:
    """Answers requests of Slack with calls of operations in `application`."""

    contract: Contract
    application: Application
    workspaces: Workspaces
    web_url: str

    async def receive(self, payload: Inbound, outer: Mapping[str, Any]) -> Answer:
        """Return the answer to a request; `outer` is its ASGI scope, in which operations are called."""
        if isinstance(payload, Challenge):
            return {"challenge": payload.challenge}
        if isinstance(payload, SlackEvent):
            await self.workspaces.take_event(payload.body)
        elif isinstance(payload, TypedCommand):
            return await self._run(payload, outer)
        elif isinstance(payload, Click):
            await self._press(payload, outer)
        elif isinstance(payload, Submission):
            return await self._submit(payload, outer)
        return {}

    async def _run(self, typed: TypedCommand, outer: Mapping[str, Any]) -> Answer:
        command = read_command(typed.text)
        if not command.is_known or command.verb == "help":
            unknown = None if command.is_known else command.verb
            return _ephemeral(answers.help_text(typed.command, unknown))
        calls = await self._calls(typed.person, outer)
        if isinstance(calls, str):
            return _ephemeral(await self._explain(typed.person, typed.person_name, calls))
        try:
            message = await commands.run(commands.Typed(command, typed, calls, self.workspaces, self._pages(calls)))
        except RefusedError as error:
            message = answers.refusal(error.message)
        return None if message is None else _ephemeral(message)

    async def _press(self, click: Click, outer: Mapping[str, Any]) -> None:
        """Do what a button says. The answer to a click shows nothing: a message for the person is a call of its own."""
        calls = await self._calls(click.person, outer)
        if isinstance(calls, str):
            message: Message | None = await self._explain(click.person, click.person_name, calls)
        else:
            try:
                message = await buttons.press(click, calls, self.workspaces)
            except RefusedError as error:
                message = answers.refusal(error.message)
        if message is not None and click.response_url:
            await self.workspaces.respond(click.response_url, message)

    async def _submit(self, submission: Submission, outer: Mapping[str, Any]) -> Answer:
        calls = await self._calls(submission.person, outer)
        if isinstance(calls, str):
            return submissions.show("Not possible", _NOT_LINKED if calls == "not_linked" else _NOT_CONNECTED)
        return await submissions.submit(submission, calls, self._pages(calls))

    def _pages(self, calls: Calls) -> Pages:
        return Pages(self.web_url, calls.access.organization_id)

    async def _calls(self, person: SlackPerson, outer: Mapping[str, Any]) -> Calls | NoAccess:
        """Return what calls operations as a Slack user; or why they cannot be called."""
        if person.foreign:
            return "not_connected"
        found = await self.workspaces.find(person)
        return found if isinstance(found, str) else Calls(self.contract, self.application, outer, found)

    async def _explain(self, person: SlackPerson, name: str, why: NoAccess) -> Message:
        """Return why a Slack user cannot act, or the address at which they can be linked."""
        if why == "not_connected":
            return answers.said(_NOT_CONNECTED)
        return answers.linking(await self.workspaces.issue_link(person, name))


def _ephemeral(message: Message) -> Mapping[str, Any]:
    return {"response_type": "ephemeral", **message.as_json()}
