"""Batches of rows, isolated from each other's failures, and periodic tasks that one process runs per period."""

import logging
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

import sqlalchemy.exc
from sqlalchemy import Row as DatabaseRow
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert

from models.requests import MORE_WINDOWS, PeriodicTask
from services.core.sweep_tasks import request_tasks
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller

logger = logging.getLogger(__name__)

Row = TypeVar("Row", bound=Hashable)


def for_each_isolated(rows: Iterable[Row], work: Callable[[Row], object]) -> int:
    """Call `work` for each row and return how many returned true; an error in one does not stop the others."""
    done = 0
    for each in rows:
        try:
            done += bool(work(each))
        except sqlalchemy.exc.OperationalError:
            raise  # the database is unavailable, for the others too
        except Exception:  # any error of one row; it is logged with its traceback, and the row is retried
            logger.exception("task failed for %s and will be retried", each)
    return done


def for_each_in_organization(
    uow_factory: UnitOfWorkFactory,
    rows: Iterable[DatabaseRow[str, str] | tuple[str, str]],
    work: Callable[[UnitOfWork, str], object],
) -> int:
    """Call `work` as the service in an organisation, with a unit of work for each row: an id, and its organisation's.

    Return how many returned true; an error in one does not stop the others.
    """

    def work_on(row: DatabaseRow[str, str] | tuple[str, str]) -> object:
        object_id, organization_id = row
        with uow_factory.open(system_caller(organization_id)) as uow:
            return work(uow, object_id)

    return for_each_isolated(rows, work_on)


def for_each_due(
    uow_factory: UnitOfWorkFactory,
    find: Callable[[Row | None], Sequence[Row]],
    work: Callable[[Row], object],
    *,
    page: int,
    group: Callable[[Row], str],
) -> int:
    """Call `work` for all rows that `find` returns after a row, in pages; return how many returned true.

    While a page is full, other processes are asked to help. Each begins with another group of rows, and looks again
    where it meets a row that is done; rows of a group stay in their order.
    """
    done, after, tried = 0, None, set[Row]()
    while found := find(after):
        left = [row for row in found if row not in tried]
        is_full = len(found) == page
        if not left:
            after = found[-1]
        elif is_full:
            with uow_factory.open(SYSTEM_CALLER) as uow:
                request_tasks(uow, *MORE_WINDOWS)
            first = group(random.choice(left))  # noqa: S311 - spreads work, hides nothing
            left.sort(key=lambda row: group(row) < first)
        for row in left:
            tried.add(row)
            is_done = for_each_isolated([row], work)
            done += is_done
            if is_full and not is_done:
                break
    return done


def acquire_periodic(uow: UnitOfWork, name: str, period: timedelta) -> bool:
    """True if the task is due; it is marked as done, so that only one of several processes runs it."""
    acquired = uow.session.scalar(
        insert(PeriodicTask)
        .values(name=name, done_at=uow.now)
        .on_conflict_do_update(
            index_elements=[PeriodicTask.name],
            set_={"done_at": uow.now},
            where=PeriodicTask.done_at <= uow.now - period,
        )
        .returning(PeriodicTask.name)
    )
    return acquired is not None


def make_periodic_due(uow: UnitOfWork, name: str, period: timedelta) -> None:
    """Make a task due again whose last run did not finish its work."""
    uow.session.execute(update(PeriodicTask).where(PeriodicTask.name == name).values(done_at=uow.now - period))
