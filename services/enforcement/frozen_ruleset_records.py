"""What is recorded of the rulesets of frozen branches, before and after each write at GitHub.

Before a ruleset is written, its row has all branches that it may name afterwards, the stop that it may require, and
what is created: a process that dies, and a lost answer, leave nothing that is not found again. A branch ceases to
count as closed, or as stopped, before that is so at GitHub.
"""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, text, tuple_

from models.enforcement import FrozenBranchRuleset
from models.freezes import IN_FORCE
from models.repositories import WatchedBranch
from rules.freezes.blocking import BlockingFacts
from rules.freezes.check_names import stop_context
from rules.freezes.stops import FrozenBranch, needs_stop
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.probe_requests import schedule_probes
from services.verdicts.blocking_facts import FROM, FROZEN_KEY, IS_FROZEN

Change = tuple[str, dict[str, Any] | None, Mapping[str, Any]]
"""The action of an audit entry, and the ruleset before and after."""


@dataclass(frozen=True, slots=True)
class RulesetFacts:
    """What the database says of the ruleset of a repository, and of its branches that are frozen now."""

    repository_id: str
    ruleset_id: int | None
    node_id: str | None
    writing: dict[str, Any] | None
    branch_names: tuple[str, ...]
    frozen: tuple[FrozenBranch, ...]
    """In the order of their names."""
    stop: str | None
    """The context that may be required."""
    stop_written_at: datetime | None
    stop_in_force_at: datetime | None
    stop_ending_at: datetime | None
    stop_passed: frozenset[str]
    """The commits that got the context."""
    needs_stop: bool

    @property
    def frozen_names(self) -> tuple[str, ...]:
        """The names of the branches that the ruleset must name, in order."""
        return tuple(each.name for each in self.frozen)

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
        if self.stop is not None and set(self.frozen_names) <= set(self.branch_names):
            return self.stop
        return stop_context(secrets.token_hex(8))


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
    WHERE b.id = e.branch_id AND b.repository_id = :repository AND e.stop IS NOT NULL
      AND (:every OR b.name = ANY(:names))
""")


def read_facts(uow: UnitOfWork, repository_ids: Collection[str]) -> list[RulesetFacts]:
    """Return the facts of these repositories' rulesets, in the order of the ids."""
    ids = list(repository_ids)
    values = {"repositories": ids, "now": uow.now, "due": []}
    frozen: dict[str, list[FrozenBranch]] = {}
    for row in uow.session.execute(_FROZEN, values):
        facts, times = BlockingFacts.of_key(row.facts), (row.rules_read_at, row.rules_reported_at)
        branch = FrozenBranch(row.id, row.name, facts, row.frozen_at, row.stop, *times)
        frozen.setdefault(row.repository_id, []).append(branch)
    known = uow.session.scalars(
        select(FrozenBranchRuleset)
        .where(FrozenBranchRuleset.repository_id.in_(ids))
        .order_by(FrozenBranchRuleset.repository_id)
        .execution_options(populate_existing=True)
    )
    return [_facts(row, tuple(frozen.get(row.repository_id, ()))) for row in known]


def _facts(row: FrozenBranchRuleset, frozen: tuple[FrozenBranch, ...]) -> RulesetFacts:
    return RulesetFacts(
        row.repository_id,
        row.ruleset_id,
        row.node_id,
        row.writing,
        tuple(row.branch_names),
        frozen,
        row.stop_context,
        row.stop_written_at,
        row.stop_in_force_at,
        row.stop_ending_at,
        frozenset(row.stop_passed),
        needs_stop(frozen, is_on=row.stop_context is not None, refused_at=row.stop_refused_at),
    )


def record_intent(
    uow: UnitOfWork, facts: RulesetFacts, writing: dict[str, Any] | None = None, stop: str | None = None
) -> None:
    """Record what is about to be written: all branches that it may name then, and what is created or required.

    Without a `stop`, one that is on goes on counting as perhaps required, and as not in force.
    """
    row = uow.session.get_one(FrozenBranchRuleset, facts.repository_id)
    row.branch_names, row.writing = sorted({*facts.branch_names, *facts.frozen_names}), writing
    left_out = sorted(set(facts.branch_names) - set(facts.frozen_names))
    named = {"repository": facts.repository_id, "names": left_out}
    if left_out:
        uow.session.execute(_OPEN, named)
    if facts.stop is not None:
        uow.session.execute(_NOT_STOPPED, {**named, "every": stop != facts.stop})
    if stop != facts.stop:
        row.stop_passed = []
    if stop is not None or facts.stop is not None:
        row.stop_context = stop or facts.stop
        row.stop_written_at = row.stop_in_force_at = None


def withdraw_intent(uow: UnitOfWork, facts: RulesetFacts, *, writing: dict[str, Any] | None) -> None:
    """Record again what was there before GitHub refused a write; a stop that was on has to be seen again."""
    row = uow.session.get_one(FrozenBranchRuleset, facts.repository_id)
    row.stop_passed = sorted(facts.stop_passed) if row.stop_context != facts.stop else row.stop_passed
    row.branch_names, row.writing = list(facts.branch_names), writing
    row.stop_context, row.stop_written_at = facts.stop, facts.stop_written_at


def record_refusal(uow: UnitOfWork, facts: RulesetFacts) -> RulesetFacts:
    """Record that people have ended a stop; return what is so now: no freeze from before is stopped again."""
    row = uow.session.get_one(FrozenBranchRuleset, facts.repository_id)
    row.stop_refused_at = row.stop_ending_at = uow.now
    row.stop_context = row.stop_written_at = None
    return record_loss(uow, facts)


def record_loss(uow: UnitOfWork, facts: RulesetFacts) -> RulesetFacts:
    """Record that a stop does not hold as it was found, so that it counts when it is seen again; return what is so."""
    uow.session.get_one(FrozenBranchRuleset, facts.repository_id).stop_in_force_at = None
    uow.session.execute(_NOT_STOPPED, {"repository": facts.repository_id, "names": [], "every": True})
    uow.session.flush()
    [found] = read_facts(uow, [facts.repository_id])
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
    row = uow.session.get_one(FrozenBranchRuleset, facts.repository_id)
    row.ruleset_id, row.node_id = ruleset or (None, None)
    row.writing = None
    row.branch_names = list(facts.frozen_names) if ruleset is not None else []
    if changed:
        row.written_at = uow.now
    left_out = set(facts.branch_names) - set(facts.frozen_names)
    if row.stop_context is not None and (stop is None or left_out):
        row.stop_ending_at = uow.now
    if stop is None or row.stop_context != stop or row.stop_written_at is None:
        row.stop_in_force_at = None
        row.stop_written_at = None if stop is None else uow.now
    row.stop_context = stop


def probe_named(uow: UnitOfWork, rulesets: Collection[RulesetFacts]) -> None:
    """Have the rules of the branches read that these rulesets named, or name."""
    concerned = {
        (facts.repository_id, name) for facts in rulesets for name in (*facts.branch_names, *facts.frozen_names)
    }
    if concerned:
        branches = select(WatchedBranch.id).where(
            tuple_(WatchedBranch.repository_id, WatchedBranch.name).in_(concerned)
        )
        uow.session.flush()
        schedule_probes(uow, uow.session.scalars(branches.order_by(WatchedBranch.id)).all())


def audit_change(uow: UnitOfWork, full_name: str, ruleset_id: int, change: Change) -> None:
    """Audit what was done to a ruleset."""
    action, before, after = change
    target = ("ruleset", str(ruleset_id), str(after["name"]))
    uow.audit(action, target, level="repository", place=full_name, before=before, after=dict(after))
