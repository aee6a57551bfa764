"""The text of a check: which freeze blocks the merge, why, until when, and what to do about it.

It names who started a freeze, who decides on exceptions, and those that were granted, also if they are not sufficient,
and leads to the pages of its pull requests. Where everybody can read it, it has the public text of a freeze and a link
in place of its reason, and names no member. The same facts give the same text: where it differs, it is written again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from rules.access.organization_settings import OrganizationSettings
from rules.freezes.pull_references import page_of_pulls
from rules.freezes.verdict import CoveringFreeze, Grant, Verdict
from rules.plain_text import as_markdown, one_line
from rules.time.zones import zone_names
from rules.web_addresses import FREEZE

MAX_LISTED = 10
"""Freezes, pull requests and exceptions listed in full; GitHub allows 65,535 characters, people read far fewer."""
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


@dataclass(frozen=True, slots=True)
class Audience:
    """For whom the checks of a repository are written, and what holds in its organisation."""

    repository_id: str = ""
    pages_at: str = ""
    """The address of our pages."""
    private: bool = True
    settings: OrganizationSettings = field(default_factory=OrganizationSettings)
    exceptions: bool = True
    """Whether the plan has exceptions."""

    @property
    def is_everybody(self) -> bool:
        """Whether everybody can read them, or the organisation wants them so."""
        return not self.private or self.settings.check_text == "public"

    def instant(self, at: datetime) -> str:
        """Return an instant in UTC, and in the zone of the organisation if that is another one."""
        zone = self.settings.timezone
        shown = at.strftime("%Y-%m-%d %H:%M UTC")
        if zone == "UTC" or zone not in zone_names():
            return shown
        local = at.astimezone(ZoneInfo(zone))
        return f"{shown} ({local.strftime('%H:%M' if local.date() == at.date() else '%Y-%m-%d %H:%M')} {zone})"

    def end(self, at: datetime | None, otherwise: str = "it is lifted") -> str:
        """Return an end; `otherwise` if no time is known."""
        return self.instant(at) if at else otherwise


EVERYWHERE = Audience()
"""Of a private repository, with the defaults of organisations, and without links."""


def title(verdict: Verdict, audience: Audience = EVERYWHERE) -> str:
    """Return the check's title, one line."""
    if verdict.blocking:
        branches = ", ".join(verdict.branches)
        end = audience.end(verdict.changes_at)
        return one_line(f"Merging into {branches} is frozen until {end}", MAX_TITLE_LENGTH)
    if verdict.grants:
        return f"Allowed by an exception until {audience.end(verdict.changes_at, 'the freeze ends')}"
    return "No freeze covers this branch"


def summary(
    verdict: Verdict, audience: Audience = EVERYWHERE, *, numbers: Sequence[int] = (), button: bool = False
) -> str:
    """Return the check's summary as Markdown.

    `numbers` are the pull requests that it concerns; `button`: whether the check has a button to request an exception.
    """
    if verdict.unprotected:
        return _unprotected_summary(verdict, audience, numbers)
    if verdict.blocking:
        lines = _shown([_line(freeze, audience) for freeze in verdict.blocking])
        parts = [
            "This branch is covered by a change freeze:",
            "",
            *lines,
            *_following(verdict, audience),
            *_not_enough(verdict, audience),
            *_pages(audience, numbers),
            "",
        ]
        return "\n".join([*parts, _advice(verdict, audience, button=button)])
    if verdict.grants:
        lines = _shown([_line(freeze, audience) for freeze in verdict.excepted])
        parts = [
            "This branch is covered by a change freeze:",
            "",
            *lines,
            "",
            "An exception allows this commit to merge:",
            "",
        ]
        end = "This check fails again automatically when an exception ends."
        return "\n".join([*parts, *_granted(verdict, audience), *_pages(audience, numbers), "", end])
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


