"""Instants as people read them. A script shows them in the reader's own time zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rules.time.zones import zone_names

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_UNITS = ((timedelta(days=1), "day"), (timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"))


def format_instant(instant: str | datetime, zone: str = "") -> str:
    """Return an instant in a zone of the IANA database; empty: in UTC."""
    at, name = _parse(instant), "UTC"
    if zone:
        at = at.astimezone(ZoneInfo(zone))
        name = at.tzname() or zone
        name = f"UTC{name}" if name[0] in "+-" else name
    # Pages show hundreds: strftime takes five times as long.
    return f"{at.day} {MONTHS[at.month - 1][:3]} {at.year}, {at.hour:02}:{at.minute:02} {name}"


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


def read_instant(text: str, zone: str) -> str:
    """Return the instant of a field `datetime-local` in a zone of the IANA database (empty: UTC), with its offset.

    Raise ValueError if the field holds no date and time, or there is no such zone.
    """
    zone = zone or "UTC"
    if zone not in zone_names():  # ZoneInfo raises OSError for some other names, such as America
        raise ValueError(zone)
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).isoformat()


def _parse(instant: str | datetime) -> datetime:
    return datetime.fromisoformat(instant) if isinstance(instant, str) else instant


def format_local(local: str) -> str:
    """Return a local time, such as `2026-11-27T18:00`, with its weekday."""
    return f"{datetime.fromisoformat(local):%a %-d %b %Y, %H:%M}"


def instant_in_zone(instant: datetime, timezone: str) -> datetime:
    """Return the same instant in a zone of the IANA database; in UTC if there is no such zone."""
    return instant.astimezone(ZoneInfo(timezone) if timezone in zone_names() else UTC)
