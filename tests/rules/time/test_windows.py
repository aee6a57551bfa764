"""The windows of a schedule, from its terms to real time: days that are tried one by one, on clocks of another make."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.time.recurrence import Recurrence
from rules.time.wall_clock import Interval, Window
from rules.time.windows import expand_windows
from tests.rules.time.recurrences import by_trying, rules
from tests.rules.time.test_wall_clock_in_every_zone import EPOCH, MINUTE, ZONES, changes, expected, minutes, walk

DAYS = 24 * 60
AROUND = 16 * 60
"""Minutes: no clock is further from UTC."""


def read(day: date, at: time) -> int:
    """Return a reading, counted in minutes as if its clock stood in UTC."""
    return minutes(datetime.combine(day, at, UTC))


def by_walking(rule: Recurrence, window: Window, zone: str, after: int, until: int) -> dict[int, int]:
    """Return the windows that end after one minute and begin until another: each start with the latest of its ends."""
    first = after - window.days * DAYS - 3 * AROUND
    walked = walk(zone, first, until + window.days * DAYS + 3 * AROUND)
    found: dict[int, int] = {}
    for day in by_trying(rule, (EPOCH + (until + AROUND) * MINUTE).date()):
        start, end = read(day, window.start), read(day + timedelta(days=window.days), window.end)
        near = walked[max(0, start - AROUND - first) : max(0, end + AROUND - first)]
        if start - AROUND < first:
            continue  # it is over before
        begin = next(minute for minute, shown in near if shown >= start)
        begins, ends = expected(near, start, end) or (begin, begin)
        if ends > after and begins <= until:
            found[begins] = max(ends, found.get(begins, ends))
    return found


@settings(max_examples=20)
@given(
    rule=rules(),
    zone=st.sampled_from(ZONES),
    data=st.data(),
    start=st.integers(0, DAYS - 1),
    length=st.integers(1, 2 * DAYS),
    ahead=st.integers(0, 20),
)
def test_windows_are_those_of_the_matching_local_days(
    rule: Recurrence, zone: str, data: st.DataObject, start: int, length: int, ahead: int
) -> None:
    begins, ends = (EPOCH + minute * MINUTE for minute in (start, start + length))
    window = Window(begins.time(), ends.time(), (ends.date() - begins.date()).days)
    around = [change.at for change in changes(zone)[:6]] or [minutes(datetime(2026, 6, 1, tzinfo=UTC))]
    after = data.draw(st.sampled_from(around)) - data.draw(st.integers(0, 10 * DAYS))
    until = after + ahead * DAYS
    found = expand_windows(rule, window, ZoneInfo(zone), EPOCH + after * MINUTE, EPOCH + until * MINUTE)
    assert {minutes(one.start): minutes(one.end) for one in found} == by_walking(rule, window, zone, after, until)
    assert found == sorted(found, key=lambda one: one.start)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


DAILY = Recurrence("daily", date(2026, 1, 1))


@pytest.mark.parametrize(
    ("window", "zone", "after", "until", "expected_windows"),
    [
        pytest.param(
            Window(time(22), time(6), 1),
            "UTC",
            "2026-03-02T05:59",
            "2026-03-02T22:00",
            [("2026-03-01T22:00", "2026-03-02T06:00"), ("2026-03-02T22:00", "2026-03-03T06:00")],
            id="the open one and the one that begins at the end",
        ),
        pytest.param(
            Window(time(22), time(6), 1), "UTC", "2026-03-02T06:00", "2026-03-02T21:59", [], id="between two windows"
        ),
        pytest.param(
            Window(time(2, 10), time(2, 40)),
            "America/New_York",
            "2026-03-08T00:00",
            "2026-03-08T23:00",
            [("2026-03-08T07:00", "2026-03-08T07:00")],
            id="one that no clock shows is at the change",
        ),
        pytest.param(
            Window(time(2), time(3)),
            "Pacific/Apia",
            "2011-12-29T13:00",
            "2011-12-30T13:00",
            [],
            id="a schedule that had not begun when the date line moved",
        ),
    ],
)
def test_windows_are_those_within_the_range(
    window: Window, zone: str, after: str, until: str, expected_windows: list[tuple[str, str]]
) -> None:
    found = expand_windows(DAILY, window, ZoneInfo(zone), at(after), at(until))
    assert found == [Interval(at(start), at(end)) for start, end in expected_windows]


def test_longer_window_is_kept_when_a_clock_gap_merges_two_starts() -> None:
    apia = Recurrence("daily", date(2011, 12, 30), count=2)  # the first of them never was there
    window = Window(time(0), time(12), 1)
    found = expand_windows(apia, window, ZoneInfo("Pacific/Apia"), at("2011-12-29T00:00"), at("2012-01-02T00:00"))
    assert found == [Interval(at("2011-12-30T10:00"), at("2011-12-31T22:00"))]
