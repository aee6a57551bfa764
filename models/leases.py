"""Leases: the columns of a table of work, and the processes that hold leases."""

from datetime import datetime

from sqlalchemy import Identity, func
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base


class Leased:
    """The columns that `services/core/work_queue.py` keeps on every row of work."""

    due_at: Mapped[datetime | None]
    """When the row is to be worked on next; none: there is nothing to do. A lease that is acquired sets it."""
    lease_token: Mapped[str | None]
    """Names the lease on the row, if there is one: a token is never used twice."""
    lease_holder: Mapped[int | None]
    """The process that has the lease; none: a process that took no lock, whose lease ends only with its time."""
    lease_until: Mapped[datetime | None]
    """When the lease ends unless it is renewed."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    """How many times the work failed since it was last done."""
    last_error_code: Mapped[str | None]
    last_error_message: Mapped[str | None]


class LeaseHolder(Base):
    """A process that works. While it lives, it holds the advisory lock of its number on a connection of its own.

    The row becomes visible after the lock was taken: where the row is and the lock is not, the process is dead. While
    it runs, its heartbeats follow each other; one that is stopped holds its lock and has no heartbeat.
    """

    __tablename__ = "lease_holders"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    kind: Mapped[str | None]
    """`worker`; that of a sweeper of a former release is `sweeper`."""
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    beat_at: Mapped[datetime | None]
    """Its last heartbeat, by the database's clock."""
    stopped_at: Mapped[datetime | None]
    """When it ended in order; none for one that was killed."""
    ended_at: Mapped[datetime | None]
    """When its death was noticed; the row is removed once no lease can name it any more."""
