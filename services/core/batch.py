"""Work on many rows: each isolated from the failure of another, and tasks of a period done by one sweeper."""

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

import sqlalchemy.exc
from sqlalchemy.dialects.postgresql import insert

from models.requests import Chore
from services.core.unit_of_work import UnitOfWork

logger = logging.getLogger(__name__)

Found = TypeVar("Found")


def for_each_isolated(found: Iterable[Found], do: Callable[[Found], object]) -> int:
    """Do something for each, and return for how many it was done; one that fails keeps no other from being done."""
    done = 0
    for each in found:
        try:
            done += bool(do(each))
        except sqlalchemy.exc.OperationalError:
            raise  # the database is away, for the others as well
        except Exception:  # whatever it is, others must not wait for it; it is logged whole, and tried again
            logger.exception("a chore failed for %s and is tried again", each)
    return done


def claim_period(uow: UnitOfWork, name: str, period: timedelta) -> bool:
    """Tell whether the chore is due, and take it: of several sweepers one gets it."""
    taken = uow.session.scalar(
        insert(Chore)
        .values(name=name, done_at=uow.now)
        .on_conflict_do_update(
            index_elements=[Chore.name], set_={"done_at": uow.now}, where=Chore.done_at <= uow.now - period
        )
        .returning(Chore.name)
    )
    return taken is not None
