"""Requests for jobs: verify the rules on GitHub, and write the current verdicts again."""

from typing import Any

from sqlalchemy import text

from models.checks import mark_dirty
from models.organizations import Organization
from rules.freezes.scope import FreezableBranch
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.probe_requests import schedule_probes
from services.freezes.scope_names import named_scope
from services.freezes.scopes import resolve_targets

MAX_LISTED = 100
"""The most branches that an audit entry names."""

# A check with an empty summary hash is written again (`reconcile.evaluation.STALE_HASH`).
_MARK_STALE = text("""
    WITH locked AS (
        SELECT h.repository_id, h.check_name, h.head_sha
        FROM unnest(CAST(:ids AS text[])) AS k (id)
        JOIN watched_branches b ON b.id = k.id
        JOIN head_checks h ON h.repository_id = b.repository_id AND h.check_name IN (b.check_name, b.pattern_check_name)
        WHERE EXISTS (SELECT FROM queue_entries q WHERE q.branch_id = b.id AND q.head_sha = h.head_sha) OR EXISTS (
            SELECT FROM pull_requests p WHERE p.repository_id = b.repository_id AND p.head_sha = h.head_sha
              AND p.base_branch = b.name AND p.state = 'open')
        ORDER BY h.repository_id, h.check_name, h.head_sha
        FOR NO KEY UPDATE OF h
    )
    UPDATE head_checks h SET summary_hash = '' FROM locked
    WHERE h.repository_id = locked.repository_id AND h.check_name = locked.check_name AND h.head_sha = locked.head_sha
""")
_COUNT_HEADS = text("""
    SELECT count(DISTINCT (repository_id, head_sha)) FROM (
        SELECT p.repository_id, p.head_sha
        FROM unnest(CAST(:ids AS text[])) AS k (id)
        JOIN watched_branches b ON b.id = k.id
        JOIN pull_requests p ON p.repository_id = b.repository_id AND p.base_branch = b.name AND p.state = 'open'
        UNION
        SELECT b.repository_id, q.head_sha
        FROM unnest(CAST(:ids AS text[])) AS k (id)
        JOIN watched_branches b ON b.id = k.id
        JOIN queue_entries q ON q.branch_id = b.id
    ) heads
""")


def verify(uow: UnitOfWork, scope: dict[str, Any]) -> dict[str, Any]:
    """Schedule probes of every branch in the scope; raise what `resolve_targets` raises."""
    reached = resolve_targets(uow, scope).branches
    schedule_probes(uow, [branch.branch_id for branch in reached])
    _audit(uow, "enforcement.verify_requested", scope, reached)
    return {"branch_count": len(reached), "requested_at": uow.now}


def seed(uow: UnitOfWork, scope: dict[str, Any]) -> dict[str, Any]:
    """Schedule every head of the scope's branches to be written again with its current verdict.

    The branches are locked before their heads, as the reconciler does. Raise what `resolve_targets` raises.
    """
    reached = resolve_targets(uow, scope).branches
    ids = sorted(branch.branch_id for branch in reached)
    mark_dirty(uow.session, ids, uow.now)
    uow.session.execute(_MARK_STALE, {"ids": ids})
    heads = uow.session.execute(_COUNT_HEADS, {"ids": ids}).scalar_one()
    uow.wake("reconcile")
    _audit(uow, "enforcement.seed_requested", scope, reached, heads=heads)
    return {"branch_count": len(reached), "head_count": heads, "requested_at": uow.now}


def _audit(uow: UnitOfWork, action: str, scope: dict[str, Any], reached: list[FreezableBranch], **more: Any) -> None:
    named = [branch.branch_id for branch in reached[:MAX_LISTED]]
    organization = uow.session.get_one(Organization, uow.organization)
    target = ("organization", organization.id, organization.name)
    uow.audit(action, target, scope=named_scope(uow, scope), branches=len(reached), branchIds=named, **more)
