"""Windows on the real time line, against a brute-force walk over the minutes that a zone's clocks show."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.wall_clock import Span, Window, first_instant, last_instant, place, reading

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
ZONES = sorted(available_timezones() - {"localtime"})


def span(text: str) -> Span:
    """Read `2026-03-08T07:00/2026-03-08T08:00`, in UTC."""
    start, end = (datetime.fromisoformat(part).replace(tzinfo=UTC) for part in text.split("/"))
    return Span(start, end)


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
            "Asia/Kathmandu",
            "2026-01-01",
            "00:00-06:00",
            "2025-12-31T18:15/2026-01-01T00:15",
            id="a quarter of an hour",
        ),
    ],
)
def test_a_window_is_placed(zone: str, day: str, times: str, expected: str | None) -> None:
    placed = place(window(times), date.fromisoformat(day), ZoneInfo(zone))
    assert placed == (span(expected) if expected else None)


@cache
def changes(zone: str) -> list[datetime]:
    """Return the instants from 2026 to 2037 at which a zone's clocks are put forward or back."""
    found, place_of = [], ZoneInfo(zone)

    def offset(at: datetime) -> timedelta | None:
        return at.astimezone(place_of).utcoffset()

    at = datetime(2026, 1, 1, tzinfo=UTC)
    while at.year < 2038:
        later = at + 10 * DAY
        if offset(at) != offset(later):
            low, high = at, later
            while high - low > MINUTE:
                middle = low + (high - low) // 2 // MINUTE * MINUTE
                low, high = (middle, high) if offset(middle) == offset(at) else (low, middle)
            found.append(high)
            at = high
        else:
            at = later
    return found


def minutes_shown(start: datetime, end: datetime, zone: ZoneInfo, step: timedelta = MINUTE) -> Iterator[datetime]:
    """Walk over every instant, a minute apart, whose reading lies in `[start, end)`."""
    at = start.replace(tzinfo=UTC) - 27 * HOUR
    while at < end.replace(tzinfo=UTC) + 27 * HOUR:
        if start <= reading(at, zone) < end:
            yield at
        at += step


def require_covered(times: Window, day: date, zone: ZoneInfo, step: timedelta = MINUTE) -> None:
    """Require that the placed window holds every instant whose reading lies in it, and begins no sooner."""
    start, end = times.on(day)
    shown = list(minutes_shown(start, end, zone, step))
    placed = place(times, day, zone)
    if placed is None:
        assert not shown
        return
    assert placed.start == shown[0]
    assert placed.start <= shown[-1] < placed.end
    assert placed.end <= shown[-1] + step + (2 * HOUR if step == MINUTE else 3 * HOUR)


WHOLE_MINUTES = st.builds(time, st.integers(0, 23), st.integers(0, 59))


@settings(max_examples=60)
@given(zone=st.sampled_from(ZONES), data=st.data(), start=WHOLE_MINUTES, end=WHOLE_MINUTES, days=st.integers(0, 2))
def test_a_window_covers_every_instant_whose_reading_lies_in_it(
    zone: str, data: st.DataObject, start: time, end: time, days: int
) -> None:
    days = days or int(end <= start)
    around = changes(zone) or [datetime(2026, 6, 1, tzinfo=UTC)]
    day = data.draw(st.sampled_from(around)).date() + timedelta(days=data.draw(st.integers(-2, 1)))
    require_covered(Window(start, end, days), day, ZoneInfo(zone))


def test_every_change_of_every_zone_until_2037_is_covered() -> None:
    seen = set()
    for zone in ZONES:
        place_of = ZoneInfo(zone)
        for change in changes(zone):
            before, after = ((change + shift).astimezone(place_of).utcoffset() for shift in (-MINUTE, timedelta()))
            if (change, before, after) in seen:
                continue
            seen.add((change, before, after))
            shown = reading(change, place_of)
            low = min(shown, shown - (after or DAY) + (before or DAY))
            for lead, length in ((-1, 2), (0, 1), (1, 1)):
                start = low + timedelta(minutes=30 * lead)
                end = start + timedelta(hours=length)
                days = (end.date() - start.date()).days
                require_covered(Window(start.time(), end.time(), days), start.date(), place_of, 15 * MINUTE)
    assert len(seen) > 500


@given(zone=st.sampled_from(ZONES), day=st.dates(date(2026, 1, 1), date(2037, 12, 31)), at=WHOLE_MINUTES)
def test_what_is_shown_last_is_never_before_what_is_shown_first(zone: str, day: date, at: time) -> None:
    place_of, shown = ZoneInfo(zone), datetime.combine(day, at)
    assert first_instant(shown, place_of) <= last_instant(shown, place_of)


def test_a_window_without_length_is_told() -> None:
    assert window("08:00-08:00").is_empty
    assert not window("17:00-08:00+1").is_empty
    assert not window("08:00-08:01").is_empty


def test_spans_meet_where_they_share_an_instant() -> None:
    first, next_one = span("2026-01-01T00:00/2026-01-01T01:00"), span("2026-01-01T01:00/2026-01-01T02:00")
    assert not first.meets(next_one)
    assert first.meets(span("2026-01-01T00:59/2026-01-01T02:00"))
