"""The windows of a schedule in real time: its days, each with the window in local time of its zone.

Pure: no clock is read.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import rules.time.zones  # noqa: F401 - selects the data that zoneinfo reads
from rules.time.recurrence import LATEST, Recurrence, days
from rules.time.wall_clock import Window, first_instant, local_time, place

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """One window in UTC, its end exclusive; one without real time starts and ends at the instant that skips it."""

    start: datetime
    end: datetime

    @property
    def is_real(self) -> bool:
        """True if it contains an instant."""
        return self.start < self.end


def expand_windows(
    recurrence: Recurrence, window: Window, zone: ZoneInfo, after: datetime, until: datetime
) -> list[Interval]:
    """Return the windows that end after one time and start until another, by start.

    Of several with the same start, which a gap of the clocks can cause, only the longest is returned.
    """
    first = local_time(after, zone).date() - timedelta(days=window.days) - _DAY
    last = local_time(until, zone).date() + _DAY
    found: dict[datetime, Interval] = {}
    for day in days(recurrence, first, last):
        span = place(window, day, zone)
        begins = span.start if span else first_instant(window.on(day)[0], zone)
        ends = span.end if span else begins
        if ends > after and begins <= until:
            known = found.get(begins)
            if known is None or ends > known.end:
                found[begins] = Interval(begins, ends)
    return sorted(found.values(), key=lambda one: one.start)


def are_over(recurrence: Recurrence, window: Window, zone: ZoneInfo, now: datetime) -> bool:
    """Return True if all windows of a recurrence have ended."""
    recent = now.date() - timedelta(days=window.days + 2)
    coming = islice(days(recurrence, recent, LATEST), window.days + 5)
    return not any(span.end > now for day in coming if (span := place(window, day, zone)) is not None)
