"""The rows of the tasks that workers run again and again, and when they are due."""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import select, text, update
from sqlalchemy.dialects.postgresql import insert

from models.requests import PeriodicTask
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST, Lease, WorkQueue

# One that was at rest has not been late until now.
_REQUEST = text(
    f"UPDATE periodic_tasks t SET due_at = {REQUEST.format(row='t')}, "  # noqa: S608 - constants
    "done_at = CASE WHEN due_at IS NULL THEN :now ELSE done_at END WHERE name = ANY(:names)"
)


def queue_of(kind: str, names: Collection[str], limit: timedelta) -> WorkQueue:
    """Return the queue of these tasks; a task that takes longer than `limit` may be run by another process as well."""
    return WorkQueue(
        kind,
        PeriodicTask,
        select(PeriodicTask.name).where(PeriodicTask.name.in_(names)).order_by(PeriodicTask.due_at),
        lease=limit,
    )


def seconds_to_next_task(uow: UnitOfWork, names: Collection[str]) -> float | None:
    """Return the seconds until one of these tasks is due that no process runs, None if all are being run.

    A task without a row gets one, and is due.
    """
    query = select(PeriodicTask.name, PeriodicTask.due_at, PeriodicTask.lease_token).where(PeriodicTask.name.in_(names))
    found = {row.name: row for row in uow.session.execute(query)}
    new = [{"name": name, "done_at": uow.now, "due_at": uow.now} for name in names if name not in found]
    if new:
        uow.session.execute(insert(PeriodicTask).on_conflict_do_nothing(), new)
        return 0.0
    free = (row.due_at for row in found.values() if row.lease_token is None and row.due_at is not None)
    return min(((due_at - uow.now).total_seconds() for due_at in free), default=None)


def record_done(uow: UnitOfWork, lease: Lease, seconds: float | None) -> None:
    """Record that the task of a lease is done, and due again in so many seconds; None: when it is requested."""
    lease.release(uow, due_at=None if seconds is None else uow.now + timedelta(seconds=seconds))
    uow.session.execute(update(PeriodicTask).where(PeriodicTask.name == lease.row.name).values(done_at=uow.now))


def request_tasks(uow: UnitOfWork, *names: str) -> None:
    """Have tasks run now, and not only when they are due."""
    uow.session.execute(_REQUEST, {"now": uow.now, "names": list(names)})
