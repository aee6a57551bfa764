"""Blocks and forms as tests post them."""

from typing import Any

SECTION: dict[str, Any] = {
    "type": "section",
    "text": {"type": "mrkdwn", "text": "*Frozen* &amp; <https://x.test/a|a &lt;b&gt;>"},
}
BUTTONS: dict[str, Any] = {
    "type": "actions",
    "block_id": "freeze:frz_1",
    "elements": [
        {"type": "button", "action_id": "lift", "value": "frz_1", "text": {"type": "plain_text", "text": "Lift"}},
        {
            "type": "button",
            "action_id": "open",
            "url": "https://x.test/",
            "text": {"type": "plain_text", "text": "Open"},
        },
    ],
}
OPTIONS = [{"text": {"type": "plain_text", "text": each.title()}, "value": each} for each in ("all", "one")]


def text_input(block_id: str, **more: Any) -> dict[str, Any]:
    """Return an input of text."""
    element = {"type": "plain_text_input", "action_id": "value", **more}
    return {
        "type": "input",
        "block_id": block_id,
        "label": {"type": "plain_text", "text": block_id},
        "element": element,
    }


def form(*blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a form with these blocks, or with a reason and a choice."""
    choice = {
        "type": "input",
        "block_id": "scope",
        "optional": True,
        "label": {"type": "plain_text", "text": "Scope"},
        "element": {"type": "static_select", "action_id": "value", "options": OPTIONS},
    }
    return {
        "type": "modal",
        "callback_id": "start",
        "private_metadata": "m",
        "title": {"type": "plain_text", "text": "Freeze"},
        "submit": {"type": "plain_text", "text": "Freeze"},
        "blocks": list(blocks) or [text_input("reason", min_length=8, max_length=50), choice],
    }
