"""What is recorded of the rulesets of frozen branches, and of organisations' stops, before and after each write.

Before a ruleset is written, its row has all branches that it may name afterwards, the stop that it may require, and
what is created: a process that dies, and a lost answer, leave nothing that is not found again. A branch ceases to
count as closed, or as stopped, before that is so at GitHub.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, cast

from sqlalchemy import CursorResult, select, text, tuple_

from models.enforcement import FrozenBranchRuleset, OrganizationStop, Ref
from models.freezes import IN_FORCE
from models.repositories import Repository, WatchedBranch
from rules.freezes.blocking import BlockingFacts
from rules.freezes.check_names import stop_context
from rules.freezes.stops import FrozenBranch, covered_by, needs_stop
from rules.rulesets.frozen_branches import NAME, Stop, holds, restored_ruleset, wanted_ruleset
from rules.rulesets.needs import Level
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST
from services.enforcement_status.frozen_branch_requests import STOPS_JOB
from services.enforcement_status.probe_requests import schedule_probes
from services.verdicts.blocking_facts import FROM, FROZEN_KEY, IS_FROZEN

Model = type[FrozenBranchRuleset | OrganizationStop]
Left = Literal["no", "beginning", "in force"]
Change = tuple[str, dict[str, Any] | None, Mapping[str, Any]]
"""The action of an audit entry, and the ruleset before and after."""


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
    """Those that it must name, which are frozen now, in the order of their names."""
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

    @property
    def level(self) -> Level:
        """What the ruleset belongs to."""
        return "repository" if self.model is FrozenBranchRuleset else "organization"

    @property
    def wanted(self) -> frozenset[Ref]:
        """The branches that the ruleset must name."""
        return frozenset((each.repository_id, each.name) for each in self.frozen)

    @property
    def is_absent(self) -> bool:
        """Whether GitHub has no ruleset of ours, as far as we know."""
        return self.ruleset_id is None and self.writing is None

    @property
    def is_seen(self) -> bool:
        """Whether the stop was seen in force on every frozen branch."""
        return all(each.stop == self.stop for each in self.frozen)

    @property
    def is_reported(self) -> bool:
        """Whether GitHub has reported a change of rules since the stop was found in force."""
        times = (each.reported_at for each in self.frozen)
        return self.stop_in_force_at is not None and any(at is not None and at > self.stop_in_force_at for at in times)

    def next_stop(self) -> str | None:
        """Return the context that must be required now: a new one where branches are added; None for no stop."""
        if not self.needs_stop:
            return None
        if self.stop is not None and self.wanted <= self.named:
            return self.stop
        return stop_context(secrets.token_hex(8))

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


_FROZEN = text(f"""
    SELECT b.repository_id, b.id, b.name, {FROZEN_KEY} AS facts, seen.stop, seen.rules_read_at, seen.rules_reported_at,
        (SELECT max(f.started_at) FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
        WHERE t.branch_id = b.id AND t.operation = 'apply' AND {IN_FORCE}) AS frozen_at
    FROM {FROM}
    WHERE b.repository_id = ANY(:repositories) AND {IS_FROZEN}
    ORDER BY b.name
""")  # noqa: S608 - constants of ours
# Before it is so at GitHub: a freeze that starts meanwhile must not take the branch to be closed.
_OPEN = text("""
    UPDATE branch_enforcement e SET open_ways = array_prepend('deletion', open_ways)
    FROM watched_branches b WHERE b.id = e.branch_id AND b.repository_id = :repository AND b.name = ANY(:names)
      AND NOT e.open_ways && ARRAY['deletion', 'creation']
""")
_NOT_STOPPED = text("""
    UPDATE branch_enforcement e SET stop = NULL
    FROM watched_branches b
    WHERE b.id = e.branch_id AND b.repository_id = ANY(:repositories) AND e.stop = :stop
      AND (:every OR (b.repository_id, b.name) IN (
          SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:names AS text[]))))
""")
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
_SHARING = text("""
    SELECT s.organization_stop_id AS stop, s.repository_id
    FROM frozen_branch_rulesets s
    JOIN repositories r ON r.id = s.repository_id
    JOIN organization_stops o ON o.id = s.organization_stop_id AND o.installation_id = r.installation_id
    WHERE o.id = ANY(:stops) AND s.stop_in_force_at IS NULL
      AND r.removed_at IS NULL AND r.rulesets_authorized_at IS NOT NULL
""")
# Repositories that do not leave their stop to their organisation any more, or have lost a part of it.
_RECALL = text(f"""
    UPDATE frozen_branch_rulesets s
    SET may_stop = true, due_at = {REQUEST.format(row="s")}, attempts = 0,
        organization_stop_id = CASE WHEN :every OR s.repository_id = ANY(:kept) THEN s.organization_stop_id END
    WHERE s.organization_stop_id = :stop
      AND (:every OR s.repository_id = ANY(:changed) OR s.repository_id <> ALL(:kept))
