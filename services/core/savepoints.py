"""Work of which a failure must not fail the transaction around it."""

import logging
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def in_savepoint(
    session: Session, work: Callable[[], Result], *, otherwise: Callable[[], Result], failure: str
) -> Result:
    """Return what `work` does; if a statement of it fails, undo it, log `failure`, and return what `otherwise` does.

    Raise the error if the connection is lost.
    """
    try:
        with session.begin_nested():
            return work()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        logger.exception(failure)
        return otherwise()
