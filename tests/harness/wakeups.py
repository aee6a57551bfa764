"""A recorder of wake-ups, in place of the queue that sends them."""


class RecordedWakeups:
    """Records the names of the jobs to wake instead of sending them."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        """The names in the order of the calls, and sorted within a call."""

    def send(self, names: set[str]) -> None:
        """Record the names."""
        self.sent += sorted(names)
