"""The branches of an organisation, counted once for the overview: by light, and by whether frozen ones are blocked."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from rules.freezes.blocking import BlockingCounts, BlockingFacts, blocking_of
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking import counts_shown, gaps_shown
from services.verdicts.blocking_facts import BYPASS_ACTORS, FROM_OF_ALL, IS_LATE, KEY_OF_ALL, WAITS_FOR
from services.verdicts.lights import LightCounts

# Freezes keep branches that they covered before those were disabled, unwatched or lost: they are counted as frozen, and
# only the others besides have a light.
_BRANCHES = text(f"""
    SELECT facts, found, is_frozen, reached, waits_for, ways, bypass_actors, late, count(*) AS branches
    FROM (
        SELECT {KEY_OF_ALL} AS facts, coalesce(seen.light, 'amber') AS found, is_frozen,
               b.unwatched_at IS NULL AND r.enabled AND r.removed_at IS NULL AS reached,
               CASE WHEN is_frozen THEN {WAITS_FOR} END AS waits_for,
               CASE WHEN is_frozen THEN coalesce(seen.open_ways, '{{}}') END AS ways,
               CASE WHEN is_frozen THEN {BYPASS_ACTORS} END AS bypass_actors,
               is_frozen AND {IS_LATE} AS late
        FROM {FROM_OF_ALL} WHERE b.organization_id = :organization
    ) each
    WHERE is_frozen OR reached
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
""")  # noqa: S608 - constants of ours


@dataclass(frozen=True, slots=True)
class BranchCounts:
    """How many branches there are."""

    lights: LightCounts
    """Of those that freezes can reach."""
    frozen: int
    """How many of them are frozen."""
    blocking: BlockingCounts
    """Of all that are frozen, also those that no further freeze can reach."""


def count_branches(uow: UnitOfWork, due: Collection[str]) -> BranchCounts:
    """Return the counts of the organisation, by one statement; `due` are the ids of branches that due windows cover."""
    lights, frozen, blocking = LightCounts(), 0, BlockingCounts()
    values = {"organization": uow.organization, "now": uow.now, "due": list(due)}
    for row in uow.session.execute(_BRANCHES, values):
        facts = BlockingFacts.of_key(row.facts)
        if row.reached:
            lights.add(facts, row.found, row.branches)
            frozen += row.branches if row.is_frozen else 0
        if row.is_frozen:
            found = blocking_of(facts, row.waits_for, row.ways, row.bypass_actors)
            blocking.add(found, row.branches, late=row.late)
    return BranchCounts(lights, frozen, blocking)


def view(blocking: BlockingCounts) -> dict[str, Any]:
    """Return the contract's `OverviewBlocking`."""
    return {"total": sum(blocking.states.values()), **counts_shown(blocking), "gaps": gaps_shown(blocking)}
