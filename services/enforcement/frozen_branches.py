"""The rulesets that keep frozen branches from being deleted, created or renamed: one of each repository.

`enforcement_status.frozen_branch_requests` makes rows due. The branches that are frozen are read when the work is done,
so that a ruleset never follows an outdated request. Before a ruleset is written, the row names all branches that it may
name afterwards, and what is created: a process that dies, and a lost answer, leave nothing that is not found again.

Where no administrator has authorised the service any more, as after a transfer, ours is only emptied.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import and_, exists, or_, select, text
from sqlalchemy.orm import aliased

from integrations.github import CALL_DEADLINE_SECONDS, ErrorKind, GitHub, GitHubError
from integrations.github.errors import CODES
from integrations.github.rulesets import Rulesets
from models.enforcement import FrozenBranchRuleset
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.queries import NOW
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import SYSTEM
from rules.rulesets.frozen_branches import free_name, is_as_written, restored_ruleset, wanted_ruleset
from rules.rulesets.plans import normalized
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, WorkQueue
from services.enforcement_status.frozen_branch_requests import JOB
from services.enforcement_status.probe_requests import schedule_probes
from services.github_access.backoff import OPERATOR_RETRY_INTERVAL, backoff
from services.github_access.failures import RATE_LIMITS, pause_when_limited, require_confirmed
from services.github_access.pauses import is_callable
from services.github_access.rate_limiter import background_client, learn_from_refused_write

logger = logging.getLogger(__name__)

_WAITS = frozenset({*RATE_LIMITS, ErrorKind.APP_REFUSED, ErrorKind.WITHHELD})
"""Errors that are no failed attempt."""
_other = aliased(FrozenBranchRuleset)
FROZEN_BRANCHES = WorkQueue(
    JOB,
    FrozenBranchRuleset,
    select(
        FrozenBranchRuleset.repository_id,
        FrozenBranchRuleset.organization_id,
        FrozenBranchRuleset.attempts,
        Repository.owner,
        Repository.name,
        Repository.installation_id,
        Repository.rulesets_authorized_at.is_not(None).label("authorized"),
    )
    .join(Repository, Repository.id == FrozenBranchRuleset.repository_id)
    .join(Installation, Installation.id == Repository.installation_id)
    .where(
        is_callable(),
        Installation.permissions["administration"].astext == "write",
        and_(Repository.removed_at.is_(None), Repository.archived.is_(False)),
        or_(
            Repository.rulesets_authorized_at.is_not(None),
            FrozenBranchRuleset.ruleset_id.is_not(None),
            FrozenBranchRuleset.writing.is_not(None),
        ),
        ~exists().where(
            _other.organization_id == FrozenBranchRuleset.organization_id,
            _other.last_error_code == CODES[ErrorKind.RATE_LIMIT],
            _other.due_at > NOW,
        ),
    )
    .order_by(FrozenBranchRuleset.due_at, FrozenBranchRuleset.repository_id),
    call_timeout=timedelta(seconds=CALL_DEADLINE_SECONDS),
)
"""Rulesets that are due. While one of an organisation waits for its share of the rate limit, so do the others."""


@dataclass(frozen=True, slots=True)
class _Work:
    """One repository whose ruleset is due."""

    uow_factory: UnitOfWorkFactory
    caller: Caller
    lease: Lease
    access: Rulesets

    @property
    def full_name(self) -> str:
        return f"{self.lease.row.owner}/{self.lease.row.name}"


_Change = tuple[str, dict[str, Any] | None, dict[str, Any]]
"""The action of an audit entry, and the ruleset before and after."""


@dataclass(frozen=True, slots=True)
class _FrozenFacts:
    """What the database says of the ruleset, and the names of the branches that are frozen now, in order."""

    ruleset_id: int | None
    writing: dict[str, Any] | None
    branch_names: tuple[str, ...]
    frozen: tuple[str, ...]


def write_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Bring the ruleset of one repository up to date; False if none is due."""
    return FROZEN_BRANCHES.work_on_next(uow_factory, partial(_write, uow_factory, github))


