"""The facts of messages, read from the database as it is now."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.pull_requests import PullRequest
from models.queries import exception_states
from models.repositories import Repository, WatchedBranch
from models.schedules import Occurrence
from rules.access.permissions import shown_actor
from rules.freezes.blocking import BlockingCounts
from rules.freezes.blocking_words import numbers_of_counts
from rules.freezes.globs import Glob
from rules.slack.notices import MAX_SHOWN
from rules.time.instants import format_instant
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking import count_by_freeze

Facts = dict[str, Any]
_FULL_NAME = Repository.owner + "/" + Repository.name


def freezes_facts(uow: UnitOfWork, freeze_ids: Sequence[str]) -> Facts:
    """Return what a message says about freezes: their number and progress, and the first of them."""
    query = select(
        Freeze.id, Freeze.blocked_at, Freeze.enforced_at, Freeze.ended_at, Freeze.is_in_force(uow.now)
    ).where(Freeze.id.in_(freeze_ids), Freeze.organization_id == uow.organization)
    rows = uow.session.execute(query).all()
    counts = count_by_freeze(uow.session, [row.id for row in rows if row[-1]], uow.now)
    numbers = [numbers_of_counts(each) for each in counts.values()]
    open_now = {freeze_id for freeze_id, each in counts.items() if not each.is_blocked}
    broken = {freeze_id for freeze_id, each in counts.items() if not each.is_enforced}
    return {
        "total": len(rows),
        "blocked": sum(row.blocked_at is not None and row.id not in open_now for row in rows),
        "enforced": sum(row.enforced_at is not None and row.id not in broken for row in rows),
        "ended": sum(row.ended_at is not None for row in rows),
        "unprotected": sum(bool(each.states["not_blocked"]) and not each.passing for each in numbers),
        "unknown": sum(bool(each.states["unknown"]) and not each.states["not_blocked"] for each in numbers),
        "shown": _shown_freezes(uow, freeze_ids[:MAX_SHOWN], counts),
    }


def shown_freezes(uow: UnitOfWork, freeze_ids: Sequence[str]) -> list[Facts]:
    """Return what a message says about each of a few freezes, in their order."""
    query = select(Freeze.id).where(
        Freeze.id.in_(freeze_ids), Freeze.organization_id == uow.organization, Freeze.is_in_force(uow.now)
    )
    running = uow.session.scalars(query).all()
    return _shown_freezes(uow, freeze_ids, count_by_freeze(uow.session, running, uow.now))


def _shown_freezes(uow: UnitOfWork, freeze_ids: Sequence[str], blocking: Mapping[str, BlockingCounts]) -> list[Facts]:
    query = select(Freeze).where(Freeze.id.in_(freeze_ids), Freeze.organization_id == uow.organization)
    freezes = {freeze.id: freeze for freeze in uow.session.scalars(query.execution_options(populate_existing=True))}
    counted = (
        select(FreezeTarget.freeze_id, func.count(), func.count(WatchedBranch.repository_id.distinct()))
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .where(FreezeTarget.freeze_id.in_(freezes))
        .group_by(FreezeTarget.freeze_id)
    )
    counts = {freeze_id: (branches, repositories) for freeze_id, branches, repositories in uow.session.execute(counted)}
    names = _branch_names(uow, freeze_ids[0]) if len(freeze_ids) == 1 else []
    return [
        _freeze_facts(freezes[each], counts.get(each, (0, 0)), names, blocking.get(each))
        for each in freeze_ids
        if each in freezes
    ]


def _freeze_facts(
    freeze: Freeze, counts: tuple[int, int], names: Sequence[str], blocking: BlockingCounts | None
) -> Facts:
    blocked_at = None if blocking is not None and not blocking.is_blocked else freeze.blocked_at
    enforced_at = None if blocking is not None and not blocking.is_enforced else freeze.enforced_at
    return {
        "id": freeze.id,
        "reason": freeze.reason,
        "by": shown_actor(freeze.created_by),
        "endsAt": _instant(freeze.ends_at),
        "branches": counts[0],
        "repositories": counts[1],
        "names": list(names),
        "blockedAt": _instant(blocked_at),
        "enforcedAt": _instant(enforced_at),
        "blocking": None if blocking is None else _blocking_facts(blocking),
        "endedAt": _instant(freeze.ended_at),
        "endReason": freeze.end_reason,
        "endedBy": shown_actor(freeze.ended_by) or None,
        "exceptionsAllowed": freeze.exceptions_allowed,
    }


def _blocking_facts(counts: BlockingCounts) -> Facts:
    """Return how many branches of a freeze in force are blocked, and why the others are not."""
    return {
        "states": dict(counts.states),
        "passing": numbers_of_counts(counts).passing,
        "gaps": [
            {"state": state, "code": code, "branchCount": branches} for state, code, branches in counts.worst_gaps
        ],
    }


def _branch_names(uow: UnitOfWork, freeze_id: str) -> list[str]:
    query = (
        select(_FULL_NAME, WatchedBranch.name)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .join(FreezeTarget, FreezeTarget.branch_id == WatchedBranch.id)
        .where(FreezeTarget.freeze_id == freeze_id)
        .order_by(Repository.owner, Repository.name, WatchedBranch.name)
        .limit(MAX_SHOWN)
    )
    return [f"{repository}:{branch}" for repository, branch in uow.session.execute(query)]


def window_starts(uow: UnitOfWork, freeze_ids: Collection[str]) -> dict[str, datetime]:
    """Return the planned start of each freeze's window by the freeze's id; a freeze that a person started has none."""
    query = (
        select(Freeze.id, Occurrence.starts_at)
        .join(Occurrence, Occurrence.id == Freeze.occurrence_id)
        .where(Freeze.id.in_(freeze_ids), Freeze.organization_id == uow.organization)
    )
    return {row.id: row.starts_at for row in uow.session.execute(query)}


def freezes_in(uow: UnitOfWork, freeze_ids: Collection[str], repositories: Glob) -> set[str]:
    """Return the freezes that cover a branch of one of these repositories."""
    query = (
        select(FreezeTarget.freeze_id, _FULL_NAME)
        .distinct()
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(FreezeTarget.freeze_id.in_(freeze_ids), FreezeTarget.organization_id == uow.organization)
    )
    return {freeze_id for freeze_id, name in uow.session.execute(query) if repositories.matches(name)}


def request_facts(uow: UnitOfWork, exception_ids: Sequence[str]) -> Facts | None:
    """Return what a message says about the exceptions of one pull request; None if they are gone."""
    query = (
        select(PullRequestException, PullRequest, _FULL_NAME, WatchedBranch.name)
        .join(PullRequest, PullRequest.id == PullRequestException.pull_request_id)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, WatchedBranch.id == PullRequestException.branch_id)
        .where(PullRequestException.id.in_(exception_ids), PullRequestException.organization_id == uow.organization)
        .order_by(PullRequestException.id)
    )
    rows = uow.session.execute(query.execution_options(populate_existing=True)).all()
    if not rows:
        return None
    exceptions = [row[0] for row in rows]
    states = exception_states(uow.session, exceptions, uow.now)
    pending = [exception for exception in exceptions if states[exception.id] == "pending"]
    first = (pending or exceptions)[0]
    _, pull, repository, branch = rows[0]
    return {
        **_exception_facts(first, states[first.id]),
        "pullRequest": f"{repository}#{pull.number}",
        "repository": repository,
        "title": pull.title,
        "url": pull.url,
        "branch": branch,
    }


def _exception_facts(row: PullRequestException, state: str) -> Facts:
    by = shown_actor(row.requested_by) if row.requested_by else _by(row, row.decided_by)
    return {"id": row.id, "by": by, "reason": row.reason, "decided": _decision(row, state)}


def _decision(row: PullRequestException, state: str) -> Facts | None:
    """Return how an exception was decided, or ended undecided; None while it is pending."""
    if state == "pending":
        return None
    if state == "revoked":
        by, at = row.revoked_by, row.revoked_at
    elif row.decision is not None:
        by, at, state = row.decided_by, row.decided_at, row.decision
    else:
        by, at = None, row.expired_at
    return {
        "how": state,
        "by": _by(row, by) or None,
        "at": _instant(at or row.created_at),
        "reason": row.decision_reason if row.decision is not None else None,
    }


def _by(row: PullRequestException, actor: Mapping[str, Any] | None) -> str:
    """Return who decided on an exception, or revoked it: a rule, where the service did it for one."""
    by_rule = row.rule_name is not None and (actor or {}).get("type") == "system"
    return f"the rule “{row.rule_name}”" if by_rule else shown_actor(actor)


def _instant(at: datetime | None) -> str | None:
    return None if at is None else format_instant(at)
