"""Plans over time: they are extended day by day, and rebuilt with new time zone data."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from models.organizations import Organization
from models.schedules import Occurrence, Schedule
from services.schedules import plans
from services.schedules.plans import HORIZON, extend_plans
from tests.services.schedules.conftest import ScheduleFixture, utc
from tests.services.schedules.test_plans import FRIDAYS, NOON_TO_ONE, WEEKEND


class TestExtending:
    def test_plans_are_extended_once_a_day(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        assert extend_plans(schedules.at("2026-11-22 11:59").jobs) == 0
        assert extend_plans(schedules.at("2026-11-22 12:00").jobs) == 1
        assert extend_plans(schedules.jobs) == 0
        assert schedules.schedule(made).planned_until == utc("2026-11-22 12:00") + HORIZON
        assert len(schedules.windows(made)) == 90
        assert schedules.audit("schedule.replanned") == []

    def test_next_two_windows_are_stored_however_far_away(self, schedules: ScheduleFixture) -> None:
        yearly = {"frequency": "yearly", "start_date": "2026-12-24"}
        made = schedules.at("2026-11-21 12:00").create(recurrence=yearly, window=NOON_TO_ONE)
        assert schedules.windows(made) == ["12-24 12:00 to 12-24 13:00"] * 2
        schedules.at("2026-12-24 12:00").begin()
        assert len(schedules.windows(made)) == 1
        assert extend_plans(schedules.at("2026-12-25 12:00").jobs) == 1
        assert [row.starts_at.year for row in schedules.rows(made)] == [2026, 2027, 2028]

    @pytest.mark.parametrize(
        "terms",
        [
            {},
            {"recurrence": FRIDAYS, "window": WEEKEND},
            {"recurrence": {"frequency": "daily", "interval": 3, "start_date": "2025-11-06", "count": 170}},
            {"window": {"start_time": "01:10", "end_time": "01:50"}},
            {"window": {"start_time": "23:00", "end_time": "22:00", "days": 5}},
        ],
        ids=str,
    )
    def test_daily_extension_equals_planning_at_once(
        self, schedules: ScheduleFixture, terms: dict[str, object]
    ) -> None:
        made = schedules.at("2026-11-21 12:00").create(**terms)
        for day in range(1, 9):
            assert extend_plans(schedules.at(f"2026-11-{21 + day} 18:00").jobs) == 1
        other = schedules.create(**terms, allow_overlap=True)
        now = schedules.clock.at
        assert now is not None
        planned = [
            [(row.starts_at, row.ends_at, row.skip_reason) for row in schedules.rows(one)] for one in (made, other)
        ]
        assert [row for row in planned[0] if row[0] > now] == [row for row in planned[1] if row[0] > now]
        grown, whole = (schedules.schedule(one).windows for one in (made, other))
        assert grown is not None
        assert whole is not None
        assert grown[1:] == whole[1:]

    def test_plan_extension_catches_up_after_a_long_downtime(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-06-01 12:00").create()
        extend_plans(schedules.at("2026-11-21 12:00").jobs)
        assert schedules.windows(made)[0] == "11-21 22:00 to 11-22 06:00"
        assert len(schedules.windows(made)) == 90

    def test_plan_extension_ignores_disabled_and_deleted_schedules(self, schedules: ScheduleFixture) -> None:
        schedules.at("2026-11-21 12:00").create(enabled=False)
        schedules.delete(schedules.create())
        assert extend_plans(schedules.at("2026-11-23 12:00").jobs) == 0
        schedules.create()
        schedules.session.execute(update(Organization).values(deleted_at=utc("2026-11-23 13:00")))
        schedules.session.commit()
        assert extend_plans(schedules.at("2026-11-25 12:00").jobs) == 0

    def test_plan_extension_continues_in_further_rounds(
        self, schedules: ScheduleFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(plans, "MAX_PLANNED", 2)
        schedules.at("2026-11-21 12:00")
        for _ in range(3):
            schedules.create(allow_overlap=True)
        schedules.at("2026-11-23 12:00")
        assert [extend_plans(schedules.jobs) for _ in range(3)] == [2, 1, 0]


class TestNewTimeZoneData:
    def test_new_zone_data_replans_the_future_and_is_audited(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        schedules.begin()
        other_data(schedules, made, hours=1)
        assert extend_plans(schedules.at("2026-11-21 13:00").jobs) == 1
        assert schedules.windows(made)[:2] == ["11-21 22:00 to 11-22 06:00", "11-22 22:00 to 11-23 06:00"]
        assert len(schedules.windows(made)) == 90
        [entry] = schedules.audit("schedule.replanned")
        assert entry.actor["type"] == "system"
        assert entry.details["before"]["timezoneData"] == "2020.1"
        assert entry.details["after"]["windows"][0] == ["2026-11-21T22:00:00Z", "2026-11-22T06:00:00Z"]
        assert extend_plans(schedules.jobs) == 0

    def test_new_zone_data_keeps_begun_windows(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        other_data(schedules, made, hours=-1)
        assert schedules.at("2026-11-21 21:00").begin() == 1
        extend_plans(schedules.at("2026-11-21 21:30").jobs)
        assert schedules.windows(made, "active") == ["11-21 21:00 to 11-22 05:00"]
        assert schedules.windows(made)[0] == "11-22 22:00 to 11-23 06:00"

    def test_new_zone_data_without_changes_is_not_audited(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        other_data(schedules, made, hours=0)
        assert extend_plans(schedules.jobs) == 1
        assert schedules.audit("schedule.replanned") == []


def other_data(schedules: ScheduleFixture, schedule_id: str, *, hours: int) -> None:
    """Have the plan be one of older data, by which the clocks are so many hours off."""
    moved = timedelta(hours=hours)
    later = update(Occurrence).where(Occurrence.schedule_id == schedule_id)
    rows = schedules.rows(schedule_id)
    for row in reversed(rows) if hours > 0 else rows:
        schedules.session.execute(
            later.where(Occurrence.id == row.id).values(starts_at=row.starts_at + moved, ends_at=row.ends_at + moved)
        )
    schedules.session.execute(update(Schedule).values(planned_with="2020.1"))
    schedules.session.commit()
