"""Requests to compare the mirror of repositories with GitHub."""

from collections.abc import Collection

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST

_REQUEST = text(f"""
    INSERT INTO repository_syncs AS s (installation_id, organization_id, requested_at, due_at)
    SELECT i.id, i.organization_id, :now, :now FROM installations i
    WHERE i.id = ANY(:ids) AND i.organization_id IS NOT NULL ORDER BY i.id
    ON CONFLICT (installation_id) DO UPDATE
    SET due_at = {REQUEST.format(row="s")}, attempts = 0,
        requested_at = CASE WHEN s.due_at IS NULL OR s.lease_until > :now THEN :now ELSE s.requested_at END
    WHERE NOT (:join AND s.lease_until > :now) OR s.lease_until IS NULL
""")  # noqa: S608 - a constant of ours


def request_comparison(uow: UnitOfWork, installation_ids: Collection[int], *, join: bool = False) -> None:
    """Have installations compared that an organisation owns.

    With `join` a comparison that is running is enough; without, it may have read too early, and another one follows.
    """
    uow.session.execute(_REQUEST, {"ids": list(installation_ids), "now": uow.now, "join": join})
    uow.wake("sync")
