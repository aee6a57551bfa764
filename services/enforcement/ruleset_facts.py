"""What is known of the rulesets of frozen branches, and of organisations' stops: what is recorded, and what must be.

What they must be follows each time from freezes and records of checks.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import Any, Literal

from sqlalchemy import Row, TextClause, select, text

from models.enforcement import FrozenBranchRuleset, OrganizationStop, Ref
from models.freezes import IN_FORCE
from models.predicates import unseen_array
from rules.freezes.blocking import BlockingFacts
from rules.freezes.check_names import stop_context
from rules.freezes.stops import FrozenBranch, Names, covered_by, needs_stop, opened_by, stoppable
from rules.rate_budget import GitHubLimits
from rules.rulesets.frozen_branches import NAME, Stop, holds, restored_ruleset, wanted_ruleset
from rules.rulesets.needs import Level
from services.core.savepoints import in_savepoint
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking_facts import FROM, FROZEN_KEY, FROZEN_KEY_WITHOUT_EXCEPTIONS, IS_FROZEN
from services.verdicts.facts import UNREADABLE

Model = type[FrozenBranchRuleset | OrganizationStop]
Left = Literal["no", "beginning", "in force"]
PATIENCE = timedelta(seconds=15)
"""How much longer than the delay of rulesets an organisation's stop may hold branches that are frozen no more, until
repositories have stops of their own."""


@dataclass(frozen=True, slots=True)
class RepositoryIds:
    """GitHub's ids of a repository."""

    github_id: int
    node_id: str


@dataclass(frozen=True, slots=True)
class RulesetFacts:
    """What the database says of the ruleset of a repository or organisation, and of the branches that it must name."""

    model: Model
    key: str
    """Of its row: the id of the repository, or of the organisation's stop."""
    ruleset_id: int | None
    node_id: str | None
    writing: dict[str, Any] | None
    named: frozenset[Ref]
    """The branches that it may name."""
    frozen: tuple[FrozenBranch, ...]
    """Those for which it is needed, which are frozen now, in the order of their names."""
    repositories: Mapping[str, RepositoryIds]
    """Of those that it names, or must, by our id."""
    stop: str | None
    """The context that may be required."""
    stop_written_at: datetime | None
    stop_in_force_at: datetime | None
    stop_ending_at: datetime | None
    stop_passed: frozenset[str]
    """The commits that got the context."""
    needs_stop: bool
    freed: tuple[str, ...] = ()
    """The repositories whose checks have to be written again once the stop is off (`stop_ending_at`)."""
    left: Left = "no"
    """Whether the repository leaves its stop to its organisation, and whether that is in force."""
    leaving: frozenset[str] = frozenset()
    """The repositories that an organisation's ruleset names until stops of their own hold what it would open."""

    @property
    def level(self) -> Level:
        """What the ruleset belongs to."""
        return "repository" if self.model is FrozenBranchRuleset else "organization"

    @property
    def wanted(self) -> frozenset[Ref]:
        """The branches that the ruleset must name: the product of repositories and names.

        While repositories are `leaving`, branches are among them that are not frozen any more.
        """
        return frozenset(product({each.repository_id for each in self.frozen}, {each.name for each in self.frozen}))

    @property
    def is_absent(self) -> bool:
        """Whether GitHub has no ruleset of ours, as far as we know."""
        return self.ruleset_id is None and self.writing is None

    @property
    def is_seen(self) -> bool:
        """Whether the stop was seen in force on every frozen branch."""
        return all(each.stop == self.stop for each in self.staying)

    @property
    def staying(self) -> list[FrozenBranch]:
        """The frozen branches that this stop is to hold; those of others have, or will have, another one."""
        return [each for each in self.frozen if each.repository_id not in self.leaving]

    @property
    def is_reported(self) -> bool:
        """Whether GitHub has reported a change of rules since the stop was found in force."""
        times = (each.reported_at for each in self.staying)
        return self.stop_in_force_at is not None and any(at is not None and at > self.stop_in_force_at for at in times)

    def next_stop(self) -> str | None:
        """Return the context that must be required now: a new one where branches are added; None for no stop."""
        if not self.needs_stop:
            return None
        if self.stop is not None and self.wanted <= self.named:
            return self.stop
        return stop_context(secrets.token_hex(8))

    def goes_on(self, stop: str | None) -> bool:
        """Return whether the ruleset, if it is written with this context, holds all the time what it must name."""
        is_same = stop is not None and stop == self.stop
        return is_same and self.stop_in_force_at is not None and self.wanted <= self.named

    def ruleset(self, stop: Stop | None, name: str = NAME) -> dict[str, Any]:
        """Return the JSON of a new ruleset, as it must be."""
        return wanted_ruleset(_names(self.wanted), name, stop, self._ids(self.wanted))

    def restored(self, found: Mapping[str, Any], stop: Stop | None) -> dict[str, Any]:
        """Return the ruleset as it must be; `found` is as GitHub has it."""
        return restored_ruleset(found, _names(self.wanted), stop, self._ids(self.wanted))

    def is_held(self, found: Mapping[str, Any], stop: Stop) -> bool:
        """Return whether the ruleset, as GitHub has it, requires the stop of all branches that it was to name."""
        return holds(found, _names(self.named), stop, self._ids(self.named))

    def _ids(self, refs: Collection[Ref]) -> frozenset[int] | None:
        """Return GitHub's ids of repositories that a ruleset of an organisation names; None: it is a repository's."""
        if self.level == "repository":
            return None
        known = {repository_id for repository_id, _name in refs} & set(self.repositories)
        return frozenset(self.repositories[repository_id].github_id for repository_id in known)

    def row(self, uow: UnitOfWork) -> FrozenBranchRuleset | OrganizationStop:
        """Return the row."""
        return row_of(uow, self.model, self.key)


