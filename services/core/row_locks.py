"""Row locks, always acquired in the order of ids, so that two transactions cannot deadlock."""

from collections.abc import Collection

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork

# The time is read when all locks are held: the row is only made then.
_FREEZES = text("""
    WITH held AS MATERIALIZED (SELECT id FROM freezes WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE)
    SELECT clock_timestamp() FROM (SELECT count(*) FROM held) AS locked
""")


def lock_freezes(uow: UnitOfWork, freeze_ids: Collection[str]) -> None:
    """Lock freezes, in force or ended; `uow.now` is then the time when they are locked."""
    uow.refresh_now(_FREEZES, ids=list(freeze_ids))