def _write(uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease) -> None:
    row = lease.row
    caller = Caller(row.organization_id, SYSTEM, "system")
    client = background_client(uow_factory, github, row.installation_id, lease)
    work = _Work(uow_factory, caller, lease, client.repository_rulesets(row.owner, row.name))
    try:
        facts = _read(work)
        if facts is None:
            return
        with client.shared_deadline():
            found, taken = _find(work.access, facts)
        _bring_up_to_date(work, facts, found, taken)
    except GitHubError as error:
        _fail(work, error)


def _read(work: _Work) -> _FrozenFacts | None:
    """Return the facts; None, with the lease released, if there is nothing to do at GitHub."""
    row = work.lease.row
    with work.uow_factory.open(work.caller) as uow:
        work.lease.require(uow)
        known = uow.session.get_one(FrozenBranchRuleset, row.repository_id)
        frozen = _frozen(uow, row.repository_id)
        absent = known.ruleset_id is None and known.writing is None
        if (absent and not frozen) or (frozen and not row.authorized):
            work.lease.release(uow)
            return None
        return _FrozenFacts(known.ruleset_id, known.writing, tuple(known.branch_names), frozen)


def _frozen(uow: UnitOfWork, repository_id: str) -> tuple[str, ...]:
    names = (
        select(WatchedBranch.name)
        .join(FreezeTarget, FreezeTarget.branch_id == WatchedBranch.id)
        .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
        .where(
            WatchedBranch.repository_id == repository_id,
            FreezeTarget.operation == "apply",
            Freeze.is_in_force(uow.now),
        )
        .distinct()
    )
    return tuple(sorted(uow.session.scalars(names)))


def _find(access: Rulesets, facts: _FrozenFacts) -> tuple[dict[str, Any] | None, list[str]]:
    """Return our ruleset, or None if there is none; then also the names that are taken."""
    if facts.ruleset_id is not None:
        try:
            return access.get(facts.ruleset_id), []
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
    listed = access.list()  # raises if the repository itself is not found
    found = find_unanswered(access, listed, facts.writing)
    return (found, []) if found is not None else (None, [str(each["name"]) for each in listed])