def row_of(uow: UnitOfWork, model: Model, key: str) -> FrozenBranchRuleset | OrganizationStop:
    """Return the row of a ruleset."""
    if model is FrozenBranchRuleset:
        return uow.session.get_one(FrozenBranchRuleset, key)
    return uow.session.get_one(OrganizationStop, key)


def _names(refs: Collection[Ref]) -> frozenset[str]:
    return frozenset(name for _repository_id, name in refs)


def _frozen(key: str) -> TextClause:
    return text(f"""
    SELECT b.repository_id, b.id, b.name, {key} AS facts, seen.stop, seen.rules_read_at, seen.rules_reported_at,
        (SELECT max(f.started_at) FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
        WHERE t.branch_id = b.id AND t.operation = 'apply' AND {IN_FORCE}) AS frozen_at
    FROM {FROM}
    WHERE b.repository_id = ANY({unseen_array("repositories")}) AND {IS_FROZEN}
    ORDER BY b.name
    """)  # noqa: S608 - constants of ours


_FROZEN, _FROZEN_WITHOUT_EXCEPTIONS = _frozen(FROZEN_KEY), _frozen(FROZEN_KEY_WITHOUT_EXCEPTIONS)
# What is known of its organisation's stop, to which a repository leaves its own while it covers all frozen branches.
_LEFT = text("""
    SELECT s.repository_id, o.branch_names, r.id = ANY(o.repository_ids) AND o.stop_in_force_at IS NOT NULL AS in_force,
        o.last_error_code IS NULL AND i.permissions ->> 'organization_administration' = 'write' AS works
    FROM frozen_branch_rulesets s
    JOIN repositories r ON r.id = s.repository_id
    JOIN organization_stops o ON o.id = s.organization_stop_id AND o.installation_id = r.installation_id
    JOIN installations i ON i.id = o.installation_id
    WHERE s.repository_id = ANY(:repositories) AND s.stop_context IS NULL
""")
_IDS = text("SELECT id, github_id, node_id FROM repositories WHERE id = ANY(:repositories)")
_SHARING = text("""
    SELECT s.organization_stop_id AS stop, s.repository_id, s.stop_refused_at
    FROM frozen_branch_rulesets s
    JOIN repositories r ON r.id = s.repository_id
    JOIN organization_stops o ON o.id = s.organization_stop_id AND o.installation_id = r.installation_id
    WHERE o.id = ANY(:stops) AND s.stop_in_force_at IS NULL
      AND r.removed_at IS NULL AND r.rulesets_authorized_at IS NOT NULL
""")
# Since when at least a branch is free that the ruleset of an organisation names; null: every one is frozen.
_FREED_AT = text(f"""
    SELECT min(freed.at) FROM organization_stops o CROSS JOIN LATERAL (
        SELECT max(coalesce(f.ended_at, f.ends_at, o.stop_written_at)) AS at
        FROM watched_branches b JOIN freeze_targets t ON t.branch_id = b.id JOIN freezes f ON f.id = t.freeze_id
        WHERE b.repository_id = ANY(o.repository_ids) AND b.name = ANY(o.branch_names) AND NOT {IS_FROZEN}
        GROUP BY b.id) AS freed
    WHERE o.id = :stop
""")  # noqa: S608 - a constant of ours


