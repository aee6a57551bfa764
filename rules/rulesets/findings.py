"""What may be found out about the enforcement of a branch: codes, how grave each is, and words for people."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Light = Literal["green", "amber", "red"]
Severity = Literal["info", "warning", "critical"]

_RANK: Mapping[str, int] = {"info": 0, "warning": 1, "critical": 2}
_LIGHTS: tuple[Light, ...] = ("green", "amber", "red")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found out; a `critical` one makes the light red, a `warning` amber, an `info` nothing."""

    code: str
    severity: Severity
    message: str

    def as_json(self) -> dict[str, str]:
        """Return it as it is stored and shown."""
        return {"code": self.code, "severity": self.severity, "message": self.message}


def from_json(stored: Mapping[str, Any]) -> Finding:
    """Read a stored finding."""
    return Finding(str(stored["code"]), stored["severity"], str(stored["message"]))


def light_of(findings: Iterable[Finding]) -> Light:
    """Return the light that findings add up to: the worst one decides."""
    return _LIGHTS[max((_RANK[finding.severity] for finding in findings), default=0)]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings, each once, the gravest first."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: -_RANK[finding.severity]))


def worst(lights: Iterable[Light]) -> Light:
    """Return the worst of several lights; amber where there is none, for nothing was proved."""
    return max(lights, key=_LIGHTS.index, default="amber")


NOT_VERIFIED = Finding("not_verified", "warning", "No probe has read this branch's rules yet.")
CANNOT_SEE_RULES = Finding(
    "cannot_see_rules", "warning", "GitHub does not show us the rules of this branch, so nothing is known of them."
)
CANNOT_SEE_BYPASS_ACTORS = Finding(
    "cannot_see_bypass_actors",
    "warning",
    "Who can bypass the ruleset is shown only to those who may change it; without that permission we cannot tell.",
)
CANNOT_SEE_CLASSIC_PROTECTION = Finding(
    "cannot_see_classic_protection",
    "info",
    "Whether classic branch protection applies besides is shown only with the permission to read administration.",
)
QUEUE_NOT_VISIBLE = Finding(
    "merge_queue_not_visible",
    "warning",
    "A merge queue is in use that we cannot see: its entries get no verdict, and wait until they time out.",
)
BRANCH_MISSING = Finding("branch_missing", "info", "GitHub has no branch of this name at present.")
REPOSITORY_ARCHIVED = Finding("repository_archived", "info", "The repository is archived: nothing can merge into it.")
NOT_PINNED = Finding(
    "not_pinned",
    "warning",
    "The rule takes this check from anybody: whoever can write to the repository can forge a success.",
)
PINNED_TO_OTHER_APP = Finding(
    "pinned_to_other_app",
    "critical",
    "The rule takes this check from another App only: our verdicts do not count there.",
)


def check_not_required(check_name: str) -> Finding:
    """Say that no active rule requires the check."""
    return Finding(
        "check_not_required", "critical", f"No active rule requires {check_name}: a freeze blocks nothing here."
    )


def ruleset_disabled(check_name: str, ruleset: str, enforcement: str) -> Finding:
    """Say that the ruleset which would require the check is not active."""
    state = "only evaluates" if enforcement == "evaluate" else "is disabled"
    return Finding("ruleset_disabled", "critical", f"The ruleset {ruleset!r} would require {check_name}, but {state}.")


def bypass_actors(count: int) -> Finding:
    """Say that somebody can pass by."""
    who = "One actor" if count == 1 else f"{count} actors"
    return Finding("bypass_actors", "warning", f"{who} can bypass the rule, and so merge during a freeze.")


def classic_conflict(severity: Severity, message: str) -> Finding:
    """Say what classic branch protection does besides the rulesets."""
    return Finding("classic_protection_conflict", severity, message)


def orphaned_requirement(check_name: str) -> Finding:
    """Say that a rule requires the check of a branch that is not watched."""
    return Finding(
        "orphaned_requirement",
        "warning",
        f"{check_name} is still required here, though the branch is not watched: take it out of the rule, or watch it.",
    )


def other_check_required(check_name: str) -> Finding:
    """Say that a rule requires a check of ours that is written on other branches, and never on this one."""
    return Finding(
        "other_check_required",
        "critical",
        f"A rule requires {check_name} here, which is not written on this branch: nothing can merge. Set enforcement "
        "up anew, or take the branch out of that rule.",
    )


NOBODY_WRITES_IT = frozenset({"orphaned_requirement", "other_check_required"})
"""Codes of findings that would block merging for ever, or will once we stop writing."""
