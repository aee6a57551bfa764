"""The rulesets that keep frozen branches from being deleted, created or renamed: one of each repository.

`enforcement_status.frozen_branch_requests` makes rows due. The branches that are frozen are read when the work is done,
so that a ruleset never follows an outdated request. `frozen_ruleset_records.py` records what is about to be written,
and what was; `stops.py` works on those that have a stop, or may need one.

Where no administrator has authorised the service any more, as after a transfer, ours is only emptied.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, exists, not_, or_, select, true
from sqlalchemy.orm import aliased

from integrations.github import CALL_DEADLINE_SECONDS, ErrorKind, GitHub, GitHubError
from integrations.github.errors import CODES
from integrations.github.rulesets import Rulesets
from models.enforcement import FrozenBranchRuleset, OrganizationStop
from models.installations import Installation
from models.queries import NOW
from models.repositories import Repository
from rules.rate_budget import GitHubLimits
from rules.rulesets.frozen_branches import free_name, is_as_written, stop_of, stops_in
from rules.rulesets.needs import Level
from rules.rulesets.plans import normalized
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.core.work_queue import Lease, LeaseLostError, WorkQueue
from services.enforcement.frozen_ruleset_records import (
    audit_change,
    probe_named,
    recall,
    record_intent,
    record_unchanged,
    record_written,
    withdraw_intent,
)
from services.enforcement.ruleset_facts import RulesetFacts, read_facts, row_of
from services.enforcement_status.frozen_branch_requests import JOB, STOPS_JOB
from services.github_access.backoff import OPERATOR_RETRY_INTERVAL, backoff
from services.github_access.failures import RATE_LIMITS, pause_when_limited, require_confirmed
from services.github_access.pauses import is_accepted, is_callable
from services.github_access.rate_limiter import background_client, learn_from_refused_write

logger = logging.getLogger(__name__)

MAX_STOP_RETRY = timedelta(seconds=20)
"""How long a stop that may be on waits at most for the next attempt: it may block branches that are not frozen now."""
_WAITS = frozenset({*RATE_LIMITS, ErrorKind.APP_REFUSED, ErrorKind.WITHHELD})
"""Errors that are no failed attempt."""
_other = aliased(FrozenBranchRuleset)
_WAITS_FOR_SHARE = exists().where(
    _other.organization_id == FrozenBranchRuleset.organization_id,
    _other.last_error_code == CODES[ErrorKind.RATE_LIMIT],
    _other.due_at > NOW,
)
_FULL_NAME = Repository.owner + "/" + Repository.name


def is_stopping(model: type[FrozenBranchRuleset | OrganizationStop]) -> ColumnElement[bool]:
    """Return the condition of rulesets that have a stop, may need one, or had one until a moment ago."""
    return or_(model.may_stop, model.stop_context.is_not(None), model.stop_ending_at.is_not(None))


def _queue(kind: str, callable_: ColumnElement[bool], *conditions: ColumnElement[bool]) -> WorkQueue:
    """Return a queue of the rulesets that the App may write."""
    candidates = (
        select(
            FrozenBranchRuleset.repository_id,
            FrozenBranchRuleset.repository_id.label("key"),
            FrozenBranchRuleset.organization_id,
            FrozenBranchRuleset.attempts,
            _FULL_NAME.label("place"),
            Repository.owner,
            Repository.name,
            Repository.installation_id,
            Repository.node_id.label("repository_node_id"),
            Repository.rulesets_authorized_at.is_not(None).label("authorized"),
        )
        .join(Repository, Repository.id == FrozenBranchRuleset.repository_id)
        .join(Installation, Installation.id == Repository.installation_id)
        .where(
            callable_,
            Installation.permissions["administration"].astext == "write",
            and_(Repository.removed_at.is_(None), Repository.archived.is_(False)),
            or_(
                Repository.rulesets_authorized_at.is_not(None),
                FrozenBranchRuleset.ruleset_id.is_not(None),
                FrozenBranchRuleset.writing.is_not(None),
            ),
            *conditions,
        )
        .order_by(FrozenBranchRuleset.due_at, FrozenBranchRuleset.repository_id)
    )
    return WorkQueue(kind, FrozenBranchRuleset, candidates, call_timeout=timedelta(seconds=CALL_DEADLINE_SECONDS))


FROZEN_BRANCHES = _queue(JOB, is_callable(), not_(is_stopping(FrozenBranchRuleset)), not_(_WAITS_FOR_SHARE))
"""Rulesets that are due and have no stop. While one of an organisation waits for its share of the rate limit, so do the
others."""
STOPS = _queue(STOPS_JOB, is_accepted(), is_stopping(FrozenBranchRuleset))
"""Those of repositories that have a stop, or may need one: they go before everything else."""
ORGANIZATION_STOPS = WorkQueue(
    STOPS_JOB,
    OrganizationStop,
    select(
        OrganizationStop.id,
        OrganizationStop.id.label("key"),
        OrganizationStop.organization_id,
        OrganizationStop.attempts,
        Installation.account.label("place"),
        Installation.account,
        OrganizationStop.installation_id,
        true().label("authorized"),
    )
    .join(Installation, Installation.id == OrganizationStop.installation_id)
    .where(
        is_accepted(),
        Installation.permissions["organization_administration"].astext == "write",
        is_stopping(OrganizationStop),
    )
    .order_by(OrganizationStop.due_at, OrganizationStop.id),
    call_timeout=timedelta(seconds=CALL_DEADLINE_SECONDS),
)
"""Rulesets of organisations that have a stop of many repositories, or may need one: they go first of all."""


@dataclass(frozen=True, slots=True)
class RulesetWork:
    """One ruleset of a repository or organisation that is due, and the lease under which it is written."""

    uow_factory: UnitOfWorkFactory
    lease: Lease
    row: Row[Any]
    access: Rulesets
    app_id: int

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        """Open a transaction that renews the lease; raise `LeaseLostError` if it has ended."""
        with self.uow_factory.open(system_caller(self.row.organization_id)) as uow:
            if not self.lease.renew(uow, [self.row.key]):
                raise LeaseLostError
            yield uow


def write_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Bring the ruleset of one repository up to date; False if none is due."""
    return FROZEN_BRANCHES.work_on_next(uow_factory, partial(_write, uow_factory, github))


