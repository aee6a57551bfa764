"""Whether GitHub refuses what a freeze forbids: the one place that says "blocked", for a branch that is frozen.

A check alone stops nothing. A branch is blocked if a rule in force, as it was read from GitHub, requires our check, and
no commit has our `success`, or may still get it from a write that is under way; a missing check and a `failure` block.
While a stop is in force, a `success` does not help. Heads that an exception lets in do not count. Whatever speaks of
blocking asks this module: receipts, events, pages, messages, metrics. Nothing may be computed from what this service
meant to write.

People who may bypass the rule do not end the blocking; they are named beside it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import Literal

from rules.rulesets.findings import Finding, Light, worst

State = Literal["blocked", "partly", "not_blocked", "unknown"]
Way = Literal["deletion", "creation", "forgery", "default_branch"]
Cause = Literal[
    "no_rule",
    "removed",
    "suspended",
    "rate_limit",
    "github",
    "restore",
    "no_worker",
    "writing",
    "not_read",
    "outdated",
]
Reading = Literal["none", "old", "current"]

MAX_READING_AGE = timedelta(minutes=30)
"""For how long a reading of GitHub's rules counts: six full resyncs, each of which reads them again."""
MAX_REPORT_DELAY = timedelta(seconds=5)
"""For how long a reading counts after GitHub has reported that the rules may have changed."""
MAX_WRITE_DELAY = timedelta(seconds=60)
"""For how long a verdict may wait to be written until the branch is late."""

WITHOUT_RULE = frozenset({"no_rule", "removed"})
"""Causes for which a check would stop nothing."""
_REPORTED = WITHOUT_RULE | {"outdated"}
"""Causes that people are notified of as such."""
UNKNOWN_CAUSES = frozenset({"not_read", "outdated"})
"""Causes for which it is not known whether a branch is blocked."""
STATES: tuple[State, ...] = ("not_blocked", "unknown", "partly", "blocked")
"""The worst first."""
ENFORCED: frozenset[State] = frozenset({"blocked", "partly"})
"""The states in which GitHub refuses merges and pushes."""
CAUSES: Mapping[str, str] = {
    "no_rule": "No rule in force at GitHub requires our check, so everything can be merged. Set up enforcement.",
    "removed": "The GitHub App does not cover the repository any more, so nothing is known of it. Install it again.",
    "suspended": "The GitHub App is suspended, so checks that say success stay. Unsuspend it at GitHub.",
    "rate_limit": "GitHub limits our requests, so checks that say success stay until it accepts writes again.",
    "github": "GitHub does not accept our checks, so checks that say success stay. They are tried again.",
    "restore": "The database was restored, and checks wait until the operator of the service confirms it.",
    "no_worker": "No worker of the service writes checks. The operator of the service has to start one.",
    "writing": "Checks that say success are being replaced.",
    "not_read": "GitHub's rules were not read yet.",
    "outdated": "GitHub's rules could not be read for a while, so it is not known whether they still block.",
}
"""Why a branch is not blocked, or why that is not known, and what to do about it."""
FINDINGS_OF_CAUSES: Mapping[str, Finding] = {
    "removed": Finding("installation_removed", "critical", CAUSES["removed"]),
    "suspended": Finding("installation_suspended", "critical", CAUSES["suspended"]),
    "outdated": Finding("not_verified", "warning", CAUSES["outdated"]),
}
"""Cause → the finding on a branch, where no probe can have found it."""
WAYS: Mapping[str, str] = {
    "deletion": "Everybody who may push can delete the branch and create it again.",
    "creation": "The branch does not exist, and who may push can create it.",
    "forgery": "The rule does not accept the check from our App alone, so who may write can forge it.",
    "default_branch": "The rule protects the branch only while it is the default branch.",
}
"""How a branch that is partly blocked can be changed, and by whom."""
_BY_STOP = "A stop holds it until the checks are written."
GAPS: Mapping[str, str] = {**CAUSES, **WAYS}
"""Everything for which a branch is not wholly blocked: the words for people by code."""


@dataclass(frozen=True, slots=True)
class BlockingFacts:
    """What decides, as it is known at one instant; each fact has few values, so that branches are counted by them."""

    removed: bool
    """Whether the App does not cover the repository any more."""
    archived: bool
    """Whether the repository is archived: GitHub refuses every change."""
    reading: Reading
    """Whether the rules were read, and recently (`MAX_READING_AGE`), and again after a report (`MAX_REPORT_DELAY`)."""
    required: bool
    """Whether a rule in force requires a check of the branch, for merges and pushes."""
    standing: bool
    """Whether a commit that no exception lets in has our `success` of the check that decides, or may still get it."""
    open: bool
    """Whether the rules leave a way open (`WAYS`)."""
    stopped: bool = False
    """Whether a stop is in force: a required context that only heads have which an exception lets in."""

    @property
    def key(self) -> str:
        """The facts as one text, which queries make as well."""
        flags = (self.removed, self.archived, self.required, self.standing, self.open, self.stopped)
        return self.reading + "".join("1" if flag else "0" for flag in flags)

    @classmethod
    def of_key(cls, key: str) -> "BlockingFacts":
        """Return the facts of a key."""
        removed, archived, required, standing, is_open, stopped = (flag == "1" for flag in key[-6:])
        reading: Reading = "none" if key[:-6] == "none" else "old" if key[:-6] == "old" else "current"
        return cls(removed, archived, reading, required, standing, is_open, stopped)

    @classmethod
    def every(cls) -> Iterator["BlockingFacts"]:
        """Yield all facts that there can be."""
        for reading in ("none", "old", "current"):
            for removed, archived, required, standing, is_open, stopped in product((False, True), repeat=6):
                yield cls(removed, archived, reading, required, standing, is_open, stopped)

    @property
    def held_by_stop(self) -> bool:
        """Whether the branch is blocked only as long as the stop is in force.

        A stop counts only where a rule requires our check as well: nothing may open when the stop ends.
        """
        return self.standing and self.stopped and self.required and self.reading == "current"


