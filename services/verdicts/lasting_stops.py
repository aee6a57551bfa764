"""Stops that GitHub may still enforce although nothing needs them, and stops that people ended, as statements of SQL.

What needs a stop is decided by `rules/freezes/stops.py`, from freezes and records of checks; that a row says that a
stop is on is all that is taken from what was written. The parameter of the conditions is `:now`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import text

from models.freezes import IN_FORCE
from rules.freezes.blocking import BlockingFacts, state_of
from rules.freezes.stops import FrozenBranch, needs_stop
from rules.rulesets.needs import Level
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking_facts import BEGUN_FROZEN_KEY, FROM, IS_COVERED, keys_where

MAX_SECONDS = 60
"""For how long a stop may stay on that nothing needs."""
_MINUTE_AGO = f"CAST(:now AS timestamptz) - interval '{MAX_SECONDS} seconds'"


def by_hand(level: str) -> str:
    """Return what people can do about a stop of a repository or organisation that does not end."""
    return (
        "An administrator can end it by hand: disable or delete the ruleset “Change freeze: frozen branches” in the "
        f"settings of the {level} at GitHub (Settings, {'Rules' if level == 'repository' else 'Repository'}, Rulesets)."
    )


def _needs(facts: BlockingFacts) -> bool:
    branch = FrozenBranch("", "", facts, datetime.min.replace(tzinfo=UTC), None)
    return needs_stop([branch], is_on=True)


def _is_open(facts: BlockingFacts) -> bool:
    return _needs(facts) and state_of(facts) == "not_blocked"


@dataclass(frozen=True, slots=True)
class PlacesOfStops:
    """The repositories, or the organisations, of which GitHub has rulesets that may have a stop."""

    level: Level
    row: str
    """The alias of the rows of rulesets."""
    key: str
    """The key of a row."""
    rows: str
    """The rows, and what they are of: `place`."""
    name: str
    """The name of a place."""
    covers: str
    """The condition that a ruleset may name the branch `b`."""

    @property
    def unneeded(self) -> str:
        """The condition of a ruleset that may still have a stop which no frozen branch that it covers needs."""
        return f"{self.row}.stop_context IS NOT NULL AND NOT {self.frozen_where(_needs)}"

    @property
    def unneeded_since(self) -> str:
        """Since when at most nothing needs a stop.

        When it was switched on, when the checks of the frozen branches were written, or the last freeze ended: whatever
        was last. Not yet, while checks of a frozen branch are being written.
        """
        ended = f"""
        SELECT max(CASE WHEN f.ended_at IS NULL AND {IN_FORCE}
                        THEN coalesce(t.applied_at, CAST(:now AS timestamptz)) ELSE coalesce(f.ended_at, f.ends_at) END)
        FROM watched_branches b JOIN freeze_targets t ON t.branch_id = b.id JOIN freezes f ON f.id = t.freeze_id
        WHERE {self.covers}
        """  # noqa: S608 - constants of ours
        return f"coalesce(greatest({self.row}.stop_written_at, ({ended})), {self.row}.written_at, {_MINUTE_AGO})"

    @property
    def lasting(self) -> str:
        """The condition of a stop that does not end: nothing has needed it for longer than `MAX_SECONDS`."""
        return f"{self.unneeded} AND {self.unneeded_since} < {_MINUTE_AGO}"

    @property
    def refused(self) -> str:
        """The condition of a ruleset whose stop people ended, where a frozen branch is open until its checks say so.

        Where they ended that of an organisation, its repositories have the same time (`record_refusal`).
        """
        if self.level == "organization":
            same = f"s.stop_refused_at = o.stop_refused_at AND {_OPEN_SINCE}"
            return f"o.stop_refused_at IS NOT NULL AND EXISTS (SELECT FROM frozen_branch_rulesets s WHERE {same})"
        above = "SELECT FROM organization_stops o WHERE o.stop_refused_at = s.stop_refused_at"
        alone = f"NOT EXISTS ({above} AND o.installation_id = place.installation_id)"
        return f"s.stop_refused_at IS NOT NULL AND {alone} AND {_OPEN_SINCE}"

    def frozen_where(self, condition: Callable[[BlockingFacts], bool], besides: str = "true") -> str:
        """Return the condition that a frozen branch that the ruleset covers has such facts."""
        keys = ", ".join(f"'{key}'" for key in keys_where(condition))
        return f"""
        EXISTS (SELECT FROM {FROM}
                WHERE {self.covers} AND {IS_COVERED} AND {besides}
                  AND {BEGUN_FROZEN_KEY} = ANY(ARRAY[{keys}]))
        """

    def find(self, uow: UnitOfWork, condition: str, limit: int = 20) -> list[str]:
        """Return the names of the first places that meet a condition, of all organisations."""
        found = f"SELECT {self.name} AS name FROM {self.rows} WHERE {condition} ORDER BY name LIMIT :limit"  # noqa: S608
        return list(uow.session.scalars(text(found), {"now": uow.now, "limit": limit}))


_HELD_BEFORE = f"""
    EXISTS (SELECT FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
            WHERE t.branch_id = b.id AND t.operation = 'apply' AND {IN_FORCE} AND f.started_at <= s.stop_refused_at)
"""
OF_REPOSITORIES = PlacesOfStops(
    "repository",
    "s",
    "s.repository_id",
    "frozen_branch_rulesets s JOIN repositories place ON place.id = s.repository_id",
    "place.owner || '/' || place.name",
    "b.repository_id = s.repository_id",
)
_OPEN_SINCE = OF_REPOSITORIES.frozen_where(_is_open, _HELD_BEFORE)
OF_ORGANIZATIONS = PlacesOfStops(
    "organization",
    "o",
    "o.id",
    "organization_stops o JOIN installations place ON place.id = o.installation_id",
    "place.account",
    "b.repository_id = ANY(o.repository_ids) AND b.name = ANY(o.branch_names)",
)
PLACES = (OF_REPOSITORIES, OF_ORGANIZATIONS)
HOLDS_BACK = f"""
    EXISTS (
        SELECT FROM freeze_targets ended
        JOIN watched_branches b ON b.id = ended.branch_id
        JOIN frozen_branch_rulesets s ON s.repository_id = b.repository_id
        LEFT JOIN organization_stops o ON o.organization_id = b.organization_id
             AND (o.stop_context IS NOT NULL OR o.stop_ending_at IS NOT NULL)
        WHERE ended.freeze_id = f.id
          AND (s.stop_ending_at IS NOT NULL OR s.stop_context IS NOT NULL AND b.name = ANY(s.branch_names)
               OR o.stop_ending_at IS NOT NULL AND b.repository_id = ANY(o.freed_ids)
               OR o.stop_context IS NOT NULL AND {OF_ORGANIZATIONS.covers})
          AND NOT {IS_COVERED})
"""
"""The condition of a freeze `f` that has ended: GitHub may still enforce a stop on one of its branches that nothing
freezes any more."""
