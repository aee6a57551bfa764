"""Stops that GitHub may still enforce although nothing needs them, and stops that people ended, as statements of SQL.

What needs a stop is decided by `rules/freezes/stops.py`, from freezes and records of checks; that a row says that a
stop is on is all that is taken from what was written. They are conditions on `STOPS`; their parameter is `:now`.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import text

from models.freezes import IN_FORCE
from rules.freezes.blocking import BlockingFacts, state_of
from rules.freezes.stops import FrozenBranch, needs_stop
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking_facts import BEGUN_FROZEN_KEY, FROM, IS_FROZEN, keys_where

MAX_SECONDS = 60
"""For how long a stop may stay on that nothing needs."""
BY_HAND = (
    "An administrator can end it by hand: disable or delete the ruleset “Change freeze: frozen branches” in the "
    "settings of the repository at GitHub (Settings, Rules, Rulesets)."
)
"""What people can do about a stop that does not end."""


def _frozen_where(condition: Callable[[BlockingFacts], bool], besides: str = "true") -> str:
    """Return the condition that a frozen branch of the repository has such facts."""
    keys = ", ".join(f"'{key}'" for key in keys_where(condition))
    return f"""
    EXISTS (SELECT FROM {FROM}
            WHERE b.repository_id = s.repository_id AND {IS_FROZEN.replace(":due", "'{}'")} AND {besides}
              AND {BEGUN_FROZEN_KEY} = ANY(ARRAY[{keys}]))
    """


def _needs(facts: BlockingFacts) -> bool:
    branch = FrozenBranch("", "", facts, datetime.min.replace(tzinfo=UTC), None)
    return needs_stop([branch], is_on=True, refused_at=None)


def _is_open(facts: BlockingFacts) -> bool:
    return _needs(facts) and state_of(facts) == "not_blocked"


UNNEEDED = f"s.stop_context IS NOT NULL AND NOT {_frozen_where(_needs)}"
"""The condition of a ruleset that may still have a stop which no frozen branch of its repository needs."""
UNNEEDED_SINCE = f"""
    coalesce(greatest(s.stop_written_at, (
        SELECT max(CASE WHEN f.ended_at IS NULL AND {IN_FORCE} THEN coalesce(t.applied_at, CAST(:now AS timestamptz))
                        ELSE coalesce(f.ended_at, f.ends_at) END)
        FROM watched_branches named JOIN freeze_targets t ON t.branch_id = named.id JOIN freezes f ON f.id = t.freeze_id
        WHERE named.repository_id = s.repository_id
    )), s.written_at, CAST(:now AS timestamptz) - interval '{MAX_SECONDS} seconds')
"""  # noqa: S608 - constants of ours
"""Since when at most: when it was switched on, when the checks of the frozen branches were written, or the last freeze
ended, whichever was last; not yet, while checks of a frozen branch are being written."""
_HELD_BEFORE = f"""
    EXISTS (SELECT FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
            WHERE t.branch_id = b.id AND t.operation = 'apply' AND {IN_FORCE} AND f.started_at <= s.stop_refused_at)
"""
REFUSED = f"s.stop_refused_at IS NOT NULL AND {_frozen_where(_is_open, _HELD_BEFORE)}"
"""The condition of a ruleset whose stop people have ended, where a frozen branch is open until its checks say so."""
LASTING = f"{UNNEEDED} AND {UNNEEDED_SINCE} < CAST(:now AS timestamptz) - interval '{MAX_SECONDS} seconds'"
"""The condition of a stop that does not end: nothing has needed it for longer than `MAX_SECONDS`."""
HOLDS_BACK = f"""
    EXISTS (
        SELECT FROM freeze_targets ended
        JOIN watched_branches b ON b.id = ended.branch_id
        JOIN frozen_branch_rulesets s ON s.repository_id = b.repository_id
        WHERE ended.freeze_id = f.id
          AND (s.stop_ending_at IS NOT NULL OR s.stop_context IS NOT NULL AND b.name = ANY(s.branch_names))
          AND NOT {IS_FROZEN.replace(":due", "'{}'")})
"""
"""The condition of a freeze `f` that has ended: GitHub may still enforce a stop on one of its branches that nothing
freezes any more."""
STOPS = "frozen_branch_rulesets s JOIN repositories place ON place.id = s.repository_id"
"""What the conditions are about: `s` and `place`."""


def find_stops(uow: UnitOfWork, condition: str, limit: int = 20) -> list[str]:
    """Return the full names of the first repositories that meet a condition, of all organisations."""
    found = f"SELECT place.owner || '/' || place.name AS name FROM {STOPS} WHERE {condition} ORDER BY name LIMIT :limit"  # noqa: S608 - constants of ours
    return list(uow.session.scalars(text(found), {"now": uow.now, "limit": limit}))