def _unprotected_summary(verdict: Verdict, audience: Audience, numbers: Sequence[int]) -> str:
    """Return why the check of a pattern blocks: for the sake of branches that no rule of their own protects."""
    branches = _shown([f"- `{name}`" for name in verdict.unprotected])
    lines = _shown([_line(freeze, audience) for freeze in verdict.blocking])
    return "\n".join(
        [
            "These branches are covered by a change freeze, and no rule at GitHub requires their own check yet:",
            "",
            *branches,
            "",
            UNPROTECTED_ADVICE,
            "",
            *lines,
            *_pages(audience, numbers),
        ]
    )


def _following(verdict: Verdict, audience: Audience) -> list[str]:
    """Return lines about the time until which planned windows keep the branch frozen, if they do."""
    ends = [freeze.ends_at for freeze in verdict.blocking if freeze.ends_at is not None]
    if verdict.changes_at is None or len(ends) < len(verdict.blocking) or verdict.changes_at <= max(ends):
        return []
    end = audience.instant(verdict.changes_at)
    return ["", f"It stays frozen until {end}, because planned windows follow or exceptions end."]


def _line(freeze: CoveringFreeze, audience: Audience) -> str:
    times = f"since {audience.instant(freeze.started_at)}, until {audience.end(freeze.ends_at)}"
    if audience.is_everybody:
        text = as_markdown(one_line(freeze.public_text or PUBLIC_TEXT, MAX_REASON_LENGTH))
        return f"- **{text}** ([details]({audience.pages_at}{FREEZE.replace('{id}', freeze.id)})), {times}"
    by = f"started by {as_markdown(one_line(freeze.started_by, MAX_NAME_LENGTH))}, " if freeze.started_by else ""
    return f"- **{as_markdown(one_line(freeze.reason, MAX_REASON_LENGTH))}** (`{freeze.id}`), {by}{times}"


def _pages(audience: Audience, numbers: Sequence[int]) -> list[str]:
    """Return lines that lead to the pages of pull requests."""
    if not numbers or not audience.pages_at:
        return []
    shown = numbers[:MAX_LISTED]
    links = [f"[#{each}]({page_of_pulls(audience.pages_at, audience.repository_id, [each])})" for each in shown]
    more = f" and {len(numbers) - len(shown)} more" if len(numbers) > len(shown) else ""
    return ["", f"Why, until when, and what to do: {', '.join(links)}{more}"]


def _granted(verdict: Verdict, audience: Audience) -> list[str]:
    return _shown([_grant(grant, audience) for grant in verdict.grants])


def _grant(grant: Grant, audience: Audience) -> str:
    end = audience.end(grant.expires_at, "the freeze ends")
    if audience.is_everybody:
        return f"- #{grant.number} may be merged during `{grant.freeze_id}`, until {end}"
    name = as_markdown(one_line(grant.granted_by, MAX_NAME_LENGTH))
    return f"- #{grant.number} may be merged during `{grant.freeze_id}`, granted by {name}, until {end}"


def _not_enough(verdict: Verdict, audience: Audience) -> list[str]:
    """Return lines about exceptions that are not sufficient: for one freeze only, or for one pull request only."""
    if not verdict.grants:
        return []
    needed = "Each pull request merged with this commit needs an exception from each freeze. Granted so far:"
    return ["", needed, "", *_granted(verdict, audience)]


def _shown(lines: list[str]) -> list[str]:
    hidden = len(lines) - MAX_LISTED
    return [*lines[:MAX_LISTED], f"- and {hidden} more"] if hidden > 0 else lines


def _advice(verdict: Verdict, audience: Audience, *, button: bool) -> str:
    if not verdict.exceptions_allowed:
        return "This freeze does not allow exceptions. Merge after it ends."
    if not audience.exceptions:
        return "Merge after it ends."
    decides = decides_on_exceptions(audience.settings)
    if button:
        return f'To merge now, request an exception for this pull request with the button "{BUTTON}". {decides}'
    return f"To merge now, request an exception for this pull request. {decides}"


def decides_on_exceptions(settings: OrganizationSettings) -> str:
    """Return the sentence that says who decides on requests."""
    who = "An admin or owner" if settings.approval == "admin" else "A member, admin or owner"
    other = "" if settings.self_approval else " other than who requests it"
    return f"{who} of the organisation{other} decides."
