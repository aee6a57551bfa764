"""What PostgreSQL undid, to let somebody else go on, is done again."""

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy.exc

T = TypeVar("T")

_ATTEMPTS = 3
_STATES = ("40001", "40P01")  # serialization failure, deadlock: PostgreSQL undid the whole unit


def retry_on_serialization_failure(work: Callable[[], T]) -> T:
    """Return what the work returns; it opens a unit of its own each time, and is tried three times at most."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return work()
        except sqlalchemy.exc.OperationalError as error:
            if attempt == _ATTEMPTS or getattr(error.orig, "sqlstate", None) not in _STATES:
                raise
    raise AssertionError("unreachable")
