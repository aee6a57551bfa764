"""Whatever is done to a schedule, in whatever order, its rows agree with what it says now, and history stays.

What is expected is worked out from the terms alone, without the planner: a window for each day of the recurrence.
"""

import itertools
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.schedules import Occurrence, OccurrenceState, Schedule
from rules.time.recurrence import days
from rules.time.wall_clock import real_time_of
from services.schedules import skips
from services.schedules.occurrences import OccurrenceFilters, list_occurrences
from services.schedules.plans import extend_plans
from services.schedules.schedule_filters import ScheduleFilters
from services.schedules.terms import recurrence_of, window_of
from tests.harness.concurrency import at_once
from tests.harness.random_seed import exploring
from tests.services.schedules.conftest import ScheduleFixture

FIRST, LAST = date(2026, 10, 10), date(2027, 6, 1)
"""Days around what happens; on 25 October the clocks of London are put back, a week later those of New York."""
NAMES = (f"schedule {number}" for number in itertools.count())
RECURRENCES: list[dict[str, Any]] = [
    {"frequency": "daily", "start_date": "2026-10-01"},
    {"frequency": "daily", "start_date": "2026-10-01", "interval": 2},
    {"frequency": "weekly", "start_date": "2026-10-01", "by_day": ["MO", "WE", "SU"]},
    {"frequency": "dates", "start_date": "2026-10-01", "dates": ["2026-10-21", "2026-10-25", "2026-12-24"]},
]
WINDOWS: list[dict[str, Any]] = [
    {"start_time": "00:30", "end_time": "01:30"},
    {"start_time": "22:00", "end_time": "06:00", "days": 1},
    {"start_time": "22:00", "end_time": "07:00", "days": 1},
    {"start_time": "12:00", "end_time": "12:00", "days": 3},
]
STEPS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 40)),
    st.tuples(st.just("recurrence"), st.sampled_from(RECURRENCES)),
    st.tuples(st.just("window"), st.sampled_from(WINDOWS)),
    st.tuples(st.just("timezone"), st.sampled_from(["Europe/London", "America/New_York", "Asia/Kolkata"])),
    st.tuples(st.just("enabled"), st.booleans()),
    st.tuples(st.just("skip"), st.none()),
    st.tuples(st.just("skip one"), st.integers(0, 150)),
    st.tuples(st.just("unskip"), st.none()),
    st.tuples(st.just("begin"), st.none()),
    st.tuples(st.just("lift"), st.none()),
    st.tuples(st.just("extend"), st.none()),
)


class Listed(NamedTuple):
    """An occurrence of a list."""

    id: str
    starts_at: datetime
    ends_at: datetime


