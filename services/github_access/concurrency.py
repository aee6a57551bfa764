"""Calls to GitHub that do not wait for each other."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

MAX_CALLS = 8
"""The most concurrent calls; GitHub allows a hundred per installation."""

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(function: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """Return the function's result for each value, in order; the deadline of the caller applies inside it.

    A single call is made in the caller's thread.
    """
    given = list(values)
    if len(given) < 2:
        return [function(value) for value in given]
    with ThreadPoolExecutor(MAX_CALLS) as threads:
        futures = [threads.submit(copy_context().run, function, value) for value in given]
        return [each.result() for each in futures]
