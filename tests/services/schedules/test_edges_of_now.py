"""What people do around the instant at which a window begins, or passes, is told as it was, by whoever tells it."""

from concurrent.futures import ThreadPoolExecutor
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
from tests.harness.engines import listening
from tests.services.schedules.conftest import NIGHTS, Office, utc
from tests.services.schedules.windows import HOUR, Planned

NOON_TO_ONE = {"start_time": "12:00", "end_time": "13:00"}
NOON_TO_SIX = {"start_time": "12:00", "end_time": "18:00"}


class TestLate:
    def test_is_what_begins_late_also_where_its_schedule_was_changed_meanwhile(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_SIX)
        office.at("2026-11-21 14:59:30").update(made, name="Inventory")
        office.at("2026-11-21 15:00").begin()
        assert office.rows(made)[0].late
        assert office.audit("freeze.started")[0].details["late"] == 3 * 3600

    def test_is_not_what_was_planned_inside_its_window(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_SIX, enabled=False)
        office.at("2026-11-21 15:00").update(made, enabled=True)
        office.at("2026-11-21 15:00:30").begin()
        assert not office.rows(made)[0].late

    def test_counts_from_when_it_was_planned_inside_its_window(self, office: Office) -> None:
        made = office.at("2026-11-21 15:00").create(window=NOON_TO_SIX)
        office.at("2026-11-21 15:10").begin()
        assert office.rows(made)[0].late
        assert office.audit("freeze.started")[0].details["late"] == 600

    def test_is_also_what_somebody_begins_by_hand_that_should_have_begun(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_SIX)
        with office.at("2026-11-21 14:00").uow_factory.open(office.caller) as uow:
            assert manual_runs.run_now(uow, made, "apply")["late"] is True
        assert office.audit("freeze.started")[0].details["late"] == 2 * 3600


class TestMissed:
    @pytest.mark.parametrize("change", ["disabled", "deleted"])
    def test_stays_missed_when_its_schedule_ends_before_that_is_recorded(self, planned: Planned, change: str) -> None:
        planned.come(HOUR + timedelta(minutes=1))
        columns = {"enabled": False} if change == "disabled" else {"deleted_at": planned.starts_at + HOUR}
        planned.change(**columns)
        assert record_missed(planned.jobs) == 1
        seen = planned.seen()
        assert (seen["state"], seen["missed"]) == ("past", True)
        assert len(planned.audit("occurrence.missed")) == 1
        assert planned.attention() == []

    def test_are_all_windows_of_months_without_a_sweeper(self, office: Office) -> None:
        made = office.at("2026-06-01 12:00").create(window=NOON_TO_SIX)
        office.at("2026-11-21 14:00")
        extend_plans(office.jobs)
        office.begin()
        while record_missed(office.jobs):
            pass
        rows = [row for row in office.rows(made) if row.starts_at <= utc("2026-11-21 14:00")]
        days = (utc("2026-11-21 12:00") - utc("2026-06-01 12:00")).days + 1
        assert len(rows) == days
        assert [row.missed_at is not None for row in rows] == [True] * (days - 1) + [False]


class TestPreviewOfAnEditedSchedule:
    def test_shows_the_window_that_is_open_as_it_began_and_no_second_one(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_SIX)
        office.at("2026-11-21 12:00").begin()
        office.at("2026-11-21 12:30").update(made, window={"start_time": "11:00", "end_time": "17:00"})
        with office.uow_factory.open(office.caller) as uow:
            shown = previews.preview_saved(uow, made, 100)["occurrences"]
        told = [(row["id"], row["starts_at"], row["ends_at"], row["state"]) for row in shown]
        begun, following, *_ = office.rows(made)
        assert told[:2] == [
            (begun.id, utc("2026-11-21 12:00"), utc("2026-11-21 18:00"), "active"),
            (following.id, utc("2026-11-22 11:00"), utc("2026-11-22 17:00"), "planned"),
        ]
        assert len(shown) == 100
        assert [row["id"] is None for row in shown] == [False] * 91 + [True] * 9

    def test_shows_the_one_that_was_begun_early_once(self, office: Office) -> None:
        made = office.at("2026-11-21 09:00").create(window=NOON_TO_SIX)
        with office.uow_factory.open(office.caller) as uow:
            manual_runs.run_now(uow, made, "apply")
        office.update(made, window={"start_time": "13:00", "end_time": "18:00"})
        with office.uow_factory.open(office.caller) as uow:
            first, second, *_ = previews.preview_saved(uow, made, 5)["occurrences"]
        assert (first["state"], first["starts_at"]) == ("active", utc("2026-11-21 12:00"))
        assert (second["state"], second["starts_at"]) == ("planned", utc("2026-11-22 13:00"))