def _write(uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease) -> None:
    row = lease.row
    client = background_client(uow_factory, github, row.installation_id, lease)
    access = client.repository_rulesets(row.owner, row.name)
    work = RulesetWork(uow_factory, lease, row, access, github.settings.app_id)
    try:
        facts = _read(work)
        if facts is None:
            return
        with client.shared_deadline():
            found, taken = find(access, facts)
        bring_up_to_date(work, facts, found, taken)
    except GitHubError as error:
        record_failure(uow_factory, lease, row, error)
        return
    with work.transaction() as uow:
        lease.release(uow)


def _read(work: RulesetWork) -> RulesetFacts | None:
    """Return the facts; None, with the lease released, if there is nothing to do at GitHub."""
    with work.transaction() as uow:
        [facts] = read_facts(uow, [work.row.key])
        if (facts.is_absent and not facts.frozen) or (facts.frozen and not work.row.authorized):
            work.lease.release(uow)
            return None
        return facts


def find(access: Rulesets, facts: RulesetFacts) -> tuple[dict[str, Any] | None, list[str]]:
    """Return our ruleset, or None if there is none; then also the names that are taken."""
    if facts.ruleset_id is not None:
        try:
            return access.get(facts.ruleset_id), []
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
    listed = access.list()  # raises if the repository itself is not found
    found = find_unanswered(access, listed, facts.writing, facts.level)
    if found is None and facts.stop is not None:
        found = _find_lost(access, listed, facts.level)
    return (found, []) if found is not None else (None, [str(each["name"]) for each in listed])


def find_unanswered(
    access: Rulesets,
    listed: Iterable[dict[str, Any]],
    writing: Mapping[str, Any] | None,
    level: Level = "repository",
) -> dict[str, Any] | None:
    """Return, of the listed rulesets, the one whose creation was not answered; None if it is not there."""
    if writing is None:
        return None
    for each in listed:
        if each["name"] == writing["name"] and each["source_type"].lower() == level:
            found = access.get(int(each["id"]))
            if is_as_written(found, writing):
                return found
    return None


