"""Windows at every change of every zone's clocks until 2037, against clocks of another make.

The oracle is a walk over the minutes that the C library's clocks show, with the same time zone data, so neither
`zoneinfo` nor our arithmetic is believed. It looks at what a window has to cover, not at how long it is:

- It covers every minute whose reading lies in `[start, end)`.
- It begins with the first of them, which in a gap is the change, and in a fold the first showing.
- It ends with the last of them, where its end is ever shown; in a fold that is before the second showing. An end that
  the clocks skip is where it would have come had they not been changed.
- Where there is none of them it does not happen.
"""

import os
import time as c_library
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from itertools import combinations
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import given, settings
from hypothesis import strategies as st

import rules.time.zones  # noqa: F401 - first of all it says whose data `zoneinfo` reads
from rules.time.wall_clock import Interval, Window, first_instant, last_instant, local_time, real_time_of
from tests.harness.random_seed import exploring

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), 24 * 60
FIRST, LAST = (datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2038))
DATA = files("tzdata").joinpath("zoneinfo")
ZONES = sorted({DATA.joinpath(zone).read_bytes(): zone for zone in sorted(available_timezones())}.values())
"""Of those that are one zone by several names, the last."""


@dataclass(frozen=True, slots=True)
class Change:
    """Clocks that are put forward or back: at which minute, and what they are ahead of UTC, in minutes."""

    at: int
    before: int
    after: int

    @property
    def readings(self) -> tuple[int, int]:
        """What they show when they are changed, and what instead; the gap or the fold lies between the two."""
        low, high = sorted((self.at + self.before, self.at + self.after))
        return low, high


@contextmanager
def c_library_in(zone: str) -> Iterator[None]:
    """Have the C library's clocks show a zone's time."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = f":{DATA.joinpath(zone)}"
    c_library.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        c_library.tzset()


def ahead(minute: int) -> int:
    """Return what the C library's clocks are ahead of UTC, in minutes."""
    seconds = c_library.localtime(minute * 60).tm_gmtoff
    assert seconds % 60 == 0
    return seconds // 60


def minutes(instant: datetime) -> int:
    return (instant - EPOCH) // MINUTE


def shown(minute: int) -> datetime:
    """Return a reading, counted in minutes as if its clock stood in UTC."""
    return EPOCH.replace(tzinfo=None) + minute * MINUTE


@cache
def changes(zone: str) -> tuple[Change, ...]:
    """Return every change of a zone's clocks from 2026 to 2037; two are at least ten days apart."""
    found, step = [], 10 * DAY
    with c_library_in(zone):
        for start in range(minutes(FIRST), minutes(LAST), step):
            low, high = start, start + step
            before, after = ahead(low), ahead(high)
            while before != after and high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if ahead(middle) == before else (low, middle)
            if before != after:
                found.append(Change(high, before, after))
    return tuple(found)


@cache
def distinct_changes() -> dict[Change, str]:
    """Return every change, with a zone that makes it: what clocks show around it is the same in all that do."""
    return {change: zone for zone in ZONES for change in changes(zone)}


def walk(zone: str, first: int, last: int) -> list[tuple[int, int]]:
    """Return the minutes from `first` until `last`, each with what the clocks then show."""
    with c_library_in(zone):
        return [(minute, minute + ahead(minute)) for minute in range(first, last)]


def expected(walked: list[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """Return the first minute of a window and the one after its last, by looking at every minute around it."""
    covered = [minute for minute, read in walked if start <= read < end]
    if not covered:
        return None
    if any(read == end for _, read in walked):
        return covered[0], covered[-1] + 1
    offset = next(read - minute for minute, read in reversed(walked) if read < end)  # before the change
    return covered[0], end - offset


def window(start: int, end: int) -> tuple[Window, date]:
    """Return the window between two readings, and the day on which it begins."""
    first, last = shown(start), shown(end)
    return Window(first.time(), last.time(), (last.date() - first.date()).days), first.date()


def placed(zone: str, start: int, end: int) -> tuple[int, int] | None:
    times, day = window(start, end)
    found = real_time_of(times, day, ZoneInfo(zone))
    return (minutes(found.start), minutes(found.end)) if found else None


def test_local_time_agrees_with_the_c_library_in_every_zone() -> None:
    samples = [minutes(FIRST) + hours * 60 for hours in range(0, 12 * 365 * 24, 1999)]
    for zone in ZONES:
        place_of = ZoneInfo(zone)
        with c_library_in(zone):
            around = [change.at + shift for change in changes(zone) for shift in (-1, 0)]
            for minute in (*samples, *around):
                assert local_time(EPOCH + minute * MINUTE, place_of) == shown(minute + ahead(minute)), zone


def test_window_is_placed_exactly_at_every_clock_change_of_every_zone() -> None:
    for change, zone in distinct_changes().items():
        low, high = change.readings
        inside = (low, low + 1, (low + high) // 2, high - 1, high)
        edges = sorted({low - 61, low - 30, low - 1, *inside, high + 1, high + 31})
        reach = high - low + 120
        walked = walk(zone, change.at - reach, change.at + reach)
        for start, end in combinations(edges, 2):
            assert placed(zone, start, end) == expected(walked, start, end), (zone, shown(start), shown(end))
    assert len(distinct_changes()) > 500


@settings(max_examples=80 if exploring() else 25)
@given(
    zone=st.sampled_from(ZONES),
    data=st.data(),
    lead=st.integers(-2 * DAY, DAY),
    length=st.integers(1, 4 * DAY),
)
def test_window_covers_every_minute_whose_local_time_lies_within(
    zone: str, data: st.DataObject, lead: int, length: int
) -> None:
    around = [change.at for change in changes(zone)] or [minutes(FIRST)]
    start = data.draw(st.sampled_from(around)) + lead
    walked = walk(zone, start - 28 * 60, start + length + 28 * 60)
    assert placed(zone, start, start + length) == expected(walked, start, start + length)


@settings(max_examples=200 if exploring() else 50)
@given(
    zone=st.sampled_from(ZONES),
    day=st.dates(FIRST.date(), date(2037, 12, 31)),
    cuts=st.lists(st.times().map(lambda at: at.replace(second=0, microsecond=0)), min_size=3, max_size=3, unique=True),
)
def test_adjacent_windows_leave_no_gap_and_overlap_only_at_clock_changes(
    zone: str, day: date, cuts: list[time]
) -> None:
    first, second, third = sorted(cuts)
    earlier, later = (real_time_of(Window(*times), day, ZoneInfo(zone)) for times in ((first, second), (second, third)))
    whole = real_time_of(Window(first, third), day, ZoneInfo(zone))
    assert whole == joined(earlier, later)
    if earlier and later and earlier.end != later.start:
        assert earlier.start < later.end
        assert later.start < earlier.end
        assert any(abs(change.at - minutes(later.start)) < 2 * DAY for change in changes(zone))


def joined(one: Interval | None, other: Interval | None) -> Interval | None:
    both = [interval for interval in (one, other) if interval]
    return Interval(min(each.start for each in both), max(each.end for each in both)) if both else None


@given(
    zone=st.sampled_from(ZONES),
    day=st.dates(FIRST.date(), date(2037, 12, 31)),
    at=st.times().map(lambda at: at.replace(second=0, microsecond=0)),
)
def test_last_instant_of_a_local_time_is_not_before_the_first(zone: str, day: date, at: time) -> None:
    place_of, read = ZoneInfo(zone), datetime.combine(day, at)
    assert first_instant(read, place_of) <= last_instant(read, place_of)
