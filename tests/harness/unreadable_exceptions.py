"""Exceptions that no worker can read for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.harness.github_harness import Harness


@contextmanager
def unreadable_exceptions(harness: Harness) -> Iterator[None]:
    """Take the right to read exceptions from workers, until the end of the block."""
    harness.sql("REVOKE SELECT ON exceptions FROM change_freeze_worker")
    try:
        yield
    finally:
        harness.sql("GRANT SELECT ON exceptions TO change_freeze_worker")
