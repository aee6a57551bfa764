"""Forms that Slack shows over a channel, and what people wrote into them."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rules.slack import actions as names
from rules.slack.blocks import MAX_TITLE, Block, plain_text, section
from rules.slack.markup import MAX_REASON, at, count, words
from rules.slack.payloads import MAX_INSTANT

MAX_REASON_LENGTH = 1000
MAX_SCOPE_LENGTH = 400
"""So that all that a person wrote fits into the 3,000 characters that a confirmation carries."""
MAX_PULL_LENGTH = 500

Form = dict[str, Any]


def start_form(scope: str) -> Form:
    """Return the form that starts a freeze."""
    return _form(
        names.START_FORM,
        "Freeze merging",
        "Freeze",
        [
            _field(names.SCOPE, "What", MAX_SCOPE_LENGTH, initial=scope, hint=_SCOPE_HINT),
            {
                "type": "input",
                "block_id": names.UNTIL,
                "optional": True,
                "label": plain_text("Until (leave empty to lift it yourself)", 150),
                "element": {"type": "datetimepicker", "action_id": names.VALUE},
            },
            _field(names.REASON, "Why", MAX_REASON_LENGTH, multiline=True),
        ],
    )


_SCOPE_HINT = "everything, or names and patterns of repositories: acme/web, acme/web#main, acme/*"


def confirm_form(wanted: Mapping[str, Any], preview: Mapping[str, Any]) -> Form:
    """Return the form that shows how much a wide freeze reaches before it starts."""
    until = (
        f"until {at(datetime.fromtimestamp(wanted['until'], UTC))}" if wanted["until"] else "until a person lifts it"
    )
    reaches = (
        f"This freezes *{count(preview['branchCount'], 'branch', 'branches')} of "
        f"{count(preview['repositoryCount'], 'repository', 'repositories')}* with "
        f"{count(preview['openPullRequestCount'], 'open pull request')}, {until}."
    )
    blocks = [section(reaches), section(f">{words(wanted['reason'], MAX_REASON)}")]
    missing = preview["unenforcedBranchCount"]
    if missing:
        which = f"{missing:,} of {count(preview['branchCount'], 'branch', 'branches')}"
        verb = "is" if missing == 1 else "are"
        warned = (
            f":red_circle: *{which} {verb} not known to block.* No rule at GitHub is known to require our check there."
        )
        blocks.insert(0, section(warned))
    carried = json.dumps({**wanted, "count": preview["repositoryCount"]}, ensure_ascii=False, separators=(",", ":"))
    return _form(names.CONFIRM_FORM, "Freeze merging?", "Freeze", blocks, metadata=carried)


def request_form(pull_request: str = "") -> Form:
    """Return the form that requests an exception."""
    fields = [
        _field(names.PULL_REQUEST, "Pull request", MAX_PULL_LENGTH, initial=pull_request, hint=_PULL_HINT),
        _field(names.REASON, "Why now", MAX_REASON_LENGTH, multiline=True),
    ]
    return _form(names.REQUEST_FORM, "Request an exception", "Request", fields)


_PULL_HINT = "Its address, or acme/web#7"


def deny_form(exception_id: str) -> Form:
    """Return the form that denies a request, with a reason if the person gives one."""
    field = {**_field(names.REASON, "Reason", MAX_REASON_LENGTH, multiline=True), "optional": True}
    return _form(names.DENY_FORM, "Deny the exception", "Deny", [field], metadata=exception_id)


def done_form(title: str, text: str) -> Form:
    """Return what a form shows after it was sent."""
    return {
        "type": "modal",
        "title": plain_text(title, MAX_TITLE),
        "close": plain_text("Close", MAX_TITLE),
        "blocks": [section(text)],
    }


def confirmed_values(metadata: str) -> dict[str, Any]:
    """Return what a confirmation carries. Raise ValueError if it is not ours."""
    try:
        carried = json.loads(metadata)
    except RecursionError:
        raise ValueError("a confirmation is not nested") from None
    kinds = {"scope": str, "reason": str, "count": int, "until": int | None}
    if not isinstance(carried, dict) or not all(
        name in carried and isinstance(carried[name], kind) for name, kind in kinds.items()
    ):
        raise ValueError("a confirmation carries what was written before")
    if carried["until"] is not None and not 0 < carried["until"] < MAX_INSTANT:
        raise ValueError("an instant is seconds since the epoch")
    return carried


def _form(callback: str, title: str, submit: str, blocks: Sequence[Block], *, metadata: str = "") -> Form:
    return {
        "type": "modal",
        "callback_id": callback,
        "private_metadata": metadata,
        "title": plain_text(title, MAX_TITLE),
        "submit": plain_text(submit, MAX_TITLE),
        "close": plain_text("Cancel", MAX_TITLE),
        "blocks": list(blocks),
    }


def _field(name: str, label: str, length: int, *, multiline: bool = False, initial: str = "", hint: str = "") -> Block:
    element: Block = {
        "type": "plain_text_input",
        "action_id": names.VALUE,
        "max_length": length,
        "multiline": multiline,
    }
    if initial:
        element["initial_value"] = initial[:length]
    made: Block = {"type": "input", "block_id": name, "label": plain_text(label, 150), "element": element}
    if hint:
        made["hint"] = plain_text(hint, 150)
    return made
