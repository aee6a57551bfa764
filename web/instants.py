"""Instants as people read them. A script shows them in the reader's own time zone."""

from datetime import datetime, timedelta

_UNITS = ((timedelta(days=1), "day"), (timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"))


def format_instant(instant: str | datetime) -> str:
    """Return an instant in UTC."""
    return f"{_parse(instant):%-d %B %Y, %H:%M} UTC"


def format_distance(instant: str | datetime, now: datetime) -> str:
    """Return how far an instant is from now: `in 14 days`, `36 hours ago`, `just now`."""
    distance = _parse(instant) - now
    length = format_length(distance)
    if length is None:
        return "just now"
    return f"in {length}" if distance > timedelta() else f"{length} ago"


def format_length(length: timedelta) -> str | None:
    """Return a length in the largest unit of which it has two, rounded; None if it is shorter than a minute."""
    length = abs(length)
    for unit, name in _UNITS:
        if length >= 2 * unit:
            return f"{round(length / unit)} {name}s"
    return "a minute" if length >= timedelta(minutes=1) else None


def _parse(instant: str | datetime) -> datetime:
    return datetime.fromisoformat(instant) if isinstance(instant, str) else instant
