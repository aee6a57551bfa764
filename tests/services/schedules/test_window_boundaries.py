"""Actions at the instant at which a window starts or ends are shown consistently by every read."""

from datetime import timedelta
from itertools import cycle
from typing import Any

import pytest
from sqlalchemy import text, update

from models.schedules import Schedule
from rules.errors import ServiceError
from services.schedules import changes, manual_runs, month_calendar, previews
from services.schedules.missed_windows import record_missed
from services.schedules.plans import extend_plans
from services.schedules.verification import verify_windows
from tests.harness.concurrency import Task, eventually
from tests.harness.engines import listening
from tests.services.schedules.conftest import NIGHTS, ScheduleFixture, utc
from tests.services.schedules.windows import HOUR, Planned

NOON_TO_ONE = {"start_time": "12:00", "end_time": "13:00"}
NOON_TO_SIX = {"start_time": "12:00", "end_time": "18:00"}


class TestLate:
    def test_late_window_is_marked_although_its_schedule_was_edited(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_SIX)
        schedules.at("2026-11-21 14:59:30").update(made, name="Inventory")
        schedules.at("2026-11-21 15:00").begin()
        assert schedules.rows(made)[0].late
        assert schedules.audit("freeze.started")[0].details["late"] == 3 * 3600

    def test_window_planned_after_its_start_is_not_late(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_SIX, enabled=False)
        schedules.at("2026-11-21 15:00").update(made, enabled=True)
        schedules.at("2026-11-21 15:00").begin()
        assert not schedules.rows(made)[0].late

    def test_delay_is_measured_from_planning_when_the_window_was_open(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 15:00").create(window=NOON_TO_SIX)
        schedules.at("2026-11-21 15:10").begin()
        assert schedules.rows(made)[0].late
        assert schedules.audit("freeze.started")[0].details["late"] == 600

    def test_window_begun_manually_after_its_start_is_late(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_SIX)
        with schedules.at("2026-11-21 14:00").uow_factory.open(schedules.caller) as uow:
            assert manual_runs.run_now(uow, made, "apply")["late"] is True
        assert schedules.audit("freeze.started")[0].details["late"] == 2 * 3600


class TestMissed:
    @pytest.mark.parametrize("change", ["disabled", "deleted"])
    def test_passed_window_is_missed_although_its_schedule_has_ended(self, planned: Planned, change: str) -> None:
        planned.come(HOUR + timedelta(minutes=1))
        columns = {"enabled": False} if change == "disabled" else {"deleted_at": planned.starts_at + HOUR}
        planned.change(**columns)
        assert record_missed(planned.jobs) == 1
        seen = planned.seen()
        assert (seen["state"], seen["missed"]) == ("past", True)
        assert len(planned.audit("occurrence.missed")) == 1
        assert planned.attention() == []

    def test_all_windows_of_a_long_downtime_are_missed(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-06-01 12:00").create(window=NOON_TO_SIX)
        schedules.at("2026-11-21 14:00")
        extend_plans(schedules.jobs)
        schedules.begin()
        while record_missed(schedules.jobs):
            pass
        rows = [row for row in schedules.rows(made) if row.starts_at <= utc("2026-11-21 14:00")]
        days = (utc("2026-11-21 12:00") - utc("2026-06-01 12:00")).days + 1
        assert len(rows) == days
        assert [row.missed_at is not None for row in rows] == [True] * (days - 1) + [False]


class TestPreviewOfAnEditedSchedule:
    def test_preview_shows_the_open_window_once_as_begun(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_SIX)
        schedules.at("2026-11-21 12:00").begin()
        schedules.at("2026-11-21 12:30").update(made, window={"start_time": "11:00", "end_time": "17:00"})
        with schedules.uow_factory.open(schedules.caller) as uow:
            shown = previews.preview_saved(uow, made, 100)["occurrences"]
        rows = [(row["id"], row["starts_at"], row["ends_at"], row["state"]) for row in shown]
        has_started, following, *_ = schedules.rows(made)
        assert rows[:2] == [
            (has_started.id, utc("2026-11-21 12:00"), utc("2026-11-21 18:00"), "active"),
            (following.id, utc("2026-11-22 11:00"), utc("2026-11-22 17:00"), "planned"),
        ]
        assert len(shown) == 100
        assert len({row["id"] for row in shown}) == 100

    def test_preview_shows_a_window_begun_early_once(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 09:00").create(window=NOON_TO_SIX)
        with schedules.uow_factory.open(schedules.caller) as uow:
            manual_runs.run_now(uow, made, "apply")
        schedules.update(made, window={"start_time": "13:00", "end_time": "18:00"})
        with schedules.uow_factory.open(schedules.caller) as uow:
            first, second, *_ = previews.preview_saved(uow, made, 5)["occurrences"]
        assert (first["state"], first["starts_at"]) == ("active", utc("2026-11-21 12:00"))
        assert (second["state"], second["starts_at"]) == ("planned", utc("2026-11-22 13:00"))


class TestManyOpenWindows:
    def test_longest_of_many_open_windows_is_planned_alone(self, schedules: ScheduleFixture) -> None:
        """The longest covers what the others would, so a start does not have to start hundreds of windows first."""
        terms = {"window": {"start_time": "00:00", "end_time": "00:00", "days": 366}}
        made = schedules.at("2026-11-21 11:00").create(**terms)
        with schedules.uow_factory.open(schedules.caller) as uow:
            draft = {"timezone": "Europe/London", "recurrence": NIGHTS["recurrence"], **terms}
            saved, drafted = (
                [(row["starts_at"], row["ends_at"]) for row in shown["occurrences"]]
                for shown in (previews.preview_saved(uow, made, 3), previews.preview_draft(uow, draft, 3))
            )
        assert schedules.begin() == 1
        assert schedules.windows(made, "active") == ["11-21 00:00 to 11-22 00:00"]
        assert saved == drafted
        assert [start for start, _ in saved] == [utc(f"2026-11-{day} 00:00") for day in (21, 22, 23)]

    def test_open_windows_planned_earlier_stay_separate(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window={"start_time": "12:00", "end_time": "12:00", "days": 3})
        schedules.at("2026-11-22 13:00").update(made, timezone="Europe/Lisbon")
        assert schedules.begin() == 3
        assert schedules.windows(made, "active")[0] == "11-20 12:00 to 11-23 12:00"


class TestChangedScope:
    def test_changed_scope_is_verified_again_before_the_window(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        verify_windows(schedules.at("2026-11-21 11:52").jobs)
        assert schedules.rows(made)[0].verified_at == utc("2026-11-21 11:52")
        schedules.at("2026-11-21 11:53").update(made, name="Inventory")
        assert schedules.rows(made)[0].verified_at is not None
        schedules.update(made, scope={"type": "glob", "patterns": ["acme/*"]})
        verify_windows(schedules.at("2026-11-21 11:54").jobs)
        assert schedules.rows(made)[0].verified_at == utc("2026-11-21 11:54")


class TestConcurrency:
    def test_skip_takes_the_window_planned_by_a_concurrent_edit(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        with schedules.uow_factory.open(schedules.caller) as uow:
            changes.update(uow, made, {"window": NOON_TO_SIX | {"start_time": "14:00"}})
            skipping = Task(lambda: schedules.skip_next(made))
            eventually(lambda: _is_waiting(schedules), during=skipping)
        skipping.result()
        assert schedules.windows(made, "skipped") == ["11-21 14:00 to 11-21 18:00"]

    def test_overlap_is_reported_as_read_when_edited_concurrently(self, schedules: ScheduleFixture) -> None:
        schedules.at("2026-11-21 11:00").create()

        def disable(*about: Any) -> None:
            if "&&" in about[2]:
                schedules.session.execute(update(Schedule).values(enabled=False, windows=None))
                schedules.session.commit()

        changing = listening(schedules.uow_factory.engine, "after_cursor_execute", disable)
        with changing, pytest.raises(ServiceError, match="overlap with those of 'Nights'"):
            schedules.create()

    def test_calendar_shows_the_windows_of_a_concurrent_edit(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        left = ["14:00", "15:00"]

        def edit(*about: Any) -> None:
            if "width_bucket" in about[2] and left:
                schedules.update(made, window=NOON_TO_SIX | {"start_time": left.pop()})

        editing = listening(schedules.uow_factory.engine, "after_cursor_execute", edit)
        with editing, schedules.uow_factory.open(schedules.caller) as uow:
            days = month_calendar.calendar_of(uow, "2026-11", None)["days"]
        assert not left
        shown = {day["date"].day: [f"{one['starts_at']:%H:%M}" for one in day["occurrences"]] for day in days[19:]}
        assert shown == {20: [], **{day: ["14:00"] for day in range(21, 31)}}

    def test_calendar_omits_removed_windows_under_constant_edits(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        starts = cycle(["14:00", "15:00"])

        def edit(*about: Any) -> None:
            if "width_bucket" in about[2]:
                schedules.update(made, window=NOON_TO_SIX | {"start_time": next(starts)})

        editing = listening(schedules.uow_factory.engine, "after_cursor_execute", edit)
        with editing, schedules.uow_factory.open(schedules.caller) as uow:
            days = month_calendar.calendar_of(uow, "2026-11", None)["days"]
        assert [day["occurrences"] for day in days] == [[]] * 30


def _is_waiting(schedules: ScheduleFixture) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    schedules.session.rollback()
    return bool(schedules.session.scalar(text(waiting)))