def read_facts(uow: UnitOfWork, repository_ids: Collection[str]) -> list[RulesetFacts]:
    """Return the facts of these repositories' rulesets, in the order of the ids."""
    ids = list(repository_ids)
    frozen = _read_frozen(uow, ids)
    left = {row.repository_id: row for row in uow.session.execute(_LEFT, {"repositories": ids})}
    repositories = _read_ids(uow, ids)
    found: list[RulesetFacts] = []
    query = select(FrozenBranchRuleset).where(FrozenBranchRuleset.repository_id.in_(ids))
    rows = uow.session.scalars(
        query.order_by(FrozenBranchRuleset.repository_id).execution_options(populate_existing=True)
    )
    for row in rows:
        branches = tuple(frozen.get(row.repository_id, ()))
        stopped = stoppable(branches, row.stop_refused_at)
        makes = partial(_facts, row, row.repository_id, {row.repository_id: repositories[row.repository_id]})
        above = left.get(row.repository_id)
        covered = above is not None and {each.name for each in stopped} <= set(above.branch_names)
        if above is not None and covered and (above.in_force or above.works):
            left_to: Left = "in force" if above.in_force else "beginning"
            found.append(makes(branches, [row.repository_id], needs=False, left=left_to))
        else:
            stops = row.may_stop or row.stop_context is not None or row.stop_ending_at is not None
            needs = stops and needs_stop(stopped, is_on=row.stop_context is not None)
            found.append(makes(stopped if needs else branches, [row.repository_id], needs=needs))
    return found


def read_organization_facts(uow: UnitOfWork, stop_ids: Collection[str]) -> list[RulesetFacts]:
    """Return the facts of organisations' stops, in the order of their ids; without a need, they must name nothing.

    A repository in which other branches are frozen now than it would go on naming stays until a stop of its own holds.
    """
    ids = list(stop_ids)
    sharing: dict[str, list[Row[Any]]] = {}
    for row in uow.session.execute(_SHARING, {"stops": ids}):
        sharing.setdefault(row.stop, []).append(row)
    frozen = _read_frozen(uow, [row.repository_id for rows in sharing.values() for row in rows])
    found: list[RulesetFacts] = []
    query = select(OrganizationStop).where(OrganizationStop.id.in_(ids)).order_by(OrganizationStop.id)
    for stop in uow.session.scalars(query.execution_options(populate_existing=True)):
        rows = sharing.get(stop.id, ())
        shared = {row.repository_id: stoppable(frozen.get(row.repository_id, ()), row.stop_refused_at) for row in rows}
        leaving, branches = _named(stop, shared, stop.repository_ids)
        if leaving and not _may_wait(uow, stop):
            leaving, branches = _named(stop, shared, ())
        needs = needs_stop(branches, is_on=stop.stop_context is not None)
        repositories = _read_ids(uow, {*stop.repository_ids, *(each.repository_id for each in branches)})
        facts = _facts(stop, stop.id, repositories, branches if needs else (), stop.freed_ids, needs=needs)
        found.append(replace(facts, leaving=leaving if needs else frozenset()))
    return found


