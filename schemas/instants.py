"""Instants that clients send: RFC 3339, with any zone. `rules/time/instants.py` formats those of responses."""

import re
from datetime import UTC, date, datetime

_SHAPE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_instant(text: str) -> datetime:
    """Return the instant in UTC, truncated to milliseconds; raise ValueError if it is not RFC 3339 with a zone."""
    if not _SHAPE.fullmatch(text):
        raise ValueError("not an RFC 3339 date-time")
    try:
        instant = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def parse_valid_instant(text: str) -> datetime:
    """Parse a text that is known to be valid as `parse_instant` does, but four times as fast."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return parse_instant(text)
    if instant.tzinfo is not UTC or instant.microsecond:
        return parse_instant(text)
    return instant


def is_instant(text: str) -> bool:
    """Return True if `parse_instant` accepts the text."""
    try:
        parse_instant(text)
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    """Return True if the text is a calendar date, `YYYY-MM-DD`."""
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