def find_unanswered(
    access: Rulesets, listed: Iterable[dict[str, Any]], writing: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return, of the listed rulesets, the one whose creation was not answered; None if it is not there."""
    if writing is None:
        return None
    for each in listed:
        if each["name"] == writing["name"] and each["source_type"] == "Repository":
            found = access.get(int(each["id"]))
            if is_as_written(found, writing):
                return found
    return None


def _bring_up_to_date(work: _Work, facts: _FrozenFacts, found: dict[str, Any] | None, taken: Sequence[str]) -> None:
    """Write what has to be written, and record what is there now. Raise `GitHubError` if that fails."""
    if found is None:
        if facts.frozen:
            _create(work, facts, wanted_ruleset(facts.frozen, free_name(taken)))
        else:
            _record(work, facts, None)
        return
    ruleset_id = int(found["id"])
    if facts.ruleset_id != ruleset_id:
        _record_recognized(work, ruleset_id, normalized(found))
    before, after = normalized(found), restored_ruleset(found, facts.frozen)
    if before == after:
        _record(work, facts, ruleset_id)
        return
    _intend(work, facts, None)
    try:
        work.access.update(ruleset_id, after)
    except GitHubError as error:
        if not error.maybe_applied:
            _withdraw_intent(work, replace(facts, writing=None))
        raise
    _record(work, facts, ruleset_id, ("ruleset.updated", before, after))


def _create(work: _Work, facts: _FrozenFacts, ruleset: dict[str, Any]) -> None:
    _intend(work, facts, ruleset)
    try:
        ruleset_id = int(work.access.create(ruleset)["id"])
    except GitHubError as error:
        if not error.maybe_applied:
            _withdraw_intent(work, facts)
        raise
    _record(work, facts, ruleset_id, ("ruleset.created", None, ruleset))


def _row(uow: UnitOfWork, work: _Work) -> FrozenBranchRuleset:
    """Return the row of the lease, which is renewed."""
    work.lease.require(uow)
    return uow.session.get_one(FrozenBranchRuleset, work.lease.row.repository_id)


# Before it is so at GitHub: a freeze that starts meanwhile must not take the branch to be closed.
_OPEN = text("""
    UPDATE branch_enforcement e SET open_ways = array_prepend('deletion', open_ways)
    FROM watched_branches b WHERE b.id = e.branch_id AND b.repository_id = :repository AND b.name = ANY(:names)
      AND NOT e.open_ways && ARRAY['deletion', 'creation']
""")


def _intend(work: _Work, facts: _FrozenFacts, ruleset: dict[str, Any] | None) -> None:
    """Record what is about to be written: all branches that it may name then, and the ruleset that is created."""
    with work.uow_factory.open(work.caller) as uow:
        require_confirmed(uow)
        row = _row(uow, work)
        row.branch_names, row.writing = sorted({*facts.branch_names, *facts.frozen}), ruleset
        left_out = sorted(set(facts.branch_names) - set(facts.frozen))
        uow.session.execute(_OPEN, {"repository": row.repository_id, "names": left_out})


def _withdraw_intent(work: _Work, facts: _FrozenFacts) -> None:
    """Record again what was there before GitHub refused a write."""
    with work.uow_factory.open(work.caller) as uow:
        row = _row(uow, work)
        row.branch_names, row.writing = list(facts.branch_names), facts.writing


def _record_recognized(work: _Work, ruleset_id: int, ruleset: dict[str, Any]) -> None:
    """Record and audit that a ruleset whose creation was not answered is there."""
    with work.uow_factory.open(work.caller) as uow:
        row = _row(uow, work)
        row.ruleset_id, row.writing, row.written_at = ruleset_id, None, uow.now
        _audit(uow, work, ruleset_id, ("ruleset.created", None, ruleset))


def _record(work: _Work, facts: _FrozenFacts, ruleset_id: int | None, change: _Change | None = None) -> None:
    """Record what is at GitHub now, and release the lease. What was written counts once probes have read it."""
    with work.uow_factory.open(work.caller) as uow:
        row = _row(uow, work)
        row.ruleset_id, row.writing = ruleset_id, None
        row.branch_names = list(facts.frozen) if ruleset_id is not None else []
        if change is not None and ruleset_id is not None:
            row.written_at = uow.now
            _audit(uow, work, ruleset_id, change)
        uow.session.flush()
        work.lease.release(uow)
        if change is not None:
            concerned = {*facts.branch_names, *facts.frozen}
            branches = select(WatchedBranch.id).where(
                WatchedBranch.repository_id == row.repository_id, WatchedBranch.name.in_(concerned)
            )
            schedule_probes(uow, uow.session.scalars(branches.order_by(WatchedBranch.id)).all())


def _audit(uow: UnitOfWork, work: _Work, ruleset_id: int, change: _Change) -> None:
    action, before, after = change
    target = ("ruleset", str(ruleset_id), str(after["name"]))
    uow.audit(action, target, level="repository", place=work.full_name, before=before, after=after)


def _fail(work: _Work, error: GitHubError) -> None:
    """Record why the ruleset could not be brought up to date; it is tried again, seldom if only people can help."""
    row = work.lease.row
    delay = OPERATOR_RETRY_INTERVAL if error.kind is ErrorKind.REJECTED else backoff(error, row.attempts)
    with work.uow_factory.open(SYSTEM_CALLER) as uow:
        pause_when_limited(uow, row.installation_id, error)
        if error.kind is ErrorKind.SECONDARY_RATE_LIMIT:
            learn_from_refused_write(uow, row.installation_id, uow.dependencies.github_limits)
        work.lease.fail(uow, error.code, error.message, uow.now + delay, counted=error.kind not in _WAITS)
    logger.warning("the ruleset of frozen branches of %s is not up to date: %s", work.full_name, error)