def state_of(facts: BlockingFacts) -> State:
    """Return whether GitHub refuses what a freeze of the branch forbids."""
    if facts.removed:
        return "not_blocked"
    if facts.archived:
        return "blocked"
    if (facts.standing and not facts.held_by_stop) or (facts.reading == "current" and not facts.required):
        return "not_blocked"
    if facts.reading != "current":
        return "unknown"
    return "partly" if facts.open else "blocked"


def cause_of(facts: BlockingFacts, waits_for: str) -> str | None:
    """Return the cause (`CAUSES`) for which the branch is not blocked, or it is not known; None if it is blocked.

    `waits_for` is what the checks of the branch wait for, if there is one that has to be written.
    """
    state = state_of(facts)
    if state in ENFORCED:
        return None
    if facts.removed:
        return "removed"
    if state == "unknown":
        return "not_read" if facts.reading == "none" else "outdated"
    if facts.reading == "current" and not facts.required:
        return "no_rule"
    return waits_for


def light_of(facts: BlockingFacts, found: Light) -> Light:
    """Return the light of a branch: red if it is not blocked, amber if that is partly so or unknown.

    `found` is the light of the findings on its rules. Of a branch that is not frozen, the facts say whether a freeze
    would block: `standing` is whether the App is suspended, so that a success would stay, and `open` is False.
    """
    state = state_of(facts)
    if state == "not_blocked":
        return "red"
    return worst([found, "amber"]) if state in {"partly", "unknown"} else found


@dataclass(frozen=True, slots=True)
class Blocking:
    """Whether a frozen branch, or a head, is blocked, and why not."""

    state: State
    cause: str | None = None
    """Of `CAUSES`, if it is not blocked or that is not known."""
    ways: tuple[str, ...] = ()
    """Of `WAYS`, if it is partly blocked."""
    bypass_actors: int | None = 0
    """How many actors may bypass the rule; None: GitHub does not show it."""
    by_stop: bool = False
    """Whether a stop blocks it, until its checks are written."""

    @property
    def gaps(self) -> tuple[str, ...]:
        """The codes (`GAPS`) of what is missing until the branch is blocked."""
        return self.ways if self.cause is None else (self.cause,)

    @property
    def is_enforced(self) -> bool:
        """True if GitHub refuses merges and pushes: the branch is blocked, or partly."""
        return self.state in ENFORCED

    @property
    def message(self) -> str:
        """What people should know, in sentences."""
        return f"{self._refusal} {_BY_STOP}" if self.by_stop else self._refusal

    @property
    def _refusal(self) -> str:
        if self.gaps:
            return " ".join(GAPS[gap] for gap in self.gaps)
        if self.bypass_actors is None:
            return "GitHub refuses every change; who may bypass the rule is not visible."
        if self.bypass_actors:
            who = "one actor" if self.bypass_actors == 1 else f"{self.bypass_actors} actors"
            return f"GitHub refuses every change, except by {who} who may bypass the rule."
        return "GitHub refuses every change."


def blocking_of(
    facts: BlockingFacts, waits_for: str = "writing", ways: Iterable[str] = (), bypass_actors: int | None = 0
) -> Blocking:
    """Return the blocking of a branch that is frozen."""
    state = state_of(facts)
    shown = tuple(way for way in WAYS if way in set(ways)) if state == "partly" else ()
    by_stop = state in ENFORCED and facts.held_by_stop and not facts.archived
    return Blocking(state, cause_of(facts, waits_for), shown, 0 if facts.archived else bypass_actors, by_stop)


@dataclass(slots=True)
class BlockingCounts:
    """How many branches of a freeze have each state, and why."""

    states: Counter[State] = field(default_factory=Counter)
    gaps: Counter[tuple[State, str]] = field(default_factory=Counter)
    """By state and code of `GAPS`: how many are in that state for that cause, or leave that way open."""
    by_stop: int = 0
    """Those that a stop blocks, until their checks are written."""
    late: int = 0
    """Those that are not blocked, have a rule, and have waited for longer than `MAX_WRITE_DELAY`."""

    def add(self, blocking: Blocking, branches: int, *, late: bool) -> None:
        """Count so many branches."""
        self.states[blocking.state] += branches
        self.by_stop += branches if blocking.by_stop else 0
        for gap in blocking.gaps:
            self.gaps[blocking.state, gap] += branches
        if late and blocking.state == "not_blocked" and blocking.cause not in WITHOUT_RULE:
            self.late += branches

    @property
    def is_blocked(self) -> bool:
        """True if every branch is blocked, or partly."""
        return all(state in ENFORCED for state, branches in self.states.items() if branches)

    @property
    def is_enforced(self) -> bool:
        """True if every branch is blocked, or partly, by checks, which last."""
        return self.is_blocked and not self.by_stop

    @property
    def worst_gaps(self) -> list[tuple[State, str, int]]:
        """The gaps as state, code and number of branches: those of the worst state first, then of most branches."""
        found = [(state, gap, branches) for (state, gap), branches in self.gaps.items()]
        return sorted(found, key=lambda each: (STATES.index(each[0]), -each[2], each[1]))

    @property
    def reported_causes(self) -> list[str]:
        """What people are notified of: that a rule is missing, or the App, that checks are late, or rules outdated.

        Rules that were never read are not: they are read within seconds.
        """
        found = {gap for _state, gap in self.gaps}
        return sorted((found & _REPORTED) | ({"late"} if self.late else set()))
