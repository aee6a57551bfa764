"""What the work queue reports to metrics."""

from typing import Protocol


class QueueObserver(Protocol):
    """Counts the events of work queues; `kind` is the name of a queue."""

    def acquired(self, kind: str, count: int, taken_over: int) -> None:
        """Count rows that were acquired, and how many of them from a lease that had ended."""

    def released(self, kind: str, count: int) -> None:
        """Count rows whose work is done."""

    def postponed(self, kind: str, count: int) -> None:
        """Count rows that were given back and have not failed."""

    def failed(self, kind: str, code: str, count: int) -> None:
        """Count rows whose work failed."""

    def lost(self, kind: str, count: int) -> None:
        """Count rows whose lease had ended when it was to be renewed or released."""


class IgnoreQueue:
    """Counts nothing."""

    def acquired(self, kind: str, count: int, taken_over: int) -> None:
        """Do nothing."""

    def released(self, kind: str, count: int) -> None:
        """Do nothing."""

    def postponed(self, kind: str, count: int) -> None:
        """Do nothing."""

    def failed(self, kind: str, code: str, count: int) -> None:
        """Do nothing."""

    def lost(self, kind: str, count: int) -> None:
        """Do nothing."""
