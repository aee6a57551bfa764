"""Queries that several services share: what covers a branch, and raising its generation."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Text, any_, literal, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from models.freezes import Freeze, FreezeTarget
from models.repositories import Repository, WatchedBranch
from rules.freezes.scope import BranchFact
from rules.freezes.verdict import CoveringFreeze


def any_of(texts: Iterable[str]) -> ColumnElement[Any]:
    """Return what a text column equals when it is any of many: one parameter, where `in_` sends one each."""
    return any_(literal(list(texts), ARRAY(Text)))


def covering_freezes(
    session: Session, branch_ids: Collection[str], now: datetime
) -> Mapping[str, list[CoveringFreeze]]:
    """Return, for each branch that is frozen at `now`, the freezes that cover it, oldest first."""
    rows = session.execute(
        select(
            FreezeTarget.branch_id,
            Freeze.id,
            Freeze.reason,
            Freeze.started_at,
            Freeze.ends_at,
            Freeze.exceptions_allowed,
            WatchedBranch.exceptions_allowed,
        )
        .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .where(FreezeTarget.branch_id.in_(branch_ids), FreezeTarget.operation == "apply", Freeze.is_in_force(now))
        .order_by(Freeze.started_at, Freeze.id)
    )
    covering: dict[str, list[CoveringFreeze]] = defaultdict(list)
    for branch_id, freeze_id, reason, started_at, ends_at, by_freeze, by_branch in rows:
        covering[branch_id].append(CoveringFreeze(freeze_id, reason, started_at, ends_at, by_freeze and by_branch))
    return covering


def watched_branches(session: Session, organization_id: str, *narrowed: ColumnElement[bool]) -> list[BranchFact]:
    """Return what scopes can reach, or what of it meets conditions: the watched branches of enabled repositories."""
    rows = session.execute(
        select(WatchedBranch.id, Repository.id, Repository.owner, Repository.name, WatchedBranch.name)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(
            WatchedBranch.organization_id == organization_id,
            WatchedBranch.unwatched_at.is_(None),
            Repository.enabled,
            Repository.removed_at.is_(None),
            *narrowed,
        )
        .order_by(Repository.owner, Repository.name, WatchedBranch.name)
    )
    return [BranchFact(branch, repository, f"{owner}/{name}", ref) for branch, repository, owner, name, ref in rows]


def mark_dirty(session: Session, branch_ids: Collection[str], now: datetime) -> None:
    """Say that the verdicts of these branches may have changed: their generation rises and they are due now.

    Rows are locked in the order of their ids, so that two callers never wait for each other in a circle.
    """
    session.execute(
        text(
            "WITH locked AS (SELECT id FROM watched_branches WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE) "
            "UPDATE watched_branches b SET wanted_generation = wanted_generation + 1, due_at = :now, attempts = 0, "
            "deferred_rank = NULL "
            "FROM locked WHERE b.id = locked.id"
        ),
        {"ids": list(branch_ids), "now": now},
    )


def lock_coverage(session: Session, organization_id: str, *, exclusive: bool) -> None:
    """Order the starting of freezes (shared) against the watching of branches (exclusive), until the commit.

    Without it, a freeze that starts and a branch that becomes watched at the same moment would miss each other.
    """
    function = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
    session.execute(text(f"SELECT {function}(hashtextextended(:key, 0))"), {"key": f"coverage {organization_id}"})
