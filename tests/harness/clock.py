"""A clock that tests move, so that no test sleeps."""

from datetime import datetime, timedelta

from services.core.clock import whole_milliseconds


class MovableClock:
    """The database's clock, moved by `offset`; `at` stops it."""

    def __init__(self) -> None:
        self.offset = timedelta()
        self.at: datetime | None = None

    def read(self, database_now: datetime) -> datetime:
        """Return the moved reading."""
        return whole_milliseconds(self.at or database_now + self.offset)

    def reset(self) -> None:
        """Go with the database's clock again."""
        self.offset, self.at = timedelta(), None
