"""What the app needs from the service around it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from rules.slack.blocks import Message
from rules.slack.forms import Form
from rules.slack.payloads import SlackPerson


class Access(NamedTuple):
    """How operations are called for a Slack user."""

    organization_id: str
    authenticate: Callable[[dict[str, Any]], None]
    """Changes the ASGI scope of a call, so that the operation acts for the person."""


NoAccess = Literal["not_linked", "not_connected"]
"""Why a Slack user cannot act: nobody has linked them, or their workspace is not connected to an organisation."""


class Workspaces(Protocol):
    """The connected workspaces, and the people in them."""

    async def find(self, person: SlackPerson) -> Access | NoAccess:
        """Return how calls act for a Slack user; or why they cannot."""

    async def issue_link(self, person: SlackPerson, name: str) -> str:
        """Return a one-time address at which a Slack user is linked to a person."""

    async def take_event(self, body: Mapping[str, Any]) -> None:
        """Record what an event says."""

    async def open_form(self, person: SlackPerson, trigger_id: str, form: Form) -> bool:
        """Open a form; False if Slack did not."""

    async def respond(self, response_url: str, message: Message) -> None:
        """Show a message to the person who clicked, and to nobody else."""

    async def redraw(self, person: SlackPerson, subject_id: str) -> None:
        """Have all messages about a freeze or an exception updated, so that they show it as it is now."""
