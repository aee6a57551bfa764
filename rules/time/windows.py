"""The windows of a schedule in real time: its days, each with the window in local time of its zone.

Pure: no clock is read.
"""

from datetime import datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import rules.time.zones  # noqa: F401 - selects the data that zoneinfo reads
from rules.time.recurrence import LATEST, Recurrence, days
from rules.time.wall_clock import Interval, Window, first_instant, local_time, real_time_of

_DAY = timedelta(days=1)


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
        placed = real_time_of(window, day, zone)
        if placed is None:
            skipped_at = first_instant(window.on(day)[0], zone)
            placed = Interval(skipped_at, skipped_at)
        if placed.end > after and placed.start <= until:
            known = found.get(placed.start)
            if known is None or placed.end > known.end:
                found[placed.start] = placed
    return sorted(found.values(), key=lambda one: one.start)


def are_over(recurrence: Recurrence, window: Window, zone: ZoneInfo, now: datetime) -> bool:
    """Return True if all windows of a recurrence have ended."""
    recent = now.date() - timedelta(days=window.days + 2)
    coming = islice(days(recurrence, recent, LATEST), window.days + 5)
    return not any(placed.end > now for day in coming if (placed := real_time_of(window, day, zone)) is not None)