""")  # noqa: S608 - a constant
_REFUSE = text("""
    UPDATE frozen_branch_rulesets SET stop_refused_at = :now, organization_stop_id = NULL
    WHERE organization_stop_id = :stop
""")


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
        makes = partial(_facts, row, row.repository_id, {row.repository_id: repositories[row.repository_id]})
        above = left.get(row.repository_id)
        covered = above is not None and {each.name for each in branches} <= set(above.branch_names)
        if above is not None and covered and (above.in_force or above.works):
            left_to: Left = "in force" if above.in_force else "beginning"
            found.append(makes(branches, [row.repository_id], needs=False, left=left_to))
        else:
            needs = needs_stop(branches, is_on=row.stop_context is not None, refused_at=row.stop_refused_at)
            found.append(makes(branches, [row.repository_id], needs=needs))
    return found


def read_organization_facts(uow: UnitOfWork, stop_ids: Collection[str]) -> list[RulesetFacts]:
    """Return the facts of organisations' stops, in the order of their ids; without a need, they must name nothing."""
    ids = list(stop_ids)
    sharing: dict[str, list[str]] = {}
    for row in uow.session.execute(_SHARING, {"stops": ids}):
        sharing.setdefault(row.stop, []).append(row.repository_id)
    frozen = _read_frozen(uow, [each for shared in sharing.values() for each in shared])
    found: list[RulesetFacts] = []
    query = select(OrganizationStop).where(OrganizationStop.id.in_(ids)).order_by(OrganizationStop.id)
    for stop in uow.session.scalars(query.execution_options(populate_existing=True)):
        shared = {each: frozenset(branch.name for branch in frozen.get(each, ())) for each in sharing.get(stop.id, ())}
        names, members = covered_by(shared, frozenset(stop.branch_names))
        branches = tuple(branch for each in members for branch in frozen[each] if branch.name in names)
        needs = needs_stop(branches, is_on=stop.stop_context is not None, refused_at=None)
        repositories = _read_ids(uow, {*stop.repository_ids, *members})
        found.append(_facts(stop, stop.id, repositories, branches if needs else (), stop.freed_ids, needs=needs))
    return found


def _read_frozen(uow: UnitOfWork, repository_ids: Collection[str]) -> dict[str, list[FrozenBranch]]:
    """Return the frozen branches of repositories, by repository, in the order of their names."""
    frozen: dict[str, list[FrozenBranch]] = {}
    values = {"repositories": list(repository_ids), "now": uow.now, "due": []}
    for row in uow.session.execute(_FROZEN, values) if repository_ids else ():
        facts, times = BlockingFacts.of_key(row.facts), (row.rules_read_at, row.rules_reported_at)
        branch = FrozenBranch(row.id, row.name, facts, row.frozen_at, row.stop, *times, row.repository_id)
        frozen.setdefault(row.repository_id, []).append(branch)
    return frozen


def _read_ids(uow: UnitOfWork, repository_ids: Collection[str]) -> dict[str, RepositoryIds]:
    columns = select(Repository.id, Repository.github_id, Repository.node_id)
    rows = uow.session.execute(columns.where(Repository.id.in_(list(repository_ids))))
    return {row.id: RepositoryIds(row.github_id, row.node_id) for row in rows}


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


def record_intent(
    uow: UnitOfWork, facts: RulesetFacts, writing: dict[str, Any] | None = None, stop: str | None = None
) -> None:
    """Record what is about to be written: all branches that it may name then, and what is created or required.

    Without a `stop`, one that is on goes on counting as perhaps required, and as not in force.
    """
    row = facts.row(uow)
    row.name(facts.named | facts.wanted)
    row.writing = writing
    left_out = sorted(facts.named - facts.wanted)
    if left_out and facts.level == "repository":
        names = [name for _repository_id, name in left_out]
        uow.session.execute(_OPEN, {"repository": facts.key, "names": names})
    if facts.stop is not None:
        _end_count(uow, facts, None if stop != facts.stop else left_out)
    if stop != facts.stop:
        row.stop_passed = []
    if stop is not None or facts.stop is not None:
        row.stop_context = stop or facts.stop
        row.stop_written_at = row.stop_in_force_at = None


def _end_count(uow: UnitOfWork, facts: RulesetFacts, refs: Collection[Ref] | None) -> None:
    """Have branches not count as stopped any more by this stop; None: all of them."""
    found = sorted(refs or ())
    values = {
        "repositories": [facts.key] if facts.level == "repository" else list(facts.repositories),
        "stop": facts.stop,
        "every": refs is None,
        "ids": [repository_id for repository_id, _name in found],
        "names": [name for _repository_id, name in found],
    }
    uow.session.execute(_NOT_STOPPED, values)


