"""Retries of a transaction that PostgreSQL rolled back because of a conflict."""

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy.exc

T = TypeVar("T")

_MAX_ATTEMPTS = 3
_RETRYABLE_SQLSTATES = ("40001", "40P01")  # serialization failure, deadlock: the whole transaction was rolled back


def retry_on_serialization_failure(work: Callable[[], T]) -> T:
    """Return the result of `work`, which opens its own unit of work; try it at most three times."""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            return work()
        except sqlalchemy.exc.OperationalError as error:
            if attempt == _MAX_ATTEMPTS or getattr(error.orig, "sqlstate", None) not in _RETRYABLE_SQLSTATES:
                raise
    raise AssertionError("unreachable")
