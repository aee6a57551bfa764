"""Failures of freezes: that checks of a freeze could not be written is recorded in the audit, once until it recovers.

A wide freeze can fail on thousands of branches, and each is tried again and again: one entry is recorded for all of
them, when the first fails. It is recorded in a transaction of its own, for the reason that `completion.py` gives.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import text

from services.core.row_locks import lock_freezes
from services.core.unit_of_work import UnitOfWork

MAX_NAMED = 20
"""Branches that an entry names."""

_FAILING_ON = text("""
    SELECT DISTINCT t.freeze_id FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
    WHERE t.branch_id = ANY(:branches) AND t.state = 'failed' AND f.failing_since IS NULL
""")
_FAILING = text("""
    SELECT DISTINCT t.freeze_id FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
    WHERE t.state = 'failed' AND f.failing_since IS NULL LIMIT 500
""")
_RECORD = text("""
    UPDATE freezes f SET failing_since = :now
    WHERE f.id = ANY(:freezes) AND f.failing_since IS NULL
      AND EXISTS (SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.state = 'failed')
    RETURNING f.id, f.organization_id, f.reason
""")
_FAILED = text("""
    SELECT t.branch_id AS id, r.owner || '/' || r.name || ':' || b.name AS name, t.operation,
           t.last_error_code AS code, t.last_error_message AS message, count(*) OVER () AS failed
    FROM freeze_targets t JOIN watched_branches b ON b.id = t.branch_id JOIN repositories r ON r.id = b.repository_id
    WHERE t.freeze_id = :freeze AND t.state = 'failed' ORDER BY t.id LIMIT :limit
""")
_RECOVERED = text("""
    WITH recovered AS (
        SELECT f.id FROM freezes f
        WHERE f.failing_since IS NOT NULL
          AND NOT EXISTS (SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.state = 'failed')
        ORDER BY f.id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE freezes f SET failing_since = NULL FROM recovered WHERE recovered.id = f.id
""")


def record_failures_on(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Record which freezes have begun to fail, of those that cover these branches."""
    _record(uow, uow.session.scalars(_FAILING_ON, {"branches": list(branch_ids)}).all())


def record_recovered(uow: UnitOfWork) -> None:
    """Record which freezes have recovered, so that their next failure is recorded again."""
    uow.session.execute(_RECOVERED)


def repair_failures(uow: UnitOfWork) -> None:
    """Record failures that a worker was about to record when it died."""
    _record(uow, uow.session.scalars(_FAILING).all())


def _record(uow: UnitOfWork, freeze_ids: Sequence[str]) -> None:
    if not freeze_ids:
        return
    lock_freezes(uow, freeze_ids)
    for freeze in uow.session.execute(_RECORD, {"freezes": list(freeze_ids), "now": uow.now}).all():
        failed = uow.session.execute(_FAILED, {"freeze": freeze.id, "limit": MAX_NAMED}).all()
        with uow.act_as_service(organization_id=freeze.organization_id):
            uow.audit(
                "freeze.target_failed",
                ("freeze", freeze.id, freeze.reason),
                operation=failed[0].operation,
                targets=failed[0].failed,
                branches=[{"id": one.id, "name": one.name} for one in failed],
                error={"code": failed[0].code, "message": failed[0].message},
            )
