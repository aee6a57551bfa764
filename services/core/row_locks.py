"""Row locks on watched branches, taken in one order by everyone."""

from collections.abc import Collection

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork


def lock_branches(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Lock branches, leased or not, in the order in which everybody does; before a transaction that locks only some."""
    query = text("SELECT id FROM watched_branches WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE")
    uow.session.execute(query, {"ids": list(branch_ids)})
