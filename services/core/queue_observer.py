"""What the work queue reports to metrics."""


class QueueObserver:
    """Counts the events of work queues; `kind` is the name of a queue. This one ignores them."""

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
