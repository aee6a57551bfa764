"""Windows of wall-clock time, placed on the real time line of a zone.

**A window covers every real instant whose wall-clock reading lies in `[start, end)`.** What follows where a zone's
clocks change:

- A start that no clock ever shows (a gap) is the instant of the change; one that is shown twice (a fold), the first.
- An end in a fold is the second showing; the very reading that a fold begins with is the first one, for nothing
  before it is shown again. An end in a gap keeps the offset that was in force before it (RFC 5545, 3.3.5), which is
  later than the change: rather some minutes too many than a merge inside the window.
- A window all of whose readings are skipped has no real time, and does not happen.

Whole plans are placed here, so datetimes are combined, added and compared: `replace` takes ten times as long.
Pure: `zoneinfo` is asked, and no clock. https://www.rfc-editor.org/rfc/rfc5545#section-3.3.5
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of readings
_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` on one day to `end`, `days` calendar days later; wall-clock times of the schedule's zone."""

    start: time
    end: time
    days: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether its end does not come after its start."""
        return self.days == 0 and self.end <= self.start

    def on(self, day: date) -> tuple[datetime, datetime]:
        """Return start and end as readings of the clock (naive) of the window that begins on `day`."""
        return datetime.combine(day, self.start), datetime.combine(day + timedelta(days=self.days), self.end)


@dataclass(frozen=True, slots=True)
class Span:
    """Real time, in UTC: from `start` until just before `end`."""

    start: datetime
    end: datetime

    def meets(self, other: "Span") -> bool:
        """Tell whether some instant is in both."""
        return self.start < other.end and other.start < self.end


def place(window: Window, day: date, zone: ZoneInfo) -> Span | None:
    """Return the real time of the window that begins on `day`; None when no clock of the zone ever shows any of it."""
    begins, ends = _once(day, window.start, zone), _once(day + timedelta(days=window.days), window.end, zone)
    if begins is not None and ends is not None:
        return None if window.is_empty else Span(begins, ends)
    start, end = window.on(day)
    begins = first_instant(start, zone)
    if reading(begins, zone) >= end:
        return None
    return Span(begins, last_instant(end, zone))


def _once(day: date, at: time, zone: ZoneInfo) -> datetime | None:
    """Return the instant, UTC, at which clocks show a time on a day, as nearly always; None where they are changed."""
    offset = datetime.combine(day, at, zone).utcoffset()
    if offset is None or offset != datetime.combine(day, _again(at), zone).utcoffset():
        return None
    return datetime.combine(day, at, UTC) - offset


def reading(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return what the clocks of a zone show at an instant, naive."""
    ahead = instant.astimezone(zone).utcoffset() or timedelta()
    return _EPOCH + (instant - _UTC_EPOCH + ahead)


def first_instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant, UTC, at which the clocks show `shown`, or at which they skip it."""
    first, second = _showings(shown, zone)
    instant = first.astimezone(UTC)
    if first.utcoffset() == second.utcoffset() or reading(instant, zone) == shown:
        return instant
    return _change(second.astimezone(UTC), instant, shown, zone)


def last_instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the last instant, UTC, at which the clocks come from before to `shown`; in a gap, by the offset before it.

    Clocks that are put back to `shown` come from after: all that lies before it was over already.
    """
    first, second = _showings(shown, zone)
    if first.utcoffset() == second.utcoffset():
        return first.astimezone(UTC)
    later = second.astimezone(UTC)
    comes = reading(later, zone) == shown and reading(later - _SECOND, zone) < shown
    return later if comes else first.astimezone(UTC)


def _showings(shown: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return both that a reading can mean; they differ only where clocks are changed."""
    at = shown.time()
    return datetime.combine(shown, at, zone), datetime.combine(shown, _again(at), zone)


@lru_cache(maxsize=4096)
def _again(at: time) -> time:
    """Return a time of day as what clocks show the second time."""
    return at.replace(fold=1)


def _change(before: datetime, after: datetime, shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant between two at which the clocks go past `shown`: they read less before, and more after."""
    while after - before > _SECOND:
        middle = before + (after - before) // 2 // _SECOND * _SECOND
        if reading(middle, zone) < shown:
            before = middle
        else:
            after = middle
    return after
