"""The text form of datetimes in the API: RFC 3339, UTC, ending in `Z`."""

from datetime import UTC, datetime


def format_instant(instant: datetime) -> str:
    """Return `2026-11-21T09:30:00Z`, with milliseconds only if there are any. Needs an aware datetime."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    if instant.microsecond < 1000:
        return (instant.replace(microsecond=0) if instant.microsecond else instant).isoformat()[:-6] + "Z"
    return instant.isoformat(timespec="milliseconds")[:-6] + "Z"
