"""Row locks on watched branches, always acquired in the same order, so that they cannot deadlock."""

from collections.abc import Collection

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork


def lock_branches(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Lock branches in the common order, leased or not; call it before a transaction locks some of them."""
    query = text("SELECT id FROM watched_branches WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE")
    uow.session.execute(query, {"ids": list(branch_ids)})
