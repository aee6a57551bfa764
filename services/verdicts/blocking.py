"""Whether branches and the targets of freezes are blocked, as of one instant: read, judged and counted."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, TextClause, text
from sqlalchemy.orm import Session

from models.predicates import unseen_array
from rules.freezes.blocking import GAPS, Blocking, BlockingCounts, BlockingFacts, blocking_of
from services.verdicts.blocking_facts import (
    BYPASS_ACTORS,
    FROM,
    FROZEN_KEY,
    FROZEN_KEY_WITHOUT_EXCEPTIONS,
    IS_LATE,
    WAITS_FOR,
)


def _facts(key: str) -> str:
    return f"""
    {key} AS facts, {WAITS_FOR} AS waits_for, coalesce(seen.open_ways, '{{}}') AS ways,
    {BYPASS_ACTORS} AS bypass_actors, {IS_LATE} AS late
    """


def _by_freeze(key: str) -> TextClause:
    return text(f"""
    SELECT t.freeze_id, {_facts(key)}, count(*) AS branches
    FROM freeze_targets t JOIN {FROM} ON b.id = t.branch_id
    WHERE t.freeze_id = ANY(:freezes)
    GROUP BY t.freeze_id, facts, waits_for, ways, bypass_actors, late
    """)  # noqa: S608 - constants of ours


_BY_FREEZE, _BY_FREEZE_WITHOUT_EXCEPTIONS = _by_freeze(FROZEN_KEY), _by_freeze(FROZEN_KEY_WITHOUT_EXCEPTIONS)
# PostgreSQL keeps a plan of this one, in which it looks up each branch: for few it takes less time than to plan the
# other, which takes half of the time for each of many.
_BY_SMALL_FREEZE = text(f"""
    SELECT t.freeze_id, branch.*, count(*) AS branches
    FROM freeze_targets t CROSS JOIN LATERAL (
        SELECT {_facts(FROZEN_KEY)} FROM {FROM} WHERE b.id = t.branch_id OFFSET 0
    ) branch
    WHERE t.freeze_id = ANY({unseen_array("freezes")})
    GROUP BY t.freeze_id, facts, waits_for, ways, bypass_actors, late
""")  # noqa: S608 - constants of ours
_MAX_SMALL = 500
"""Targets, at most, of small freezes: each is looked up."""
_OF_BRANCHES = text(f"""
    SELECT b.id, {_facts(FROZEN_KEY)}, seen.decisive_check FROM {FROM} WHERE b.id = ANY({unseen_array("branches")})
""")  # noqa: S608 - constants of ours


@dataclass(frozen=True, slots=True)
class BranchBlocking:
    """Whether a branch and its heads are blocked, taken as frozen."""

    facts: BlockingFacts
    waits_for: str
    """What its checks wait for, if some have to be written (`CAUSES`)."""
    ways: tuple[str, ...]
    """The ways that its rules leave open (`WAYS`)."""
    bypass_actors: int | None
    """How many actors may bypass its rule; None: GitHub does not show it."""
    late: bool
    """Whether its verdicts wait for longer than `MAX_WRITE_DELAY`."""
    decisive_check: str | None
    """The check that decides whether a head may enter; None: no rule requires one."""

    @property
    def of_branch(self) -> Blocking:
        """Whether the branch is blocked."""
        return blocking_of(self.facts, self.waits_for, self.ways, self.bypass_actors)

    def of_head(self, *, standing: bool) -> Blocking:
        """Return whether one head is blocked; `standing`: it has our `success`, or may still get it."""
        return blocking_of(replace(self.facts, standing=standing), self.waits_for, self.ways, self.bypass_actors)


def count_by_freeze(
    session: Session,
    freeze_ids: Collection[str],
    now: datetime,
    *,
    targets: int | None = None,
    without_exceptions: bool = False,
) -> Mapping[str, BlockingCounts]:
    """Return how many targets of each freeze in force are blocked, and why the others are not; one statement.

    `targets`: about how many these freezes have; None: not known. `without_exceptions`: they cannot be read, and let
    nothing in.
    """
    counts = {freeze_id: BlockingCounts() for freeze_id in freeze_ids}
    statement = _BY_FREEZE_WITHOUT_EXCEPTIONS if without_exceptions else _BY_FREEZE
    if targets is not None and targets <= _MAX_SMALL and not without_exceptions:
        statement = _BY_SMALL_FREEZE
    for row in session.execute(statement, {"freezes": list(freeze_ids), "now": now, "due": []}) if freeze_ids else ():
        counts[row.freeze_id].add(_blocking(row), row.branches, late=row.late)
    return counts


def blocking_of_branches(
    session: Session, branch_ids: Collection[str], now: datetime, *, due: Collection[str] = ()
) -> Mapping[str, BranchBlocking]:
    """Return whether each of these branches is blocked, taken as frozen; one statement.

    `due` are those that due windows cover which no process has begun.
    """
    if not branch_ids:
        return {}
    rows = session.execute(_OF_BRANCHES, {"branches": list(branch_ids), "now": now, "due": list(due)})
    return {
        row.id: BranchBlocking(
            BlockingFacts.of_key(row.facts),
            row.waits_for,
            tuple(row.ways),
            row.bypass_actors,
            row.late,
            row.decisive_check,
        )
        for row in rows
    }


def _blocking(row: Row[*tuple[Any, ...]]) -> Blocking:
    return blocking_of(BlockingFacts.of_key(row.facts), row.waits_for, row.ways, row.bypass_actors)


def shown_blocking(found: BranchBlocking | None) -> dict[str, Any] | None:
    """Return the blocking of a branch as the contract's object; None if it is not frozen."""
    return None if found is None else blocking_view(found.of_branch)


def blocking_view(blocking: Blocking) -> dict[str, Any]:
    """Return a blocking as the contract's object."""
    return {
        "state": blocking.state,
        "gaps": list(blocking.gaps),
        "bypass_actor_count": blocking.bypass_actors,
        "by_stop": blocking.by_stop,
        "message": blocking.message,
    }


def states_shown(blocking: BlockingCounts) -> dict[str, int]:
    """Return how many branches have each state, by the names that the contract and the audit have for them."""
    states = blocking.states
    return {
        "blocked": states["blocked"],
        "partly": states["partly"],
        "unprotected": states["not_blocked"],
        "unknown": states["unknown"],
    }


def counts_shown(blocking: BlockingCounts) -> dict[str, int]:
    """Return how many branches are blocked and not, by the names of the contract; all 0 for a freeze that has ended."""
    return {**states_shown(blocking), "late": blocking.late, "stopped": blocking.by_stop}


def gaps_shown(blocking: BlockingCounts) -> list[dict[str, Any]]:
    """Return why branches are not wholly blocked, as the contract's objects, the worst first."""
    return [
        {"code": gap, "state": state, "branch_count": branches, "message": GAPS[gap]}
        for state, gap, branches in blocking.worst_gaps
    ]
