"""Row locks, always acquired in the order of ids, so that two transactions cannot deadlock."""

from collections.abc import Collection

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork

_FREEZES = text("SELECT id FROM freezes WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE")


def lock_freezes(uow: UnitOfWork, freeze_ids: Collection[str]) -> None:
    """Lock freezes, in force or ended."""
    uow.session.execute(_FREEZES, {"ids": list(freeze_ids)})
