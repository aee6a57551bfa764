"""Whether GitHub blocks what is frozen, as pages say it: the worst first, with its reasons and where to mend them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from rules import web_addresses
from rules.freezes.blocking import State
from rules.freezes.blocking_words import (
    BranchNumbers,
    Statement,
    meaning_of,
    numbers_of_one,
    numbers_of_preview,
    numbers_of_view,
)

_KINDS = {"not_blocked": "bad", "unknown": "warn", "partly": "warn", "blocked": "good"}
_SETUP = (web_addresses.ENFORCEMENT_SETUP, "Set up the rules")
_ATTENTION = (web_addresses.ATTENTION, "See what needs attention")
_STATUS = (web_addresses.STATUS, "See the status of the service")
_UNKNOWN = (f"{web_addresses.BRANCHES}?light=amber", "Verify its rules")
_MENDED_AT: Mapping[str, tuple[str, str]] = {
    "no_rule": _SETUP,
    "deletion": _SETUP,
    "creation": _SETUP,
    "forgery": _SETUP,
    "default_branch": _SETUP,
    "removed": (web_addresses.INSTALLED, "Connect GitHub"),
    "suspended": _ATTENTION,
    "rate_limit": _ATTENTION,
    "github": _ATTENTION,
    "restore": _STATUS,
    "no_worker": _STATUS,
    "not_read": _UNKNOWN,
    "outdated": _UNKNOWN,
}
"""Address and label of the page that closes a gap; nobody has to do anything about `writing`."""


class Reason(NamedTuple):
    """Why branches are not wholly blocked."""

    text: str
    branches: int
    address: str = ""
    label: str = ""


class Shown(NamedTuple):
    """A statement as it is shown."""

    kind: str
    """`bad`, `warn`, `good`, `moving` for a state that lasts for seconds, or empty for what stands beside worse."""
    text: str
    reasons: list[Reason]
    branches_at: str = ""
    """Address of the list of such branches, if there are several to look for."""


def blocking_of_freeze(freeze: Mapping[str, Any]) -> list[Shown]:
    """Return what is said of the branches of a freeze in force, the worst first; nothing of one that has ended."""
    complete = freeze["blockedAt"] is not None
    numbers = numbers_of_view(freeze["targets"], freeze["gaps"], complete=complete)
    return _shown(numbers, freeze["gaps"], freeze["scope"])


def blocking_of_overview(overview: Mapping[str, Any]) -> list[Shown]:
    """Return what is said of all frozen branches of the organisation, the worst first."""
    found = overview["blocking"]
    return _shown(numbers_of_view(found, found["gaps"], of_all_freezes=True), found["gaps"], {})


def blocking_of_preview(preview: Mapping[str, Any]) -> list[Shown]:
    """Return what is said of the branches that a freeze would cover, the worst first."""
    found = preview["blocking"]
    return _shown(numbers_of_preview(found), found["gaps"], {})


def blocking_of_branches(branches: Iterable[Mapping[str, Any]]) -> list[Shown]:
    """Return what is said of those of some branches that are frozen, the worst first."""
    states: Counter[State] = Counter()
    gaps: Counter[tuple[State, str]] = Counter()
    for found in (branch["blocking"] for branch in branches if branch["blocking"] is not None):
        states[found["state"]] += 1
        gaps.update((found["state"], code) for code in found["gaps"])
    passing = {code for state, code in gaps if state == "not_blocked"} == {"writing"}
    rows = [{"state": state, "code": code, "branchCount": count} for (state, code), count in gaps.most_common()]
    return _shown(BranchNumbers(states, passing, of_all_freezes=True), rows, {})


def blocking_of_branch(branch: Mapping[str, Any]) -> list[Shown]:
    """Return what is said of a branch that is frozen; nothing of one that is not."""
    scope = {"type": "branch", "repository": branch["repository"], "branch": branch["name"]}
    return _of_one(branch["blocking"], "branch", scope)


def blocking_of_pull(pull: Mapping[str, Any]) -> list[Shown]:
    """Return what is said of a pull request that a freeze forbids to merge; nothing of any other."""
    scope = {"type": "branch", "repository": pull["repository"], "branch": pull["baseBranch"]}
    return _of_one(pull["blocking"], "pull request", scope)


def mended(statements: list[Shown]) -> bool:
    """True if a page that shows the statements has a button that mends the worst: then no other one is its first."""
    return bool(statements and statements[0].reasons and statements[0].reasons[0].address)


def lights_shown(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many branches have each light, with those that are not checked yet apart from those with gaps."""
    return {**counts, "amber": counts["amber"] - counts["unknown"]}


def _of_one(blocking: Mapping[str, Any] | None, noun: str, scope: Mapping[str, Any]) -> list[Shown]:
    if blocking is None:
        return []
    gaps = [{"state": blocking["state"], "code": code, "branchCount": 1} for code in blocking["gaps"]]
    shown = _shown(numbers_of_one(blocking, noun), gaps, scope)
    if not gaps and (blocking["bypassActorCount"] != 0 or blocking["byStop"]):
        shown[0].reasons.append(Reason(blocking["message"], 1))
    return shown


def _shown(numbers: BranchNumbers, gaps: Iterable[Mapping[str, Any]], scope: Mapping[str, Any]) -> list[Shown]:
    return [
        Shown(
            _kind(statement, complete=numbers.complete) if statement.state != "blocked" or not place else "",
            statement.text,
            [_reason(gap["code"], gap["branchCount"], scope) for gap in gaps if gap["state"] == statement.state],
            _list_of(statement) if numbers.total > 1 else "",
        )
        for place, statement in enumerate(numbers.statements)
    ]


def _kind(statement: Statement, *, complete: bool) -> str:
    """Return the kind of a statement: green only once it is recorded that the freeze is blocked."""
    if statement.passing or (statement.state == "blocked" and not complete):
        return "moving"
    return _KINDS[statement.state]


def _list_of(statement: Statement) -> str:
    """Return the address of the list with branches of a state, which have a light of their own."""
    light = {"not_blocked": "red", "unknown": "amber", "partly": "amber"}.get(statement.state)
    return f"{web_addresses.BRANCHES}?light={light}" if light and not statement.passing else ""


def _reason(code: str, branches: int, scope: Mapping[str, Any]) -> Reason:
    address, label = _MENDED_AT.get(code, ("", ""))
    if address == web_addresses.ENFORCEMENT_SETUP:
        address += _of_scope(scope)
    return Reason(meaning_of(code), branches, address, label)


def _of_scope(scope: Mapping[str, Any]) -> str:
    """Return the query with which the page of rules is about one branch or repository; empty for others."""
    if scope.get("type") == "branch":
        return "?" + urlencode({name: scope[name] for name in ("repository", "branch") if name in scope})
    if scope.get("type") == "repositories" and len(scope["repositories"]) == 1:
        return "?" + urlencode({"repository": scope["repositories"][0]})
    return ""


FILTERS = {
    each.__name__: each
    for each in (
        blocking_of_freeze,
        blocking_of_overview,
        blocking_of_preview,
        blocking_of_branches,
        blocking_of_branch,
        blocking_of_pull,
        mended,
        lights_shown,
    )
}
"""The functions above, for templates."""
