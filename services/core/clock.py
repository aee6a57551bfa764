"""The clock: PostgreSQL's, so that every process of every machine agrees; tests move it."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Turns the database's reading into the unit's `now`."""

    def read(self, database_now: datetime) -> datetime:
        """Return the instant at which the unit happens, UTC, in whole milliseconds."""


class DatabaseClock:
    """Takes the database's reading as it is."""

    def read(self, database_now: datetime) -> datetime:
        """Return the reading cut to milliseconds: what is stored is what clients are told."""
        return whole_milliseconds(database_now)


def whole_milliseconds(instant: datetime) -> datetime:
    """Return `instant` in UTC, cut to milliseconds."""
    return instant.astimezone(UTC).replace(microsecond=instant.microsecond // 1000 * 1000)
