"""What a check says to the person who is waiting: which freeze, why, until when, and what to do about it."""

from datetime import datetime

from rules.verdict import CoveringFreeze, Verdict

SHOWN = 10
"""Freezes listed in full; GitHub takes 65,535 characters, people far fewer."""


def instant(value: datetime | None) -> str:
    """Return an instant as people read it in a summary."""
    return value.strftime("%Y-%m-%d %H:%M UTC") if value else "it is lifted"


def title(verdict: Verdict) -> str:
    """Return the check's title, one line."""
    if not verdict.blocking:
        return "No freeze covers this branch"
    branches = ", ".join(verdict.branches)
    return f"Merging into {branches} is frozen until {instant(_until(verdict))}"[:255]


def summary(verdict: Verdict) -> str:
    """Return the check's summary, Markdown."""
    if not verdict.blocking:
        return "Merging is allowed. This check turns red by itself when a change freeze begins."
    lines = [_line(freeze) for freeze in verdict.blocking[:SHOWN]]
    hidden = len(verdict.blocking) - SHOWN
    if hidden > 0:
        lines.append(f"- and {hidden} more")
    return "\n".join(["This branch is covered by a change freeze:", "", *lines, "", _advice(verdict)])


SUPERSEDED_TITLE = "No open pull request has this head"
SUPERSEDED_SUMMARY = (
    "A newer commit, a closed pull request or another base has superseded this head. "
    "The check is judged anew as soon as an open pull request has it again."
)


def _until(verdict: Verdict) -> datetime | None:
    ends = [freeze.ends_at for freeze in verdict.blocking]
    return None if None in ends else max(end for end in ends if end)


def _line(freeze: CoveringFreeze) -> str:
    reason = " ".join(freeze.reason.split())
    return f"- **{reason}** (`{freeze.id}`), since {instant(freeze.started_at)}, until {instant(freeze.ends_at)}"


def _advice(verdict: Verdict) -> str:
    if all(freeze.exceptions_allowed for freeze in verdict.blocking):
        return "To merge all the same, ask a release manager for an exception for this pull request."
    return "Exceptions are off for this freeze: the merge has to wait until it ends."
