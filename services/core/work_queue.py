"""The work queue: rows that are due, and the leases of the processes that work on them.

A table of work has the columns of `models/leases.py`. A row is *due* from `due_at` on. A process *acquires* due rows:
it writes a token, its number and a time into them, and commits. Until that time no other process acquires them. Before
each call to another server the process *renews* the lease. In the end it *releases* the row, which records that the
work is done, *postpones* it, or *fails* it, which counts an attempt and makes the row due again after a back-off with
jitter. What is requested while a lease is held is not lost: the row stays due when it is released.

A lease ends

* with its time, 16 seconds where nothing else is said, for a process that runs and makes no progress;
* at once, when PostgreSQL sees that the process is dead, and after eight seconds without a heartbeat of it
  (`services/core/lease_holder.py`);
* at once, when the database interrupts the work of a process that runs on (`Lease.while_held`).

The row is then acquired by another process, and `taken_over` says that the lease before it was never released. The old
holder may still live: it was paused, or the connection of its lock broke. So every transaction that records something
begins with `renew`, `require`, `release`, `postpone` or `fail`, which have no effect for a lease that has ended. A call
that a dead process has sent may still be on its way; where that matters, `call_timeout` makes the others wait for it.
"""

import logging
import random
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy.exc
from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    DateTime,
    Integer,
    Row,
    Select,
    and_,
    any_,
    bindparam,
    case,
    func,
    inspect,
    literal_column,
    null,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.dml import ReturningUpdate

from models.base import Base
from models.queries import NOW
from services.core.lease_holder import IS_ALIVE, LOST_HOLDERS, HolderLock
from services.core.queue_observer import QueueObserver
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory

logger = logging.getLogger(__name__)

LEASE_DURATION = timedelta(seconds=16)
"""How long a lease lasts that is not renewed: longer than a call to another server, and no hindrance for others."""
SPARE = timedelta(seconds=3)
"""How much of a lease is used up before renewing it writes a longer one."""
_MAX_DOUBLINGS = 10
_MAX_MESSAGE_LENGTH = 500
_INSTANT = DateTime(timezone=True)
_LOST = literal_column(LOST_HOLDERS, ARRAY(Integer))
_ALIVE = text(f"(CAST(:holder AS integer) IS NULL OR {IS_ALIVE})")
REQUEST = """
    CASE WHEN {row}.lease_until > :now THEN greatest(:now, {row}.due_at + interval '1 microsecond')
         ELSE least(:now, {row}.due_at) END
"""
"""SQL: the `due_at` of a row whose work is requested now; later than its lease, if it has one, so that it stays due."""


class LeaseLostError(Exception):
    """The lease has ended, and another process may work on the row: nothing more may be recorded."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait after a failed attempt."""

    first: timedelta = timedelta(seconds=2)
    longest: timedelta = timedelta(minutes=5)

    def delay(self, attempts: int) -> timedelta:
        """Return how long to wait after one more failure than `attempts`: twice as long each time.

        With jitter, so that rows which failed together do not become due together.
        """
        longest: timedelta = min(self.longest, self.first * 2 ** min(attempts, _MAX_DOUBLINGS))
        return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads load, hides nothing


LeaseStatement = ReturningUpdate[Any] | Select[Any]


@dataclass(frozen=True, slots=True)
class LeaseStatements:
    """The statements that change the rows of a lease; they have no effect once the lease has ended."""

    renew: Select[Any]
    prolong: ReturningUpdate[Any]
    end: ReturningUpdate[Any]
    release: ReturningUpdate[Any]
    postpone: ReturningUpdate[Any]
    fail: ReturningUpdate[Any]