class Watched:
    """A schedule that things are done to, and what has been seen of it."""

    def __init__(self, schedules: ScheduleFixture) -> None:
        self.schedules = schedules.at("2026-10-20 12:00")
        self.id = schedules.create(name=next(NAMES), recurrence=RECURRENCES[0], window=WINDOWS[1], allow_overlap=True)
        self.history: dict[str, tuple[datetime, datetime]] = {}

    @property
    def now(self) -> datetime:
        assert self.schedules.clock.at is not None
        return self.schedules.clock.at

    def take(self, name: str, value: Any) -> None:
        schedules = self.schedules
        if name == "wait":
            schedules.clock.at = self.now + timedelta(hours=value)
        elif name == "skip":
            if schedules.show(self.id)["next_occurrence"] is not None:
                schedules.skip_next(self.id)
        elif name == "skip one":
            planned = self.listed("planned")
            if planned:
                schedules.skip(self.id, planned[value % len(planned)].id)
        elif name == "unskip":
            self.unskip()
        elif name == "begin":
            schedules.begin()
        elif name == "lift":
            schedules.lift(self.id)
        elif name == "extend":
            extend_plans(schedules.jobs)
        else:
            schedules.update(self.id, **{name: value})

    def unskip(self) -> None:
        """Unskip the last window that was skipped, if it can be."""
        skipped = [
            row for row in self.schedules.rows(self.id) if row.skip_reason == "asked" and row.starts_at > self.now
        ]
        if skipped and self.schedules.schedule(self.id).enabled:
            with self.schedules.uow_factory.open(self.schedules.caller) as uow:
                skips.unskip(uow, self.id, skipped[-1].id)

    def listed(self, state: OccurrenceState) -> list[Listed]:
        """Return the occurrences of the next 150 days, stored or not, as people see them."""
        until = self.now + timedelta(days=150)
        with self.schedules.uow_factory.open(self.schedules.caller) as uow:
            filters = OccurrenceFilters(self.now, until, state, ScheduleFilters(self.id))
            shown = list_occurrences(uow, filters, None, 200).data
        return [Listed(one["id"], one["starts_at"], one["ends_at"]) for one in shown]

    def expected(self, schedule: Schedule, until: datetime) -> dict[datetime, datetime]:
        """Return the real windows that the terms have after now, by their start."""
        recurrence, window = recurrence_of(schedule.recurrence), window_of(schedule.window)
        zone = ZoneInfo(schedule.timezone)
        placed = (real_time_of(window, day, zone) for day in days(recurrence, FIRST, LAST))
        return {each.start: each.end for each in placed if each is not None and self.now < each.start <= until}

    def check(self) -> None:
        schedule = self.schedules.schedule(self.id)
        rows = self.schedules.rows(self.id)  # last: `schedule` expires what was read before, row by row
        self._history_stays(rows)
        planned = [row for row in rows if row.started_at is None and row.skip_reason is None and row.ends_at > self.now]
        if not schedule.enabled:
            assert planned == []
            return
        assert schedule.planned_until is not None
        wanted = self.expected(schedule, schedule.planned_until)
        to_come = {row.starts_at: row.ends_at for row in planned if row.starts_at > self.now}
        assert to_come.items() <= wanted.items()
        had = [row for row in rows if row.started_at is not None or row.skip_reason == "asked"]
        for start in wanted.keys() - to_come.keys():
            assert any(row.starts_at < wanted[start] and start < row.ends_at for row in had)

    def check_later(self) -> None:
        """Check that after the plan only skipped windows are rows, and all others of the terms are listed."""
        schedule = self.schedules.schedule(self.id)
        rows = self.schedules.rows(self.id)
        assert schedule.planned_until is not None
        end = self.now + timedelta(days=150, seconds=-1)
        wanted = {start: to for start, to in self.expected(schedule, end).items() if start > schedule.planned_until}
        later = [row for row in rows if row.starts_at > schedule.planned_until]
        skipped = {row.starts_at: row.ends_at for row in later}
        assert all(row.skip_reason == "asked" for row in later)
        assert {start: to for start, to in skipped.items() if start <= end}.items() <= wanted.items()
        listed = {
            one.starts_at: one.ends_at for one in self.listed("planned") if one.starts_at > schedule.planned_until
        }
        assert listed == (
            {start: wanted[start] for start in wanted.keys() - skipped.keys()} if schedule.enabled else {}
        )

    def _history_stays(self, rows: list[Occurrence]) -> None:
        started = {row.id: (row.starts_at, row.ends_at) for row in rows if row.started_at is not None}
        assert self.history.items() <= started.items()
        self.history = started


@pytest.mark.slow(3)
@settings(
    max_examples=20 if exploring() else 10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEPS, min_size=4, max_size=12))
def test_plan_agrees_with_the_schedule_and_keeps_history(
    schedules: ScheduleFixture, steps: list[tuple[str, Any]]
) -> None:
    watched = Watched(schedules)
    for name, value in steps:
        watched.take(name, value)
        watched.check()
    watched.check_later()


class TestConcurrentStart:
    def test_due_window_either_begins_or_is_removed_by_a_concurrent_change(self, schedules: ScheduleFixture) -> None:
        changes: list[Callable[[str], object]] = [
            schedules.delete,
            schedules.skip_next,
            lambda made: schedules.update(made, enabled=False),
            lambda made: schedules.update(made, window={"start_time": "23:00", "end_time": "23:30"}),
        ]
        for change in changes:
            for _ in range(4):
                made = schedules.at("2026-11-21 12:00").create(allow_overlap=True)
                schedules.at("2026-11-21 22:00")
                at_once(schedules.begin, partial(change, made))
                started = [row for row in schedules.rows(made) if row.started_at is not None]
                open_now = schedules.windows(made, "active")
                assert open_now in ([], ["11-21 22:00 to 11-22 06:00"])
                assert len(started) == len(open_now)
                assert "11-21 22:00 to 11-22 06:00" not in schedules.windows(made)
