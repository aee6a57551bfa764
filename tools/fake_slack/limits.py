"""What Slack accepts as blocks and forms: lengths and shapes by slack_sdk's models, and what those leave out."""

import json
from collections.abc import Iterator
from typing import Any

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

Json = dict[str, Any]
MAX_BLOCKS_OF_MESSAGE, MAX_BLOCKS_OF_FORM = 50, 100
MAX_BLOCKS_LENGTH = 13_000
"""Characters of all blocks together."""
MAX_TEXT = 40_000
ONLY_IN_FORMS = frozenset({"input"})


def error_of_message(text: str, blocks: list[Json]) -> tuple[str, str] | None:
    """Return Slack's error code for what is wrong with a message, and why; None if nothing is."""
    if not text and not blocks:
        return "no_text", "neither text nor blocks"
    if len(text) > MAX_TEXT:
        return "msg_too_long", "the text is too long"
    if len(json.dumps(blocks)) > MAX_BLOCKS_LENGTH:
        return "msg_blocks_too_long", "the blocks are too long"
    wrong = _error_of_blocks(blocks, MAX_BLOCKS_OF_MESSAGE)
    return ("invalid_blocks", wrong) if wrong else None


def error_of_form(view: Json) -> str | None:
    """Return what is wrong with a form; None if nothing is."""
    blocks = view.get("blocks")
    if not isinstance(blocks, list) or view.get("type") != "modal" or not isinstance(view.get("title"), dict):
        return "a form is a modal with a title and blocks [json-pointer:/view]"
    if any(block.get("type") == "input" for block in blocks) and "submit" not in view:
        return "a form with inputs needs a button [json-pointer:/view/submit]"
    for part in ("title", "submit", "close"):
        if not _is_plain(view.get(part)) or len((view.get(part) or {}).get("text", "")) > 24:
            return f"must be plain text of at most 24 characters [json-pointer:/view/{part}]"
    try:
        View(**{**view, "blocks": [Block.parse(block) for block in blocks]}).to_dict()
    except (SlackObjectFormationError, TypeError) as error:
        return str(error)
    return _error_of_blocks(blocks, MAX_BLOCKS_OF_FORM)


def _error_of_blocks(blocks: list[Json], most: int) -> str | None:
    if len(blocks) > most:
        return f"no more than {most} items allowed [json-pointer:/blocks]"
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    if len(set(ids)) < len(ids):
        return "block_id has to be unique [json-pointer:/blocks]"
    for number, block in enumerate(blocks):
        wrong = _error_of_block(block, in_form=most == MAX_BLOCKS_OF_FORM)
        if wrong:
            return f"{wrong} [json-pointer:/blocks/{number}]"
    return None


def _error_of_block(block: Json, *, in_form: bool) -> str | None:
    if block.get("type") in ONLY_IN_FORMS and not in_form:
        return f"unsupported type in a message: {block['type']}"
    try:
        parsed = Block.parse(block)
        if parsed is None:
            return f"unsupported type: {block.get('type')}"
        parsed.to_dict()
    except (SlackObjectFormationError, TypeError) as error:
        return str(error)
    actions = [each["action_id"] for each in elements_of(block) if "action_id" in each]
    if len(set(actions)) < len(actions):
        return "action_id has to be unique"
    return next((wrong for part in _objects(block) if (wrong := _error_of_part(part))), None)


def _error_of_part(part: Json) -> str | None:
    """Return what is wrong with a text, a button or a confirmation, wherever it is."""
    if part.get("type") in {"mrkdwn", "plain_text"}:
        text = part.get("text")
        if not isinstance(text, str) or not text:
            return "a text must not be empty"
        return "a text is too long" if len(text) > 3000 else None
    if part.get("type") == "button":
        label = part.get("text") or {}
        if not _is_plain(label) or len(label.get("text", "")) > 75:
            return "the text of a button has at most 75 characters"
        if len(part.get("value", "")) > 2000 or len(part.get("action_id", "")) > 255 or len(part.get("url", "")) > 3000:
            return "value, action_id or url of a button is too long"
    return None


def _is_plain(text: Any) -> bool:
    return text is None or (isinstance(text, dict) and text.get("type") == "plain_text")


def elements_of(block: Json) -> list[Json]:
    """Return the elements of a block that a person can use."""
    found = [*block.get("elements", []), block.get("element"), block.get("accessory")]
    return [each for each in found if isinstance(each, dict) and "action_id" in each]


def _objects(value: Any) -> Iterator[Json]:
    """Yield all JSON objects in a value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _objects(each)