def withdraw_intent(uow: UnitOfWork, facts: RulesetFacts, *, writing: dict[str, Any] | None) -> None:
    """Record again what was there before GitHub refused a write; a stop that was on has to be seen again."""
    row = facts.row(uow)
    row.stop_passed = sorted(facts.stop_passed) if row.stop_context != facts.stop else row.stop_passed
    row.name(facts.named)
    row.writing = writing
    row.stop_context, row.stop_written_at = facts.stop, facts.stop_written_at


def record_refusal(uow: UnitOfWork, facts: RulesetFacts) -> RulesetFacts:
    """Record that people have ended a stop; return what is so now: no freeze from before is stopped again."""
    row = facts.row(uow)
    row.stop_refused_at = row.stop_ending_at = uow.now
    row.stop_context = row.stop_written_at = None
    if isinstance(row, OrganizationStop):
        row.free(facts.named)
        uow.session.execute(_REFUSE, {"stop": row.id, "now": uow.now})
    return record_loss(uow, facts)


def record_loss(uow: UnitOfWork, facts: RulesetFacts) -> RulesetFacts:
    """Record that a stop does not hold as it was found, so that it counts when it is seen again; return what is so."""
    facts.row(uow).stop_in_force_at = None
    _end_count(uow, facts, None)
    return read_again(uow, facts)


def read_again(uow: UnitOfWork, facts: RulesetFacts) -> RulesetFacts:
    """Return the facts as they are now."""
    uow.session.flush()
    [found] = (read_facts if facts.level == "repository" else read_organization_facts)(uow, [facts.key])
    return found


def record_written(
    uow: UnitOfWork,
    facts: RulesetFacts,
    ruleset: tuple[int, str | None] | None,
    *,
    stop: str | None = None,
    changed: bool = False,
) -> None:
    """Record what is at GitHub now: the ids of the ruleset (None: there is none), and the stop that it requires.

    What was changed counts once probes have read it (`probe_named`).
    """
    row = facts.row(uow)
    row.ruleset_id, row.node_id = ruleset or (None, None)
    row.writing = None
    row.name(facts.wanted if ruleset is not None else ())
    if changed:
        row.written_at = uow.now
    left_out = facts.named - facts.wanted
    if isinstance(row, OrganizationStop):
        row.free(left_out)
        recall(uow, row.id, kept=facts.wanted, changed=left_out)
    if row.stop_context is not None and (stop is None or left_out):
        row.stop_ending_at = uow.now
    if stop is None or row.stop_context != stop or row.stop_written_at is None:
        row.stop_in_force_at = None
        row.stop_written_at = None if stop is None else uow.now
    row.stop_context = stop


def probe_named(uow: UnitOfWork, rulesets: Collection[RulesetFacts]) -> None:
    """Have the rules of the branches read that these rulesets named, or name."""
    concerned = {ref for facts in rulesets for ref in facts.named | facts.wanted}
    if concerned:
        uow.session.flush()
        schedule_probes(uow, branch_ids(uow, concerned))


def branch_ids(uow: UnitOfWork, refs: Collection[Ref]) -> Sequence[str]:
    """Return the ids of branches, in order."""
    named = tuple_(WatchedBranch.repository_id, WatchedBranch.name).in_(refs)
    return uow.session.scalars(select(WatchedBranch.id).where(named).order_by(WatchedBranch.id)).all()


def recall(uow: UnitOfWork, stop_id: str, kept: Collection[Ref] | None, changed: Collection[Ref] = ()) -> None:
    """Have repositories looked at that left their stop to a ruleset of their organisation.

    Those of which it names no branch any more (not `kept`) have a stop of their own again, if they need one. Those of
    which it has ceased to name some (`changed`) may need one, and all of them if it cannot be written (`kept` is None).
    """
    values = {
        "stop": stop_id,
        "now": uow.now,
        "every": kept is None,
        "kept": sorted({repository_id for repository_id, _name in kept or ()}),
        "changed": sorted({repository_id for repository_id, _name in changed}),
    }
    uow.session.flush()
    if cast(CursorResult[Any], uow.session.execute(_RECALL, values)).rowcount:
        uow.wake(STOPS_JOB)


def audit_change(uow: UnitOfWork, place: str, facts: RulesetFacts, ruleset_id: int, change: Change) -> None:
    """Audit what was done to a ruleset."""
    action, before, after = change
    target = ("ruleset", str(ruleset_id), str(after["name"]))
    uow.audit(action, target, level=facts.level, place=place, before=before, after=dict(after))