def _find_lost(access: Rulesets, listed: Iterable[dict[str, Any]], level: Level) -> dict[str, Any] | None:
    """Return the ruleset of this level that has a stop, and whose id is lost; None if there is none."""
    for each in listed:
        if each["source_type"].lower() == level:
            found = access.get(int(each["id"]))
            if stops_in(found):
                return found
    return None


def bring_up_to_date(
    work: RulesetWork,
    facts: RulesetFacts,
    found: dict[str, Any] | None,
    taken: Sequence[str],
    context: str | None = None,
) -> None:
    """Write what has to be written, and record what is there now. Raise `GitHubError` if that fails.

    `context` is that of the stop which the ruleset has to require; `taken` are the names of others.
    """
    stop = stop_of(context, work.app_id)
    if found is None:
        if facts.frozen:
            _create(work, facts, facts.ruleset(stop, free_name(taken)), context)
        else:
            with work.transaction() as uow:
                record_written(uow, facts, None)
        return
    ids = (int(found["id"]), str(found["node_id"]))
    if facts.ruleset_id != ids[0]:
        _record_recognized(work, facts, ids, normalized(found))
    before, after = normalized(found), facts.restored(found, stop)
    if before == after:
        with work.transaction() as uow:
            record_unchanged(uow, facts, ids, stop=context)
        return
    with work.transaction() as uow:
        require_confirmed(uow)
        record_intent(uow, facts, stop=context)
    try:
        work.access.update(ids[0], after)
    except GitHubError as error:
        if not error.maybe_applied:
            with work.transaction() as uow:
                withdraw_intent(uow, facts, writing=None)
        raise
    with work.transaction() as uow:
        record_written(uow, facts, ids, stop=context, changed=True)
        audit_change(uow, work.row.place, facts, ids[0], ("ruleset.updated", before, after))
        probe_named(uow, [facts])


def _create(work: RulesetWork, facts: RulesetFacts, ruleset: dict[str, Any], context: str | None) -> None:
    with work.transaction() as uow:
        require_confirmed(uow)
        record_intent(uow, facts, ruleset, context)
    try:
        created = work.access.create(ruleset)
    except GitHubError as error:
        if not error.maybe_applied:
            with work.transaction() as uow:
                withdraw_intent(uow, facts, writing=facts.writing)
        raise
    with work.transaction() as uow:
        ruleset_id = int(created["id"])
        record_written(uow, facts, (ruleset_id, str(created["node_id"])), stop=context, changed=True)
        audit_change(uow, work.row.place, facts, ruleset_id, ("ruleset.created", None, ruleset))
        probe_named(uow, [facts])


def _record_recognized(work: RulesetWork, facts: RulesetFacts, ids: tuple[int, str], ruleset: dict[str, Any]) -> None:
    """Record and audit that a ruleset whose creation was not answered is there."""
    with work.transaction() as uow:
        row = facts.row(uow)
        (row.ruleset_id, row.node_id), row.writing, row.written_at = ids, None, uow.now
        audit_change(uow, work.row.place, facts, ids[0], ("ruleset.created", None, ruleset))


def record_failure(uow_factory: UnitOfWorkFactory, lease: Lease, row: Row[Any], error: GitHubError) -> None:
    """Record why a ruleset could not be brought up to date; it is tried again, seldom if only people can help.

    What may have a stop is tried again soon in any case. Repositories that left theirs to an organisation make their
    own, unless that one is in force.
    """
    delay = OPERATOR_RETRY_INTERVAL if error.kind is ErrorKind.REJECTED else backoff(error, row.attempts)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        pause_when_limited(uow, row.installation_id, error)
        if error.kind is ErrorKind.SECONDARY_RATE_LIMIT:
            learn_from_refused_write(uow, row.installation_id, uow.ports[GitHubLimits])
        counted = error.kind not in _WAITS
        known = row_of(uow, OrganizationStop if lease.queue is ORGANIZATION_STOPS else FrozenBranchRuleset, row.key)
        if counted and known.stop_context is not None:
            delay = min(delay, MAX_STOP_RETRY)
        lease.fail(uow, error.code, error.message, uow.now + delay, keys=[row.key], counted=counted)
        if counted and isinstance(known, OrganizationStop) and known.stop_in_force_at is None:
            recall(uow, known.id, kept=None)
    logger.warning("the ruleset of frozen branches of %s is not up to date: %s", row.place, error)
