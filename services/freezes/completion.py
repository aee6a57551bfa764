"""The completion of a freeze as a whole: since when it is enforced, or released, on all of its branches.

It is recorded in a transaction of its own, with the audit entry of a freeze that is enforced. A pass of the reconciler
holds branches and targets when it finishes the last one, while a lift of the freeze holds the freeze and waits for the
branches: both orders together would deadlock.
"""

from collections.abc import Collection

from sqlalchemy import text

from models.freezes import INCOMPLETE
from services.core.row_locks import lock_freezes
from services.core.unit_of_work import UnitOfWork

_ENFORCED = text("""
    UPDATE freezes f SET enforced_at = :now
    WHERE f.id = ANY(:freezes) AND f.enforced_at IS NULL AND f.ended_at IS NULL AND NOT f.targets_pending
      AND NOT EXISTS (
        SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.state IN ('pending', 'failed'))
    RETURNING f.id, f.organization_id, f.reason, f.started_at,
        (SELECT count(*) FROM freeze_targets t WHERE t.freeze_id = f.id) AS targets
""")
_RELEASED = text("""
    UPDATE freezes f SET released_at = :now
    WHERE f.id = ANY(:freezes) AND f.released_at IS NULL AND f.ended_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.state IN ('releasing', 'failed'))
""")
_INCOMPLETE = text(f"""
    SELECT f.id FROM freezes f
    WHERE {INCOMPLETE} AND NOT EXISTS (
        SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.state IN ('pending', 'releasing', 'failed'))
    LIMIT 500
""")  # noqa: S608 - a constant


def mark_complete(uow: UnitOfWork, freeze_ids: Collection[str]) -> None:
    """Record which of these freezes are enforced or released on all of their branches.

    They are locked before: of two workers that finish the last two targets at once, the second sees what the first has
    done.
    """
    if freeze_ids:
        lock_freezes(uow, freeze_ids)
        listed = {"freezes": list(freeze_ids), "now": uow.now}
        for freeze in uow.session.execute(_ENFORCED, listed).all():
            with uow.act_as_service(organization_id=freeze.organization_id):
                times = {"startedAt": freeze.started_at, "enforcedAt": uow.now}
                uow.audit("freeze.enforced", ("freeze", freeze.id, freeze.reason), targets=freeze.targets, **times)
        uow.session.execute(_RELEASED, listed)


def repair_completion(uow: UnitOfWork) -> None:
    """Record completions that a worker was about to record when it died."""
    mark_complete(uow, uow.session.scalars(_INCOMPLETE).all())