def _may_wait(uow: UnitOfWork, stop: OrganizationStop) -> bool:
    """Return whether branches that are frozen no more may stay stopped for a moment."""
    freed_at = uow.session.scalar(_FREED_AT, {"stop": stop.id, "now": uow.now, "due": []})
    return freed_at is None or freed_at > uow.now - uow.ports[GitHubLimits].ruleset_delay - PATIENCE


def _named(
    stop: OrganizationStop, shared: Mapping[str, tuple[FrozenBranch, ...]], may_leave: Collection[str]
) -> tuple[frozenset[str], tuple[FrozenBranch, ...]]:
    """Return the repositories that wait for stops of their own, and the frozen branches that the ruleset names."""
    named = frozenset(stop.branch_names)
    frozen = {key: frozenset(each.name for each in branches) for key, branches in shared.items()}
    names, members = covered_by(frozen, named)
    kept: dict[str, Names] = dict.fromkeys(members, names)
    leaving = frozenset(
        key
        for key in shared.keys() & set(may_leave)
        if stop.stop_context and opened_by(shared[key], named, kept.get(key, frozenset()))
    )
    names = names.union(*(frozen[key] & named for key in leaving))
    if leaving:  # what it did not name yet must be frozen
        members = [key for key in members if key in stop.repository_ids or names <= frozen[key]]
    chosen = {*members, *leaving}
    return leaving, tuple(each for key in sorted(chosen) for each in shared[key] if each.name in names)


def _read_frozen(uow: UnitOfWork, repository_ids: Collection[str]) -> dict[str, list[FrozenBranch]]:
    """Return the frozen branches of repositories, by repository, in the order of their names.

    If exceptions cannot be read, none is applied.
    """
    frozen: dict[str, list[FrozenBranch]] = {}
    if not repository_ids:
        return frozen
    values = {"repositories": list(repository_ids), "now": uow.now, "due": []}
    rows = in_savepoint(
        uow.session,
        lambda: uow.session.execute(_FROZEN, values).all(),
        otherwise=lambda: uow.session.execute(_FROZEN_WITHOUT_EXCEPTIONS, values).all(),
        failure=UNREADABLE,
    )
    for row in rows:
        facts, times = BlockingFacts.of_key(row.facts), (row.rules_read_at, row.rules_reported_at)
        branch = FrozenBranch(row.id, row.name, facts, row.frozen_at, row.stop, *times, row.repository_id)
        frozen.setdefault(row.repository_id, []).append(branch)
    return frozen


def _read_ids(uow: UnitOfWork, repository_ids: Collection[str]) -> dict[str, RepositoryIds]:
    rows = uow.session.execute(_IDS, {"repositories": list(repository_ids)})
    return {repository_id: RepositoryIds(github_id, node_id) for repository_id, github_id, node_id in rows}


def _facts(
    row: FrozenBranchRuleset | OrganizationStop,
    key: str,
    repositories: Mapping[str, RepositoryIds],
    frozen: tuple[FrozenBranch, ...],
    freed: Sequence[str],
    *,
    needs: bool,
    left: Left = "no",
) -> RulesetFacts:
    return RulesetFacts(
        type(row),
        key,
        row.ruleset_id,
        row.node_id,
        row.writing,
        row.named,
        frozen,
        repositories,
        row.stop_context,
        row.stop_written_at,
        row.stop_in_force_at,
        row.stop_ending_at,
        frozenset(row.stop_passed),
        needs,
        tuple(freed),
        left,
    )


def read_again(uow: UnitOfWork, facts: RulesetFacts) -> RulesetFacts:
    """Return the facts as they are now."""
    uow.session.flush()
    [found] = (read_facts if facts.level == "repository" else read_organization_facts)(uow, [facts.key])
    return found
