"""Findings about the enforcement of a branch: their codes, severities and messages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Light = Literal["green", "amber", "red"]
Severity = Literal["info", "warning", "critical"]

_RANK: Mapping[str, int] = {"info": 0, "warning": 1, "critical": 2}
_LIGHTS: tuple[Light, ...] = ("green", "amber", "red")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; a `critical` one makes the light red, a `warning` amber, an `info` has no effect."""

    code: str
    severity: Severity
    message: str

    def as_json(self) -> dict[str, str]:
        """Return the finding as it is stored and shown."""
        return {"code": self.code, "severity": self.severity, "message": self.message}


def from_json(stored: Mapping[str, Any]) -> Finding:
    """Return a stored finding."""
    return Finding(str(stored["code"]), stored["severity"], str(stored["message"]))


def light_of(findings: Iterable[Finding]) -> Light:
    """Return the light of some findings: the most severe one decides."""
    return _LIGHTS[max((_RANK[finding.severity] for finding in findings), default=0)]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings, each once, the most severe first."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: -_RANK[finding.severity]))


def worst(lights: Iterable[Light]) -> Light:
    """Return the worst of several lights; amber if there is none, because nothing was proved."""
    return max(lights, key=_LIGHTS.index, default="amber")


NOT_VERIFIED = Finding("not_verified", "warning", "The rules of this branch have not been read yet.")
CANNOT_SEE_RULES = Finding("cannot_see_rules", "warning", "GitHub does not show the rules of this branch to the App.")
CANNOT_SEE_BYPASS_ACTORS = Finding(
    "cannot_see_bypass_actors",
    "warning",
    "GitHub shows who can bypass a ruleset only to those who may change it. The App does not have that permission.",
)
CANNOT_SEE_CLASSIC_PROTECTION = Finding(
    "cannot_see_classic_protection",
    "info",
    "GitHub shows classic branch protection only with the permission to read administration.",
)
QUEUE_NOT_VISIBLE = Finding(
    "merge_queue_not_visible",
    "warning",
    "The App cannot read this branch's merge queue: its entries get no verdict and wait until they time out.",
)
BRANCH_MISSING = Finding("branch_missing", "info", "GitHub has no branch of this name.")
REPOSITORY_ARCHIVED = Finding("repository_archived", "info", "The repository is archived: nothing can be merged.")
NOT_PINNED = Finding(
    "not_pinned",
    "warning",
    "The rule accepts this check from any source: everyone who can write to the repository can forge a success.",
)
CAN_BE_REPLACED = Finding(
    "can_be_replaced",
    "warning",
    "Everybody who may push can delete this branch while it is frozen, and create it again from another commit. The "
    "service prevents that itself where an administrator has authorised it in the repository and the App has the "
    "permission `Administration: write`; otherwise set up enforcement with protection from deletion.",
)
ONLY_DEFAULT_BRANCH = Finding(
    "only_default_branch",
    "warning",
    "The rule that requires the check names the default branch, whichever that is: it ends to apply here when another "
    "branch becomes the default.",
)
PINNED_TO_OTHER_APP = Finding(
    "pinned_to_other_app",
    "critical",
    "The rule accepts this check only from another App: our verdicts have no effect.",
)


def check_not_required(check_name: str) -> Finding:
    """Return the finding that no active rule requires the check."""
    return Finding(
        "check_not_required", "critical", f"No active rule requires {check_name}: a freeze blocks nothing here."
    )


def own_check_not_required(check_name: str, pattern_check_name: str) -> Finding:
    """Return the finding that only the check of its pattern protects a branch."""
    return Finding(
        "own_check_not_required",
        "warning",
        f"No rule requires {check_name} from our App, so only {pattern_check_name} protects this branch: while it is "
        "frozen, nothing can be merged into the other branches of the pattern either. Set up enforcement.",
    )


def pattern_check_not_required(pattern_check_name: str) -> Finding:
    """Return the finding that no active rule requires the check of a branch's pattern."""
    return Finding(
        "pattern_check_not_required",
        "warning",
        f"No active rule requires {pattern_check_name}: a branch of the pattern that is created during a freeze is not "
        "protected until it has a rule of its own. Set up enforcement.",
    )


def ruleset_disabled(check_name: str, ruleset: str, enforcement: str) -> Finding:
    """Return the finding that the ruleset which would require the check is not active."""
    state = "only evaluated" if enforcement == "evaluate" else "disabled"
    return Finding("ruleset_disabled", "critical", f"The ruleset {ruleset!r} requires {check_name}, but is {state}.")


def bypass_actors(count: int) -> Finding:
    """Return the finding that actors can bypass the rule."""
    who = "One actor" if count == 1 else f"{count} actors"
    return Finding("bypass_actors", "warning", f"{who} can bypass the rule and merge during a freeze.")


def classic_conflict(severity: Severity, message: str) -> Finding:
    """Return a finding about classic branch protection."""
    return Finding("classic_protection_conflict", severity, message)


def orphaned_requirement(check_name: str) -> Finding:
    """Return the finding that a rule requires the check of a branch that is not watched."""
    return Finding(
        "orphaned_requirement",
        "warning",
        f"{check_name} is required here, but the branch is not watched. Remove it from the rule, or watch the branch.",
    )


def other_check_required(check_name: str) -> Finding:
    """Return the finding that a rule requires a check of ours which is never written on this branch."""
    return Finding(
        "other_check_required",
        "critical",
        f"A rule requires {check_name}, which is not written on this branch: nothing can be merged. Set up enforcement "
        "again, or exclude the branch from that rule.",
    )


BLOCKING_REQUIREMENTS = frozenset({"orphaned_requirement", "other_check_required"})
"""Codes of findings about a required check that is not written: merging is blocked, or will be once we stop."""
