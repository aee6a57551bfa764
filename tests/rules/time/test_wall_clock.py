"""Windows on the real time line: known ones. Every zone and change is in `test_wall_clock_in_every_zone.py`."""

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest

from rules.time.wall_clock import Interval, Window, clock_gaps, real_time_of


def interval(text: str) -> Interval:
    """Read `2026-03-08T07:00/2026-03-08T08:00`, in UTC."""
    start, end = (datetime.fromisoformat(part).replace(tzinfo=UTC) for part in text.split("/"))
    return Interval(start, end)


def window(text: str) -> Window:
    """Read `17:00-08:00+3`."""
    times, _, days = text.partition("+")
    start, end = map(time.fromisoformat, times.split("-"))
    return Window(start, end, int(days or 0))


@pytest.mark.parametrize(
    ("zone", "day", "times", "expected"),
    [
        pytest.param(
            "Europe/London", "2026-11-20", "17:00-08:00+3", "2026-11-20T17:00/2026-11-23T08:00", id="a weekend"
        ),
        pytest.param(
            "UTC", "2026-12-31", "23:00-01:00+1", "2026-12-31T23:00/2027-01-01T01:00", id="across the year's end"
        ),
        pytest.param("UTC", "2028-02-28", "00:00-00:00+2", "2028-02-28T00:00/2028-03-01T00:00", id="over a leap day"),
        pytest.param(
            "America/New_York",
            "2026-03-08",
            "02:30-04:00",
            "2026-03-08T07:00/2026-03-08T08:00",
            id="a start in a gap is the change",
        ),
        pytest.param(
            "America/New_York",
            "2026-03-08",
            "01:00-02:30",
            "2026-03-08T06:00/2026-03-08T07:30",
            id="an end in a gap keeps the offset before it",
        ),
        pytest.param("America/New_York", "2026-03-08", "02:10-02:40", None, id="nothing but a gap does not happen"),
        pytest.param(
            "America/New_York",
            "2026-11-01",
            "01:30-03:00",
            "2026-11-01T05:30/2026-11-01T08:00",
            id="a start in a fold is the first one",
        ),
        pytest.param(
            "America/New_York",
            "2026-11-01",
            "00:30-01:30",
            "2026-11-01T04:30/2026-11-01T06:30",
            id="an end in a fold is the second one",
        ),
        pytest.param(
            "America/New_York",
            "2026-11-01",
            "00:30-01:00",
            "2026-11-01T04:30/2026-11-01T05:00",
            id="an end that a fold begins with is the first one: nothing of the window is shown again",
        ),
        pytest.param(
            "Australia/Lord_Howe", "2026-10-04", "02:10-03:00", "2026-10-03T15:30/2026-10-03T16:00", id="half an hour"
        ),
        pytest.param("Pacific/Apia", "2011-12-30", "09:00-17:00", None, id="a day that a date line took"),
        pytest.param(
            "Pacific/Apia",
            "2011-12-30",
            "09:00-08:00+1",
            "2011-12-30T10:00/2011-12-30T18:00",
            id="what is left after a day that a date line took",
        ),
        pytest.param(
            "Asia/Pyongyang",
            "2018-05-04",
            "23:15-00:15+1",
            "2018-05-04T14:45/2018-05-04T15:15",
            id="half an hour that a country took off the clocks for good",
        ),
        pytest.param(
            "Europe/Istanbul",
            "2016-10-30",
            "02:00-05:00",
            "2016-10-29T23:00/2016-10-30T02:00",
            id="a night on which clocks used to be put back, and were not any more",
        ),
        pytest.param(
            "Asia/Kathmandu",
            "2026-01-01",
            "00:00-06:00",
            "2025-12-31T18:15/2026-01-01T00:15",
            id="a quarter of an hour",
        ),
    ],
)
def test_window_is_placed_in_its_zone(zone: str, day: str, times: str, expected: str | None) -> None:
    placed = real_time_of(window(times), date.fromisoformat(day), ZoneInfo(zone))
    assert placed == (interval(expected) if expected else None)


def test_window_without_length_is_empty() -> None:
    assert window("08:00-08:00").is_empty
    assert not window("17:00-08:00+1").is_empty
    assert not window("08:00-08:01").is_empty


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Europe/London", ["2026-03-29T01:00", "2027-03-28T01:00"]),
        ("Australia/Lord_Howe", ["2026-10-03T15:30", "2027-10-02T15:30"]),
        ("Asia/Kolkata", []),
    ],
)
def test_clock_gaps_are_the_instants_at_which_clocks_go_forward(zone: str, expected: list[str]) -> None:
    after, until = datetime(2026, 3, 29, tzinfo=UTC), datetime(2027, 12, 1, tzinfo=UTC)
    found = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in expected]
    assert clock_gaps(ZoneInfo(zone), after, until) == found
    for gap in found:
        assert gap not in clock_gaps(ZoneInfo(zone), gap, until)
        assert gap not in clock_gaps(ZoneInfo(zone), after, gap)


def test_clock_gap_of_a_skipped_day_is_found() -> None:
    gaps = clock_gaps(ZoneInfo("Pacific/Apia"), datetime(2011, 12, 1, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC))
    assert gaps == [datetime(2011, 12, 30, 10, tzinfo=UTC)]
