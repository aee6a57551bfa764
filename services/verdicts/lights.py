"""The lights of branches: of a frozen one whether it is blocked, of any other whether a freeze would block it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Any, LiteralString

from sqlalchemy import ColumnElement, Row, Text, select, text
from sqlalchemy.sql.selectable import Subquery

from models.due_windows import branches_of_due
from models.predicates import unseen_array
from models.queries import any_of
from models.repositories import WatchedBranch
from rules.freezes.blocking import ENFORCED, FINDINGS_OF_CAUSES, BlockingFacts, cause_of, light_of, state_of
from rules.rulesets.findings import Finding, Light, worst
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking_facts import FROM, FROM_OF_ALL, KEY, KEY_OF_ALL

LIGHTS: tuple[Light, ...] = ("green", "amber", "red")
_FOUND = "coalesce(seen.light, 'amber')"
REACHED: LiteralString = """
    b.organization_id = :organization AND b.unwatched_at IS NULL AND r.enabled AND r.removed_at IS NULL
"""
"""The condition of what freezes of `:organization` can reach."""
_STATUSES = text(f"""
    SELECT b.id, {KEY} AS key, {_FOUND} AS found, seen.verified_at, i.state
    FROM {FROM} WHERE b.id = ANY({unseen_array("branches")})
""")  # noqa: S608 - constants of ours
_COUNTS = text(f"""
    SELECT {KEY_OF_ALL} AS key, {_FOUND} AS found, count(*) AS branches FROM {FROM_OF_ALL} WHERE {REACHED} GROUP BY 1, 2
""")  # noqa: S608 - constants of ours


@dataclass(frozen=True, slots=True)
class EnforcementStatus:
    """The light of a branch, and when its rules were last verified; None: never."""

    light: Light
    last_verified_at: datetime | None
    finding: Finding | None = None
    """Why the light is worse than the last verification found it, except for checks that are being written."""


@dataclass(slots=True)
class LightCounts:
    """How many branches that freezes can reach have each light."""

    lights: dict[Light, int] = field(default_factory=lambda: dict.fromkeys(LIGHTS, 0))
    unknown: int = 0
    """Of the amber ones, those of which it is not known whether a freeze blocks them."""

    def add(self, facts: BlockingFacts, found: Light, branches: int) -> None:
        """Count so many branches; `found` is the light of the findings on their rules."""
        self.lights[light_of(facts, found)] += branches
        self.unknown += branches if state_of(facts) == "unknown" else 0

    @property
    def worst(self) -> Light:
        """The worst light of any branch; amber if there is none."""
        return worst(light for light in LIGHTS if self.lights[light])

    @property
    def worst_is_unknown(self) -> bool:
        """True if the worst light is amber, and only because it is not known whether a freeze blocks those branches."""
        return self.worst == "amber" and self.unknown == self.lights["amber"] > 0

    @property
    def view(self) -> dict[str, int]:
        """The contract's `EnforcementCounts`."""
        return {"unknown": self.unknown, **{str(light): branches for light, branches in self.lights.items()}}


NEVER_VERIFIED = EnforcementStatus("amber", None)


def present(uow: UnitOfWork) -> dict[str, object]:
    """Return the present, and the branches that due windows cover which no process has begun."""
    return {"now": uow.now, "due": list(branches_of_due(uow.session, uow.organization, uow.now))}


def statuses(uow: UnitOfWork, branch_ids: Collection[str]) -> Mapping[str, EnforcementStatus]:
    """Return the statuses of these branches."""
    if not branch_ids:
        return {}
    rows = uow.session.execute(_STATUSES, {"branches": list(branch_ids), **present(uow)})
    return {row.id: _status(BlockingFacts.of_key(row.key), row) for row in rows}


def _status(facts: BlockingFacts, row: Row[*tuple[Any, ...]]) -> EnforcementStatus:
    cause = cause_of(facts, "suspended" if row.state == "suspended" else "writing")
    return EnforcementStatus(light_of(facts, row.found), row.verified_at, FINDINGS_OF_CAUSES.get(cause or ""))


def count_lights(uow: UnitOfWork) -> LightCounts:
    """Return how many branches of the organisation that freezes can reach have each light."""
    counts = LightCounts()
    for row in uow.session.execute(_COUNTS, {"organization": uow.organization, **present(uow)}):
        counts.add(BlockingFacts.of_key(row.key), row.found, row.branches)
    return counts


_OF_REPOSITORIES = text(f"""
    SELECT b.repository_id, array_agg(DISTINCT {_FOUND} || ' ' || {KEY}) AS facts FROM {FROM}
    WHERE b.repository_id = ANY({unseen_array("repositories")}) AND b.unwatched_at IS NULL GROUP BY b.repository_id
""")  # noqa: S608 - constants of ours


def lights_of_repositories(uow: UnitOfWork, repository_ids: Collection[str]) -> Mapping[str, LightCounts]:
    """Return the lights that watched branches of these repositories have; branches with the same facts count once."""
    rows = uow.session.execute(_OF_REPOSITORIES, {"repositories": list(repository_ids), **present(uow)})
    lights: dict[str, LightCounts] = {}
    for repository_id, listed in rows:
        lights[repository_id] = LightCounts()
        for found, _, key in (facts.partition(" ") for facts in listed):
            lights[repository_id].add(BlockingFacts.of_key(key), found, 1)
    return lights


_LIT = text(f"""
    SELECT b.id AS branch_id, {_FOUND} || ' ' || {KEY_OF_ALL} AS facts
    FROM {FROM_OF_ALL} WHERE b.organization_id = :organization
""").columns(branch_id=Text, facts=Text)  # noqa: S608 - constants of ours


def facts_of_lights(uow: UnitOfWork) -> Subquery:
    """Return the subquery with the columns `branch_id` and `facts`, of which `has_light` is a condition."""
    return _LIT.bindparams(organization=uow.organization, **present(uow)).subquery("lit")


def has_light(facts: ColumnElement[str], *lights: Light) -> ColumnElement[bool]:
    """Return the condition that facts of `facts_of_lights` say one of the lights."""
    return _say(facts, lambda each, found: light_of(each, found) in lights)


def is_unenforced(uow: UnitOfWork) -> ColumnElement[bool]:
    """Return the condition of a watched branch that a freeze is not known to block."""
    facts = facts_of_lights(uow)
    unenforced = _say(facts.c.facts, lambda each, _found: state_of(each) not in ENFORCED)
    return WatchedBranch.id.in_(select(facts.c.branch_id).where(unenforced))


def _say(facts: ColumnElement[str], condition: Callable[[BlockingFacts, Light], bool]) -> ColumnElement[bool]:
    pairs = product(LIGHTS, BlockingFacts.every())
    return facts == any_of([f"{found} {each.key}" for found, each in pairs if condition(each, found)])
