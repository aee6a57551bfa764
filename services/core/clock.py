"""The clock of a unit of work: PostgreSQL's, so that all processes agree. Tests replace it."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Turns the database's time into the `now` of a unit of work."""

    def read(self, database_now: datetime) -> datetime:
        """Return the time of the unit of work: UTC, in whole milliseconds."""


class DatabaseClock:
    """The database's time, unchanged."""

    def read(self, database_now: datetime) -> datetime:
        """Return the time cut to milliseconds, so that stored and returned values are equal."""
        return whole_milliseconds(database_now)


def whole_milliseconds(instant: datetime) -> datetime:
    """Return `instant` in UTC, cut to milliseconds."""
    return instant.astimezone(UTC).replace(microsecond=instant.microsecond // 1000 * 1000)
