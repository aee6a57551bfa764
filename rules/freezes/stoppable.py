"""Whether a freeze of a branch could be held by a stop (`rules/freezes/stops.py`), and what is missing for that."""

from collections.abc import Mapping
from dataclasses import dataclass

from rules.freezes.blocking import BlockingFacts

STOP_GAPS: Mapping[str, str] = {
    "archived": "The repository is archived: GitHub refuses every change, and nothing has to be stopped.",
    "installation_removed": "The GitHub App does not cover the repository any more. Install it again.",
    "installation_suspended": "The GitHub App is suspended. Unsuspend it at GitHub.",
    "no_permission": (
        "The GitHub App may not write rules. Accept its permission Administration (read and write) at GitHub."
    ),
    "not_authorized": (
        "No administrator of the repository has authorised this service to write rules there. Set up enforcement; "
        "where every rule is in place already, with protection from deletion."
    ),
    "no_rule": "No rule in force at GitHub requires our check, so a stop could not end. Set up enforcement.",
    "not_read": "GitHub's rules were not read yet, or not within the last 30 minutes. Verify enforcement.",
    "not_written": (
        "GitHub did not take the ruleset of the frozen branches when it was last written, for example because 75 "
        "rulesets are there already. It is tried again."
    ),
}
"""Why a branch could not be stopped, and what to do about it. The first ones make the others irrelevant."""
ALONE = frozenset({"archived", "installation_removed", "installation_suspended"})
"""Gaps beside which no other is named."""


@dataclass(frozen=True, slots=True)
class StopFacts:
    """What decides whether a branch could be stopped."""

    rules: BlockingFacts
    """What is known of the rules; what checks say is left out."""
    suspended: bool
    """Whether the App is suspended."""
    may_write: bool
    """Whether the App may write rules in the repository."""
    authorized: bool
    """Whether an administrator of the repository has authorised that."""
    failing: bool
    """Whether the ruleset of the frozen branches could not be written the last time."""


def stop_gaps(facts: StopFacts) -> tuple[str, ...]:
    """Return the codes (`STOP_GAPS`) of what is missing until a branch can be stopped, in their order; none: it can."""
    missing = {
        "archived": facts.rules.archived and not facts.rules.removed,
        "installation_removed": facts.rules.removed,
        "installation_suspended": facts.suspended,
        "no_permission": not facts.may_write,
        "not_authorized": not facts.authorized,
        "no_rule": facts.rules.reading == "current" and not facts.rules.required,
        "not_read": facts.rules.reading != "current",
        "not_written": facts.failing,
    }
    found = tuple(code for code in STOP_GAPS if missing[code])
    return found[:1] if ALONE & set(found[:1]) else found
