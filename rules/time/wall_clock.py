"""Windows of wall-clock time, mapped to real time in a time zone.

**A window covers every instant whose local time lies in `[start, end)`.** When the clocks of a zone change:

- A start in a gap (a local time that no clock shows) is the instant of the change. A start in a fold (a local time that
  is shown twice) is its first occurrence.
- An end in a fold is its second occurrence, except for the local time with which the fold begins: it is the first one,
  since nothing before it is shown again. An end in a gap keeps the offset in force before the gap (RFC 5545, 3.3.5),
  which is later than the change: some extra minutes are better than a merge inside the window.
- A window whose local times are all skipped has no real time and does not take place.

Whole plans are computed here, so datetimes are combined, added and compared: `replace` is ten times slower.
Pure: only `zoneinfo` is used, no clock. https://www.rfc-editor.org/rfc/rfc5545#section-3.3.5
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local time
_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` on one day to `end`, `days` calendar days later, in local time of the schedule's zone."""

    start: time
    end: time
    days: int = 0

    @property
    def is_empty(self) -> bool:
        """True if the end is not after the start."""
        return self.days == 0 and self.end <= self.start

    def on(self, day: date) -> tuple[datetime, datetime]:
        """Return start and end, in local time (naive), of the window that starts on `day`."""
        return datetime.combine(day, self.start), datetime.combine(day + timedelta(days=self.days), self.end)


@dataclass(frozen=True, slots=True)
class Interval:
    """One window in UTC, its end exclusive; one without real time starts and ends at the instant that skips it."""

    start: datetime
    end: datetime

    @property
    def is_real(self) -> bool:
        """True if it contains an instant."""
        return self.start < self.end


def real_time_of(window: Window, day: date, zone: ZoneInfo) -> Interval | None:
    """Return the real time of the window that starts on `day`, or None if no clock of the zone shows any of it."""
    begins = _unambiguous_instant(day, window.start, zone)
    ends = _unambiguous_instant(day + timedelta(days=window.days), window.end, zone)
    if begins is not None and ends is not None:
        return None if window.is_empty else Interval(begins, ends)
    start, end = window.on(day)
    begins = first_instant(start, zone)
    if local_time(begins, zone) >= end:
        return None
    return Interval(begins, last_instant(end, zone))


def clear_time_of(window: Window, day: date, zone: ZoneInfo) -> Interval:
    """Return the time of the window of `day` in which it is by every reading of the clocks; it may be empty.

    It differs from the real time where clocks change: it begins with the last instant of its start, and ends with the
    first of its end. So a window that ends when another one begins, as clocks show it, shares no clear time with it.
    """
    start, end = window.on(day)
    return Interval(last_instant(start, zone), first_instant(end, zone))


def _unambiguous_instant(day: date, at: time, zone: ZoneInfo) -> datetime | None:
    """Return the instant (UTC) of a local time that occurs once, as nearly always; None near a change of the clocks."""
    offset = datetime.combine(day, at, zone).utcoffset()
    if offset is None or offset != datetime.combine(day, _again(at), zone).utcoffset():
        return None
    return datetime.combine(day, at, UTC) - offset


def local_time(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return the local time of a zone at an instant, naive."""
    ahead = instant.astimezone(zone).utcoffset() or timedelta()
    return _EPOCH + (instant - _UTC_EPOCH + ahead)


def first_instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant (UTC) at which clocks show `shown`, or at which they skip it."""
    first, second = _showings(shown, zone)
    instant = first.astimezone(UTC)
    if first.utcoffset() == second.utcoffset() or local_time(instant, zone) == shown:
        return instant
    return _change(second.astimezone(UTC), instant, shown, zone)


def last_instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the last instant (UTC) at which clocks reach `shown` from an earlier time; in a gap, by the old offset.

    Clocks that are put back to `shown` come from a later time: everything before it was already over.
    """
    first, second = _showings(shown, zone)
    if first.utcoffset() == second.utcoffset():
        return first.astimezone(UTC)
    later = second.astimezone(UTC)
    comes = local_time(later, zone) == shown and local_time(later - _SECOND, zone) < shown
    return later if comes else first.astimezone(UTC)


def clock_gaps(zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """Return the instants (UTC) after one time and before another at which clocks of a zone are put forward."""
    years = range(after.year, until.year + 1)
    return [gap for year in years for gap in _gaps_of(zone, year) if after < gap < until]


@lru_cache(maxsize=2048)
def _gaps_of(zone: ZoneInfo, year: int) -> tuple[datetime, ...]:
    found, day = [], datetime(year, 1, 1, tzinfo=UTC)
    while day.year == year:
        shown, begin, end = local_time(day, zone), day, day + _DAY
        if local_time(end, zone) - shown > _DAY:
            while end - begin > _SECOND:
                middle = begin + (end - begin) // 2 // _SECOND * _SECOND
                begin, end = (begin, middle) if local_time(middle, zone) - shown > middle - day else (middle, end)
            found.append(end)
        day += _DAY
    return tuple(found)


def _showings(shown: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return both instants that a local time can mean; they differ only where clocks change."""
    at = shown.time()
    return datetime.combine(shown, at, zone), datetime.combine(shown, _again(at), zone)


@lru_cache(maxsize=4096)
def _again(at: time) -> time:
    """Return the second occurrence of a time of day."""
    return at.replace(fold=1)


def _change(before: datetime, after: datetime, shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant between two at which the clocks pass `shown`."""
    while after - before > _SECOND:
        middle = before + (after - before) // 2 // _SECOND * _SECOND
        if local_time(middle, zone) < shown:
            before = middle
        else:
            after = middle
    return after
