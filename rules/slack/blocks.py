"""Blocks of Slack's Block Kit, within its limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rules.plain_text import one_line
from rules.slack import actions as names

MAX_BLOCKS = 50
MAX_SECTION = 3000
MAX_BUTTON = 75
MAX_TITLE = 24
"""Of a form, and of its buttons."""
MAX_ALL = 13_000
"""Characters of all blocks of a message as JSON: Slack refuses more, and does not document it."""
MAX_TEXT = 500
"""Of the text of a message: what notifications and screen readers show."""

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """A message: blocks, and the text for notifications, screen readers, and where blocks are refused."""

    text: str
    blocks: Sequence[Block]

    def as_json(self) -> dict[str, Any]:
        """Return the message as Slack's methods and answers take it."""
        return {"text": self.text, "blocks": list(self.blocks)}


def mrkdwn(text: str) -> Block:
    """Return a text with markup; `verbatim` keeps Slack from making links of addresses and names in it."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def plain_text(text: str, length: int) -> Block:
    """Return a text that is shown literally."""
    return {"type": "plain_text", "text": one_line(text, length), "emoji": False}


def section(text: str, accessory: Block | None = None) -> Block:
    """Return a paragraph, with a button beside it if there is one."""
    made: Block = {"type": "section", "text": mrkdwn(text)}
    if accessory is not None:
        made["accessory"] = accessory
    return made


def context(text: str) -> Block:
    """Return a small line."""
    return {"type": "context", "elements": [mrkdwn(text)]}


def actions(buttons: Sequence[Block]) -> Block:
    """Return a row of buttons."""
    return {"type": "actions", "elements": list(buttons)}


def button(text: str, action: str, value: str, *, style: str | None = None, question: str | None = None) -> Block:
    """Return a button; with a `question` it is pressed only after a confirmation."""
    made: Block = {"type": "button", "action_id": action, "value": value, "text": plain_text(text, MAX_BUTTON)}
    if style is not None:
        made["style"] = style
    if question is not None:
        made["confirm"] = {
            "title": plain_text("Are you sure?", 100),
            "text": plain_text(question, 300),
            "confirm": plain_text(text, 30),
            "deny": plain_text("Cancel", 30),
        }
    return made


def open_button(url: str) -> Block:
    """Return a button that opens a page of the service."""
    return {"type": "button", "action_id": names.OPEN, "url": url, "text": plain_text("Open", MAX_BUTTON)}
