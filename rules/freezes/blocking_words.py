"""What people are told of the branches of a freeze: how many GitHub blocks, the worst first, in one sentence each.

The numbers are those of `rules/freezes/blocking.py`; nothing is judged here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rules.freezes.blocking import CAUSES, GAPS, STATES, UNKNOWN_CAUSES, WAYS, WITHOUT_RULE, BlockingCounts, State

_WAITED_FOR = CAUSES.keys() - WITHOUT_RULE - UNKNOWN_CAUSES
"""Causes for which checks of branches that have a rule can be late."""


_NAMES: Mapping[State, str] = {"not_blocked": "unprotected"}
"""The names of states in counts, where they have another one."""


class Statement(NamedTuple):
    """A sentence without its full stop on the branches of one state."""

    state: State
    text: str
    passing: bool = False
    """Whether they are only not blocked yet: their checks are being written, and are not late."""


@dataclass(frozen=True, slots=True)
class BranchNumbers:
    """How many branches have each state."""

    states: Mapping[State, int]
    passing: bool = False
    """Whether those that are not blocked only wait for checks that are being written, and are not late."""
    complete: bool = True
    """Whether it is recorded that a freeze is blocked; until then branches may still be added to it."""
    of_all_freezes: bool = False
    """Whether they are those of all freezes."""
    noun: str = "branch"
    """What a single one is called."""
    planned: bool = False
    """Whether they are not frozen yet, and it is said what a freeze would do."""

    @property
    def total(self) -> int:
        """The number of branches."""
        return sum(self.states.values())

    @property
    def statements(self) -> list[Statement]:
        """A statement on each state that branches have, the worst first."""
        return [
            Statement(state, self._text(state, self.states[state]), self.passing and state == "not_blocked")
            for state in STATES
            if self.states.get(state)
        ]

    def _text(self, state: State, branches: int) -> str:
        total, are = self.total, "would be" if self.planned else "is" if branches == 1 else "are"
        if state == "unknown":
            return f"It is not known whether {self._who(branches, 'the')} {are} blocked"
        if state == "not_blocked":
            if branches == total > 1:
                verb = "would be" if self.planned else "is"
            else:
                verb = "would not be" if self.planned else f"{are} not"
            return f"{self._who(branches, 'None of the')} {verb} blocked{' yet' if self.passing else ''}"
        so_far = "" if self.complete or branches < total or total == 1 else " so far"
        return f"{self._who(branches, 'All')}{so_far} {are} blocked{' only in part' if state == 'partly' else ''}"

    def _who(self, branches: int, every: str) -> str:
        """Return "2 of 5 branches"; for all of them "All 5 branches", with this word, or "The branch"."""
        total, frozen = self.total, "frozen " if self.of_all_freezes else ""
        if branches < total:
            return f"{branches:,} of {total:,} {frozen}branches"
        if total == 1:
            return f"{'the' if every.islower() else 'The'} {frozen}{self.noun}"
        return f"{every} {total:,} {frozen}branches"


def numbers_of_counts(counts: BlockingCounts) -> BranchNumbers:
    """Return the numbers of counted branches."""
    gaps = [(state, code) for state, code, _ in counts.worst_gaps]
    return BranchNumbers(counts.states, _is_passing(gaps, counts.late))


def numbers_of_view(
    counts: Mapping[str, Any], gaps: Iterable[Mapping[str, Any]], *, complete: bool = True, of_all_freezes: bool = False
) -> BranchNumbers:
    """Return the numbers of the contract's counts and gaps; `complete`: whether blocking is recorded."""
    states: dict[State, int] = {state: counts[_NAMES.get(state, state)] for state in STATES}
    passing = _is_passing([(gap["state"], gap["code"]) for gap in gaps], counts["late"])
    return BranchNumbers(states, passing, complete, of_all_freezes)


def numbers_of_preview(counts: Mapping[str, Any]) -> BranchNumbers:
    """Return the numbers of what a freeze would block."""
    states: dict[State, int] = {state: counts[_NAMES.get(state, state)] for state in STATES}
    return BranchNumbers(states, planned=True)


def numbers_of_audit(details: Mapping[str, Any]) -> BranchNumbers:
    """Return the numbers of the audit entry of a freeze; of one without them, nothing is said."""
    return BranchNumbers({state: details.get(_NAMES.get(state, state)) or 0 for state in STATES})


def numbers_of_one(blocking: Mapping[str, Any], noun: str) -> BranchNumbers:
    """Return the numbers of a single branch or pull request, from the contract's `Blocking`."""
    return BranchNumbers({blocking["state"]: 1}, blocking["gaps"] == ["writing"], noun=noun)


def first_gap(gaps: Mapping[str, int], causes: Collection[str]) -> str | None:
    """Return what most branches lack, of the codes and numbers of an audit entry; None if it names nothing.

    `causes` are what people are notified of: a code, or `late` for every other cause of branches that have a rule.
    """
    named = [code for code in gaps if code in causes or ("late" in causes and code in _WAITED_FOR)]
    return max(named, key=lambda code: (gaps[code], code), default=None)


def first_way(gaps: Mapping[str, int]) -> str | None:
    """Return the way that is open on most branches, of the codes and numbers of an audit entry."""
    return max((code for code in gaps if code in WAYS), key=lambda code: (gaps[code], code), default=None)


def meaning_of(code: object) -> str:
    """Return what a code of GAPS means, for people; of a code that is not known, the code."""
    return GAPS.get(str(code), str(code).replace("_", " ").capitalize() + ".")


def _is_passing(gaps: Iterable[tuple[str, str]], late: int) -> bool:
    codes = {code for state, code in gaps if state == "not_blocked"}
    return codes == {"writing"} and not late
