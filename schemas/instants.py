"""Instants on the wire: RFC 3339 in, RFC 3339 UTC ending in `Z` out."""

import re
from datetime import UTC, date, datetime

_SHAPE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_instant(text: str) -> datetime:
    """Return the instant in UTC, cut to milliseconds; raises ValueError for anything but RFC 3339 with a zone."""
    if not _SHAPE.fullmatch(text):
        raise ValueError("not an RFC 3339 date-time")
    try:
        instant = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def read_instant(text: str) -> datetime:
    """Do as `parse_instant` for a text that a validator has found to be an RFC 3339 date-time; four times as fast."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return parse_instant(text)
    if instant.tzinfo is not UTC or instant.microsecond:
        return parse_instant(text)
    return instant


def is_instant(text: str) -> bool:
    """Tell whether `parse_instant` takes the text."""
    try:
        parse_instant(text)
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    """Tell whether the text is a day of the calendar, `YYYY-MM-DD`."""
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def format_instant(instant: datetime) -> str:
    """Return `2026-11-21T09:30:00Z`, with milliseconds only when there are any; needs an aware datetime."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    if instant.microsecond < 1000:
        return (instant.replace(microsecond=0) if instant.microsecond else instant).isoformat()[:-6] + "Z"
    return instant.isoformat(timespec="milliseconds")[:-6] + "Z"
