"""What messages say of blocking: a line with a mark for each state that is worse than blocked."""

from collections.abc import Iterable, Mapping
from typing import Any

from rules.freezes.blocking_words import BranchNumbers, Statement, meaning_of, numbers_of_view

_MARKS = {"not_blocked": ":red_circle:", "unknown": ":large_orange_circle:", "partly": ":large_orange_circle:"}

MAX_REASONS = 3
"""Reasons of each state that a message shows: those of most branches."""

Gaps = Iterable[Mapping[str, Any]]


def warnings(numbers: BranchNumbers, gaps: Gaps) -> list[str]:
    """Return, as mrkdwn and the worst first, what is not wholly blocked, and why; nothing of what is being written."""
    found = list(gaps)
    return [
        " ".join([f"{_MARKS[each.state]} *{each.text}.*", *_reasons(each, found)])
        for each in numbers.statements
        if each.state != "blocked" and not each.passing
    ]


def warnings_of_freeze(freeze: Mapping[str, Any]) -> list[str]:
    """Return the warnings of the contract's `Freeze`, with a line while its checks are being written."""
    return _warnings_of(freeze, freeze["gaps"])


def worst_of_freeze(freeze: Mapping[str, Any]) -> str:
    """Return the first of them without its reasons, for lists; empty if every branch is blocked."""
    return next(iter(_warnings_of(freeze, ())), "")


def _warnings_of(freeze: Mapping[str, Any], gaps: Gaps) -> list[str]:
    numbers = numbers_of_view(freeze["targets"], freeze["gaps"])
    passing = [f":hourglass: {each.text}: checks are being written." for each in numbers.statements if each.passing]
    return [*passing, *warnings(numbers, gaps)]


def _reasons(statement: Statement, gaps: list[Mapping[str, Any]]) -> list[str]:
    mine = [gap for gap in gaps if gap["state"] == statement.state]
    several = len(mine) > 1
    shown = [meaning_of(gap["code"]) + (f" ({gap['branchCount']:,})" if several else "") for gap in mine[:MAX_REASONS]]
    return shown if len(mine) <= MAX_REASONS else [*shown, f"And {len(mine) - MAX_REASONS} more reasons."]
