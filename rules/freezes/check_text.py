"""The text of a check: which freeze blocks the merge, why, until when, and what to do about it.

It names exceptions, who granted them and until when, also if they are not sufficient. Where everybody can read it
(`public_at`, the address of our pages), it has the public text of a freeze and a link in place of its reason, and names
no member.
"""

from datetime import datetime

from rules.freezes.verdict import CoveringFreeze, Grant, Verdict
from rules.plain_text import as_markdown, one_line
from rules.web_addresses import FREEZE

MAX_LISTED = 10
"""Freezes and exceptions listed in full; GitHub allows 65,535 characters, people read far fewer."""
MAX_TITLE_LENGTH = 255
MAX_REASON_LENGTH = 200
MAX_NAME_LENGTH = 80
PUBLIC_TEXT = "A change freeze is in force"
"""What everybody may read of a freeze without a public text."""
BUTTON = "Request exception"
"""The label of the check's button; GitHub allows 20 characters."""
BUTTON_DESCRIPTION = "Ask for this pull request to be merged"
"""GitHub allows 40 characters."""
EXEMPT_TITLE = "Exempt from the stop"
EXEMPT_SUMMARY = (
    "A change freeze holds this branch until the checks of all open pull requests say so. "
    "An exception lets this commit in meanwhile."
)
"""What the context of a stop says on a commit that has it."""
REQUEST_EXCEPTION = "request_exception"
"""The identifier in the webhook of the requested action; GitHub allows 20 characters."""


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC")


def _end(at: datetime | None) -> str:
    return _instant(at) if at else "it is lifted"


def title(verdict: Verdict) -> str:
    """Return the check's title, one line."""
    if verdict.blocking:
        branches = ", ".join(verdict.branches)
        return one_line(f"Merging into {branches} is frozen until {_end(verdict.changes_at)}", MAX_TITLE_LENGTH)
    if verdict.grants:
        return (
            f"Allowed by an exception until {_instant(verdict.changes_at) if verdict.changes_at else 'the freeze ends'}"
        )
    return "No freeze covers this branch"


def summary(verdict: Verdict, *, button: bool = False, public_at: str | None = None) -> str:
    """Return the check's summary as Markdown; `button`: whether the check has a button that requests an exception."""
    if verdict.unprotected:
        return _unprotected_summary(verdict, public_at)
    if verdict.blocking:
        lines = _shown([_line(freeze, public_at) for freeze in verdict.blocking])
        parts = [
            "This branch is covered by a change freeze:",
            "",
            *lines,
            *_following(verdict),
            *_not_enough(verdict, public_at),
            "",
        ]
        return "\n".join([*parts, _advice(verdict, button=button)])
    if verdict.grants:
        lines = _shown([_line(freeze, public_at) for freeze in verdict.excepted])
        parts = [
            "This branch is covered by a change freeze:",
            "",
            *lines,
            "",
            "An exception allows this commit to merge:",
            "",
        ]
        return "\n".join(
            [*parts, *_granted(verdict, public_at), "", "This check fails again automatically when an exception ends."]
        )
    return "Merging is allowed. This check fails automatically when a change freeze starts."


UNPROTECTED_ADVICE = (
    "Until one does, this check protects them, so it blocks every merge into a branch of its pattern. "
    "An administrator can end that by setting up enforcement. The freezes:"
)
SUPERSEDED_TITLE = "No open pull request has this head"
SUPERSEDED_SUMMARY = (
    "This head was superseded: by a newer commit, another base branch, or because the pull request was closed. "
    "The check is updated when it is the head of an open pull request again."
)


def _unprotected_summary(verdict: Verdict, public_at: str | None) -> str:
    """Return why the check of a pattern blocks: for the sake of branches that no rule of their own protects."""
    branches = _shown([f"- `{name}`" for name in verdict.unprotected])
    lines = _shown([_line(freeze, public_at) for freeze in verdict.blocking])
    return "\n".join(
        [
            "These branches are covered by a change freeze, and no rule at GitHub requires their own check yet:",
            "",
            *branches,
            "",
            UNPROTECTED_ADVICE,
            "",
            *lines,
        ]
    )


def _following(verdict: Verdict) -> list[str]:
    """Return lines about the time until which planned windows keep the branch frozen, if they do."""
    ends = [freeze.ends_at for freeze in verdict.blocking if freeze.ends_at is not None]
    if verdict.changes_at is None or len(ends) < len(verdict.blocking) or verdict.changes_at <= max(ends):
        return []
    return [
        "",
        f"It stays frozen until {_instant(verdict.changes_at)}, because planned windows follow or exceptions end.",
    ]


def _line(freeze: CoveringFreeze, public_at: str | None) -> str:
    times = f"since {_instant(freeze.started_at)}, until {_end(freeze.ends_at)}"
    if public_at is None:
        return f"- **{as_markdown(one_line(freeze.reason, MAX_REASON_LENGTH))}** (`{freeze.id}`), {times}"
    text = as_markdown(one_line(freeze.public_text or PUBLIC_TEXT, MAX_REASON_LENGTH))
    return f"- **{text}** ([details]({public_at}{FREEZE.replace('{id}', freeze.id)})), {times}"


def _granted(verdict: Verdict, public_at: str | None) -> list[str]:
    return _shown([_grant(grant, public_at) for grant in verdict.grants])


def _grant(grant: Grant, public_at: str | None) -> str:
    end = _instant(grant.expires_at) if grant.expires_at else "the freeze ends"
    if public_at is not None:
        return f"- #{grant.number} may be merged during `{grant.freeze_id}`, until {end}"
    name = as_markdown(one_line(grant.granted_by, MAX_NAME_LENGTH))
    return f"- #{grant.number} may be merged during `{grant.freeze_id}`, granted by {name}, until {end}"


def _not_enough(verdict: Verdict, public_at: str | None) -> list[str]:
    """Return lines about exceptions that are not sufficient: for one freeze only, or for one pull request only."""
    if not verdict.grants:
        return []
    needed = "Each pull request merged with this commit needs an exception from each freeze. Granted so far:"
    return ["", needed, "", *_granted(verdict, public_at)]


def _shown(lines: list[str]) -> list[str]:
    hidden = len(lines) - MAX_LISTED
    return [*lines[:MAX_LISTED], f"- and {hidden} more"] if hidden > 0 else lines


def _advice(verdict: Verdict, *, button: bool) -> str:
    if not verdict.exceptions_allowed:
        return "This freeze does not allow exceptions. Merge after it ends."
    if button:
        return f'To merge now, request an exception for this pull request with the button "{BUTTON}".'
    return "To merge now, ask a release manager for an exception for this pull request."
