"""Locks with a name, for what has no row to lock: transactions that take the same one follow each other."""

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork

# The time is read when the lock is held: the first row is only made then.
_LOCK = text("""
    WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended(:name, 0)))
    SELECT clock_timestamp() FROM held
""")


def acquire_lock(uow: UnitOfWork, name: str) -> None:
    """Wait for the lock and hold it until the end of the transaction; `uow.now` is then the time of its acquisition."""
    uow.refresh_now(_LOCK, name=name)
