"""Windows that are meant to reach the last counted day of their period, and do not."""

from datetime import date, time

import pytest

from rules.time.period_ends import MissedEnd, first_missed_end
from rules.time.recurrence import Recurrence
from rules.time.wall_clock import Window

WORKING_DAYS = ("MO", "TU", "WE", "TH", "FR")
YEAR = (date(2027, 1, 1), date(2027, 12, 31))


def last_working_days(*positions: int, **terms: object) -> Recurrence:
    given = {"by_day": WORKING_DAYS, "by_set_position": positions, **terms}
    return Recurrence("monthly", date(2027, 1, 1), **given)  # type: ignore[arg-type]


def whole_days(count: int) -> Window:
    return Window(time(), time(), count)


class TestFirstMissedEnd:
    def test_window_over_a_weekend_misses_the_last_working_day(self) -> None:
        # The first month of 2027 whose last three working days are not in a row is May: Thursday, Friday, Monday.
        found = first_missed_end(last_working_days(-3), whole_days(3), *YEAR)
        assert found == MissedEnd(date(2027, 5, 27), date(2027, 5, 31))

    @pytest.mark.parametrize(
        ("recurrence", "window"),
        [
            (last_working_days(-3), whole_days(5)),
            (last_working_days(-3), whole_days(2)),
            (last_working_days(-1), whole_days(1)),
            (last_working_days(1), whole_days(3)),
            (last_working_days(-3, -2, -1), whole_days(3)),
            (last_working_days(-3, until=date(2027, 1, 31)), whole_days(3)),
            (Recurrence("monthly", date(2027, 1, 1), by_month_day=(-3,)), whole_days(3)),
        ],
    )
    def test_other_windows_miss_nothing(self, recurrence: Recurrence, window: Window) -> None:
        assert first_missed_end(recurrence, window, *YEAR) is None

    def test_night_window_that_ends_on_the_last_day_reaches_it(self) -> None:
        night = Window(time(18), time(8), 1)
        assert first_missed_end(last_working_days(-2), night, date(2027, 1, 1), date(2027, 1, 31)) is None
