"""Batches of rows, isolated from each other's failures, and periodic tasks that one process runs per period."""

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

import sqlalchemy.exc
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert

from models.requests import PeriodicTask
from services.core.unit_of_work import UnitOfWork

logger = logging.getLogger(__name__)

Row = TypeVar("Row")


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
