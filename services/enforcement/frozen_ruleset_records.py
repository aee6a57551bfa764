"""What is recorded of the rulesets of frozen branches, and of organisations' stops, before and after each write.

Before a ruleset is written, its row has all branches that it may name afterwards, the stop that it may require, and
what is created: a process that dies, and a lost answer, leave nothing that is not found again. A branch ceases to
count as closed, or as stopped, before that is so at GitHub.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import CursorResult, select, text, tuple_

from models.enforcement import OrganizationStop, Ref
from models.repositories import WatchedBranch
from rules.freezes.check_names import stop_context
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST
from services.enforcement.ruleset_facts import RulesetFacts, read_again
from services.enforcement_status.frozen_branch_requests import STOPS_JOB
from services.enforcement_status.probe_requests import schedule_probes

Change = tuple[str, dict[str, Any] | None, Mapping[str, Any]]
"""The action of an audit entry, and the ruleset before and after."""


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
# Repositories that do not leave their stop to their organisation any more, or have lost a part of it.
_RECALL = text(f"""
    UPDATE frozen_branch_rulesets s
    SET may_stop = true, due_at = {REQUEST.format(row="s")}, attempts = 0,
        organization_stop_id = CASE WHEN :every OR s.repository_id = ANY(:kept) THEN s.organization_stop_id END
    WHERE s.organization_stop_id = :stop
      AND (:every OR s.repository_id = ANY(:changed) OR s.repository_id <> ALL(:kept))
""")  # noqa: S608 - a constant
_BEGIN_OWN = text(f"""
    UPDATE frozen_branch_rulesets s
    SET stop_context = :context, stop_written_at = NULL, stop_in_force_at = NULL, stop_passed = '{{}}',
        may_stop = true, due_at = {REQUEST.format(row="s")}, attempts = 0
    WHERE s.organization_stop_id = :stop AND s.repository_id = ANY(:leaving) AND s.stop_context IS NULL
""")  # noqa: S608 - a constant
_REFUSE = text("""
    UPDATE frozen_branch_rulesets SET stop_refused_at = :now, organization_stop_id = NULL
    WHERE organization_stop_id = :stop
""")


def record_intent(
    uow: UnitOfWork, facts: RulesetFacts, writing: dict[str, Any] | None = None, stop: str | None = None
) -> None:
    """Record what is about to be written: all branches that it may name then, and what is created or required.

    Without a `stop`, one that is on goes on counting as perhaps required, and as not in force. One that only ceases to
    name some branches holds the others meanwhile, whatever the answer is.
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
        if not facts.goes_on(stop):
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


def record_unchanged(
    uow: UnitOfWork, facts: RulesetFacts, ruleset: tuple[int, str | None], *, stop: str | None
) -> None:
    """Record that the ruleset at GitHub is as it must be; a stop that counts does so from now on, if it is seen."""
    record_written(uow, facts, ruleset, stop=stop)
    row = facts.row(uow)
    row.stop_in_force_at = uow.now if row.stop_in_force_at is not None and facts.is_seen else None
    if stop is not None:
        probe_named(uow, [facts])


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


def begin_own_stops(uow: UnitOfWork, facts: RulesetFacts) -> None:
    """Have repositories that leave their organisation's stop begin stops of their own, which it waits for."""
    if facts.leaving:
        context = stop_context(secrets.token_hex(8))
        values = {"stop": facts.key, "leaving": sorted(facts.leaving), "context": context, "now": uow.now}
        if cast(CursorResult[Any], uow.session.execute(_BEGIN_OWN, values)).rowcount:
            uow.wake(STOPS_JOB)


def audit_change(uow: UnitOfWork, place: str, facts: RulesetFacts, ruleset_id: int, change: Change) -> None:
    """Audit what was done to a ruleset."""
    action, before, after = change
    target = ("ruleset", str(ruleset_id), str(after["name"]))
    uow.audit(action, target, level=facts.level, place=place, before=before, after=dict(after))