class WorkQueue:
    """The work of one kind.

    `candidates` selects from the table and what it is joined with. Its first column is the primary key of the table,
    its conditions are those of rows that may be acquired now (`NOW`), and its order is their priority. The rows of a
    lease have its columns, and `taken_over`, the last one. `on_acquire` are further columns that acquiring changes.

    With `call_timeout`, the time after which a call has ended, the row of a dead or silent process is acquired no
    sooner than that after its lease was last renewed.

    Renewing a lease writes nothing before `SPARE` of it is used up: a row that is renewed with each step of the work is
    updated seldom. So what is left of a lease after `renew` is at least `lease` less `SPARE`.
    """

    def __init__(
        self,
        kind: str,
        model: type[Base],
        candidates: Select[*tuple[Any, ...]],
        *,
        lease: timedelta = LEASE_DURATION,
        retry: RetryPolicy | None = None,
        call_timeout: timedelta | None = None,
        on_acquire: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.lease = lease
        """How long a lease lasts that is not renewed."""
        self.retry = retry or RetryPolicy()
        self._model = model
        self._key = next(iter(inspect(model).primary_key))
        self._call_timeout = call_timeout
        self.available = self.is_available(NOW)
        """The condition of rows that are due and that no process works on."""
        self._candidates = candidates.where(self.available)
        self._on_acquire = {
            "lease_token": bindparam("token"),
            "lease_holder": bindparam("holder"),
            "lease_until": bindparam("until"),
            "due_at": NOW,
            **(on_acquire or {}),
        }
        # In this order PostgreSQL reads the due rows from their index. Else, once it keeps a plan, it takes a third of
        # the table for due, expects to find one soon, and reads all that they are joined with when none is.
        soonest = self._candidates.order_by(None).order_by(model.__table__.c.due_at).limit(1)
        self._has_work = select(soonest.exists())
        self._first = self._candidates.limit(1)
        self._acquiring: dict[InstrumentedAttribute[Any] | None, ReturningUpdate[*tuple[Any, ...]]] = {}
        self.statements = _lease_statements(model, self._key)

    def is_available(self, at: ColumnElement[datetime]) -> ColumnElement[bool]:
        """Return the condition of rows that are due at that time and that no process works on."""
        columns = self._model.__table__.c
        holder_lost = columns.lease_holder == any_(_LOST)
        if self._call_timeout is not None:
            holder_lost = and_(holder_lost, columns.lease_until <= at + (self.lease - self._call_timeout))
        return and_(columns.due_at <= at, or_(columns.lease_until.is_(None), columns.lease_until <= at, holder_lost))

    def has_work(self, uow: UnitOfWork) -> bool:
        """Return whether a row is due that no process works on."""
        return bool(uow.session.scalar(self._has_work, {"now": uow.now}))

    def backlog(self, limit: int) -> Select[int, datetime | None, int, int]:
        """Return the statement that counts the work, to `limit` at most, at the time `now`.

        Its columns are `due` (rows that may be acquired), `oldest_due_at` (of them), `retrying` (rows that failed and
        will be tried again) and `leases`.
        """
        columns = self._model.__table__.c
        due = self._candidates.order_by(None).order_by(columns.due_at).with_only_columns(columns.due_at).limit(limit)
        waiting = select(columns.due_at).where(columns.due_at.is_not(None)).limit(limit)
        oldest, retrying = due.subquery(), waiting.where(columns.attempts > 0).subquery()
        leases = waiting.where(columns.lease_until > NOW).subquery()
        return select(
            func.count().label("due"),
            func.min(oldest.c.due_at).label("oldest_due_at"),
            select(func.count()).select_from(retrying).scalar_subquery().label("retrying"),
            select(func.count()).select_from(leases).scalar_subquery().label("leases"),
        ).select_from(oldest)

    def first(self, uow: UnitOfWork) -> Row[Any] | None:
        """Return the row that would be acquired next, or None; it is not locked."""
        return uow.session.execute(self._first, {"now": uow.now}).first()

    def acquire(
        self, uow: UnitOfWork, *, within: tuple[InstrumentedAttribute[Any], Any] | None = None, limit: int = 1
    ) -> "Lease | None":
        """Lease due rows, `within` those that have a value in a column; None if all are being acquired already."""
        lock = uow.ports.find(HolderLock)
        holder = None if lock is None else lock.number(uow.session)
        token = secrets.token_hex(8)
        column, value = within or (None, None)
        if column not in self._acquiring:  # to make the statement takes longer than to run it
            self._acquiring[column] = self._acquiring_statement(column)
        values = {"now": uow.now, "token": token, "holder": holder, "until": uow.now + self.lease, "within": value}
        rows = tuple(uow.session.execute(self._acquiring[column], {**values, "limit": limit}))
        if not rows:
            return None
        uow.ports[QueueObserver].acquired(self.kind, len(rows), sum(row.taken_over for row in rows))
        return Lease(self, token, holder, uow.now, rows)

    def work_on_next(
        self, uow_factory: UnitOfWorkFactory, work: "Callable[[Lease], None]", *, wakes: str | None = None
    ) -> bool:
        """Do the work of the next row while its lease is held; False if none is due. `wakes` is as in `while_held`."""
        with uow_factory.open(SYSTEM_CALLER) as uow:
            lease = self.acquire(uow)
        if lease is None:
            return False
        with lease.while_held(uow_factory, wakes=wakes):
            work(lease)
        return True

    def _acquiring_statement(self, within: InstrumentedAttribute[Any] | None) -> ReturningUpdate[*tuple[Any, ...]]:
        candidates = self._candidates if within is None else self._candidates.where(within == bindparam("within"))
        due = (
            candidates.add_columns(self._model.__table__.c.lease_token.is_not(None).label("taken_over"))
            .limit(bindparam("limit", type_=Integer))
            .with_for_update(of=self._model, skip_locked=True, key_share=True)
            .cte("due")
        )
        return (
            update(self._model)
            .values(**self._on_acquire)
            .where(self._key == due.c[self._key.name])
            .returning(*due.c)
            .execution_options(synchronize_session=False)
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """Rows that this process has acquired together."""

    queue: WorkQueue
    token: str
    holder: int | None
    acquired_at: datetime
    rows: tuple[Row[Any], ...]
    """As they were when they were acquired."""

    @property
    def row(self) -> Row[Any]:
        """The row of a lease of one."""
        [row] = self.rows
        return row

    @property
    def keys(self) -> list[Any]:
        """The keys of all rows."""
        return [row[0] for row in self.rows]

    def renew(self, uow: UnitOfWork, keys: Collection[Any] | None = None) -> set[Any]:
        """Renew the leases that have not ended, and return their keys; the rows stay locked until the commit."""
        until = uow.now + self.queue.lease
        return self._execute(uow, self.queue.statements.renew, keys, until=until, ageing=until - SPARE)

    def prolong(self, uow: UnitOfWork, keys: Collection[Any]) -> None:
        """Renew leases at the end of a long transaction that has renewed them: no other process could acquire them."""
        uow.refresh_now()
        values = {**self._held(uow, list(keys)), "until": uow.now + self.queue.lease}
        uow.session.execute(self.queue.statements.prolong, values)

    def require(self, uow: UnitOfWork) -> None:
        """Renew the lease; raise LeaseLostError if that of any row has ended."""
        if len(self.renew(uow)) < len(self.rows):
            raise LeaseLostError

    @contextmanager
    def while_held(self, uow_factory: UnitOfWorkFactory, *, wakes: str | None = None) -> Iterator[None]:
        """Run the work of the lease, until it is done or raises LeaseLostError, which is logged.

        If the database interrupts the work, what is left of the lease ends, so that it is taken over now, and the error
        is raised again. `wakes` is the job that takes over at once; the sweep finds the rows in any case.
        """
        try:
            yield
        except LeaseLostError:
            logger.warning("%s: the lease of %s was lost", self.queue.kind, ", ".join(map(str, self.keys)))
        except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InternalError):  # the transaction was ended
            with uow_factory.open(SYSTEM_CALLER) as uow:
                uow.session.execute(self.queue.statements.end, self._held(uow, self.keys))
                if wakes is not None:
                    uow.wake(wakes)
            raise

    def release(
        self, uow: UnitOfWork, keys: Collection[Any] | None = None, *, due_at: datetime | None = None
    ) -> set[Any]:
        """Record that work is done; a row is due again at `due_at`, and at once if it was requested meanwhile.

        Return the keys of the rows whose lease had not ended.
        """
        released = self._execute(
            uow, self.queue.statements.release, keys, acquired_at=self.acquired_at, next_due=due_at
        )
        uow.ports[QueueObserver].released(self.queue.kind, len(released))
        return released

    def postpone(self, uow: UnitOfWork, due_at: datetime, keys: Collection[Any] | None = None) -> set[Any]:
        """Give back rows whose work is not done and has not failed, due at that time."""
        postponed = self._execute(
            uow, self.queue.statements.postpone, keys, acquired_at=self.acquired_at, next_due=due_at
        )
        uow.ports[QueueObserver].postponed(self.queue.kind, len(postponed))
        return postponed

    def fail(
        self,
        uow: UnitOfWork,
        code: str,
        message: str,
        due_at: datetime | None,
        *,
        keys: Collection[Any] | None = None,
        counted: bool = True,
    ) -> set[Any]:
        """Record why work failed; it is due again at that time, or given up (None). What is not `counted` only waits.

        Return the keys of the rows whose lease had not ended.
        """
        failed = self._execute(
            uow,
            self.queue.statements.fail,
            keys,
            acquired_at=self.acquired_at,
            next_due=due_at,
            counted=int(counted),
            code=code,
            message=message[:_MAX_MESSAGE_LENGTH],
        )
        uow.ports[QueueObserver].failed(self.queue.kind, code, len(failed))
        return failed

    def _execute(
        self, uow: UnitOfWork, statement: LeaseStatement, keys: Collection[Any] | None, **values: Any
    ) -> set[Any]:
        wanted = self.keys if keys is None else list(keys)
        found = set(uow.session.scalars(statement, {**self._held(uow, wanted), **values})) if wanted else set()
        if len(found) < len(wanted):
            uow.ports[QueueObserver].lost(self.queue.kind, len(wanted) - len(found))
        return found

    def _held(self, uow: UnitOfWork, keys: list[Any]) -> dict[str, Any]:
        """Return the values by which a statement finds the rows of this lease."""
        return {"keys": keys, "token": self.token, "holder": self.holder, "now": uow.now}


def _lease_statements(model: type[Base], key: ColumnElement[Any]) -> LeaseStatements:
    """Return the statements on the rows of a lease that has not ended; the rows are locked in the order of keys."""
    columns = model.__table__.c
    named = (
        select(key)
        .where(key == any_(bindparam("keys", type_=ARRAY(key.type))), columns.lease_token == bindparam("token"), _ALIVE)
        .order_by(key)
        .with_for_update(key_share=True)
    )
    mine, locked = named.where(columns.lease_until > NOW).cte("mine"), named.cte("locked")
    next_due = bindparam("next_due", type_=_INSTANT)
    given_back: dict[str, Any] = {
        "lease_token": null(),
        "lease_holder": null(),
        "lease_until": null(),
        "due_at": case((columns.due_at > bindparam("acquired_at"), columns.due_at), else_=next_due),
    }

    def statement(rows: CTE = mine, **values: Any) -> ReturningUpdate[Any]:
        changed = update(model).values(**values).where(key == rows.c[0]).returning(key)
        return changed.execution_options(synchronize_session=False)

    renewing = named.where(columns.lease_until > NOW).add_columns(columns.lease_until).cte("renewing")
    ageing = renewing.c.lease_until < bindparam("ageing", type_=_INSTANT)
    renewed = update(model).values(lease_until=bindparam("until")).where(key == renewing.c[0], ageing).cte("renewed")
    return LeaseStatements(
        renew=select(renewing.c[0]).add_cte(renewed),
        prolong=statement(locked, lease_until=bindparam("until")),
        end=statement(lease_until=NOW),
        release=statement(**given_back, attempts=0, last_error_code=null(), last_error_message=null()),
        postpone=statement(**given_back),
        fail=statement(
            **given_back,
            attempts=columns.attempts + bindparam("counted", type_=Integer),
            last_error_code=bindparam("code"),
            last_error_message=bindparam("message"),
        ),
    )
