"""The windows of a schedule in real time: its days, each with the window placed on the clocks of its zone.

Pure: what is asked about is given, no clock is read.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import rules.time.zones  # noqa: F401 - says whose data zoneinfo reads
from rules.time.recurrence import Recurrence, days
from rules.time.wall_clock import Window, first_instant, place, reading

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Placed:
    """One window in UTC, its end excluded; what has no real time begins and ends at the instant that skips it."""

    start: datetime
    end: datetime

    @property
    def is_real(self) -> bool:
        """Whether any instant lies in it."""
        return self.start < self.end


def placed(recurrence: Recurrence, window: Window, zone: ZoneInfo, after: datetime, until: datetime) -> list[Placed]:
    """Return the windows that end after one instant and begin until another, by their start.

    Of several with one start, which a gap of the clocks can bring about, the longest stands for all.
    """
    first = reading(after, zone).date() - timedelta(days=window.days) - _DAY
    last = reading(until, zone).date() + _DAY
    found: dict[datetime, Placed] = {}
    for day in days(recurrence, first, last):
        span = place(window, day, zone)
        begins = span.start if span else first_instant(window.on(day)[0], zone)
        ends = span.end if span else begins
        if ends > after and begins <= until:
            known = found.get(begins)
            if known is None or ends > known.end:
                found[begins] = Placed(begins, ends)
    return sorted(found.values(), key=lambda one: one.start)