class TestManyWindowsThatAreOpen:
    def test_are_one_where_they_are_planned_the_one_that_ends_last(self, office: Office) -> None:
        """Freezes compose: what the others would cover it covers, and nobody waits until a year of them has begun."""
        terms = {"window": {"start_time": "00:00", "end_time": "00:00", "days": 366}}
        made = office.at("2026-11-21 11:00").create(**terms)
        with office.uow_factory.open(office.caller) as uow:
            draft = {"timezone": "Europe/London", "recurrence": NIGHTS["recurrence"], **terms}
            saved, drafted = (
                [(row["starts_at"], row["ends_at"]) for row in shown["occurrences"]]
                for shown in (previews.preview_saved(uow, made, 3), previews.preview_draft(uow, draft, 3))
            )
        assert office.begin() == 1
        assert office.windows(made, "active") == ["11-21 00:00 to 11-22 00:00"]
        assert saved == drafted
        assert [start for start, _ in saved] == [utc(f"2026-11-{day} 00:00") for day in (21, 22, 23)]

    def test_stay_several_where_they_have_been_planned_before(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window={"start_time": "12:00", "end_time": "12:00", "days": 3})
        office.at("2026-11-22 13:00").update(made, timezone="Europe/Lisbon")
        assert office.begin() == 3
        assert office.windows(made, "active")[0] == "11-20 12:00 to 11-23 12:00"


class TestAnotherScope:
    def test_is_verified_anew_before_its_window(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        verify_windows(office.at("2026-11-21 11:52").jobs)
        assert office.rows(made)[0].verified_at == utc("2026-11-21 11:52")
        office.at("2026-11-21 11:53").update(made, name="Inventory")
        assert office.rows(made)[0].verified_at is not None
        office.update(made, scope={"type": "glob", "patterns": ["acme/*"]})
        verify_windows(office.at("2026-11-21 11:54").jobs)
        assert office.rows(made)[0].verified_at == utc("2026-11-21 11:54")


class TestAtTheSameMoment:
    def test_skips_what_an_edit_has_just_planned(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        with ThreadPoolExecutor(1) as beside:
            with office.uow_factory.open(office.caller) as uow:
                changes.update(uow, made, {"window": NOON_TO_SIX | {"start_time": "14:00"}})
                skipping = beside.submit(office.skip_next, made)
                while not _somebody_waits(office):
                    assert not skipping.done()
            skipping.result(10)
        assert office.windows(made, "skipped") == ["11-21 14:00 to 11-21 18:00"]

    def test_what_somebody_changes_while_it_is_compared_is_told_as_it_was(self, office: Office) -> None:
        office.at("2026-11-21 11:00").create()

        def disable(*about: Any) -> None:
            if "&&" in about[2]:
                office.session.execute(update(Schedule).values(enabled=False, windows=None))
                office.session.commit()

        changing = listening(office.uow_factory.engine, "after_cursor_execute", disable)
        with changing, pytest.raises(ServiceError, match="overlap with those of 'Nights'"):
            office.create()

    def test_a_calendar_shows_what_an_edit_plans_while_it_is_read(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        left = ["14:00", "15:00"]

        def edit(*about: Any) -> None:
            if "width_bucket" in about[2] and left:
                office.update(made, window=NOON_TO_SIX | {"start_time": left.pop()})

        editing = listening(office.uow_factory.engine, "after_cursor_execute", edit)
        with editing, office.uow_factory.open(office.caller) as uow:
            days = month_calendar.calendar_of(uow, "2026-11", None, None)["days"]
        assert not left
        shown = {day["date"].day: [f"{one['starts_at']:%H:%M}" for one in day["occurrences"]] for day in days[19:]}
        assert shown == {20: [], **{day: ["14:00"] for day in range(21, 31)}}

    def test_a_calendar_that_never_comes_to_rest_leaves_out_what_has_gone(self, office: Office) -> None:
        made = office.at("2026-11-21 11:00").create(window=NOON_TO_ONE)
        starts = cycle(["14:00", "15:00"])

        def edit(*about: Any) -> None:
            if "width_bucket" in about[2]:
                office.update(made, window=NOON_TO_SIX | {"start_time": next(starts)})

        editing = listening(office.uow_factory.engine, "after_cursor_execute", edit)
        with editing, office.uow_factory.open(office.caller) as uow:
            days = month_calendar.calendar_of(uow, "2026-11", None, None)["days"]
        assert [day["occurrences"] for day in days] == [[]] * 30


def _somebody_waits(office: Office) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    office.session.rollback()
    return bool(office.session.scalar(text(waiting)))
