"""Windows begin late rather than never, what passed is recorded, and what was done by hand stays."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from models.freezes import Freeze
from models.installations import Installation
from services.freezes import views
from services.freezes.end import lift, override
from services.freezes.extension import extend
from services.maintenance.tasks import end_freezes
from services.schedules.missed_windows import record_missed, resolve_outdated_alerts
from tests import factories
from tests.services.schedules.windows import HOUR, Planned


class TestAfterDowntime:
    def test_open_window_begins_late_and_is_marked(self, planned: Planned) -> None:
        planned.come(timedelta(minutes=20))
        assert planned.begin() == 1
        seen = planned.seen()
        assert (seen["state"], seen["late"], seen["late_seconds"]) == ("active", True, 1200)
        [freeze] = planned.freezes()
        assert freeze.started_at == planned.starts_at + timedelta(minutes=20)
        assert freeze.ends_at == planned.occurrence.ends_at
        [entry] = planned.audit("freeze.started")
        assert entry.details["late"] == 1200

    @pytest.mark.parametrize(("after", "seconds"), [(0, 0), (0.999, 0), (1, 1), (2.7, 2)])
    def test_window_begun_a_second_after_its_start_is_late(self, planned: Planned, after: float, seconds: int) -> None:
        planned.come(timedelta(seconds=after))
        planned.begin()
        seen, [entry] = planned.seen(), planned.audit("freeze.started")
        assert (seen["late"], seen["late_seconds"]) == (seconds > 0, seconds)
        assert entry.details.get("late", 0) == seconds

    def test_passed_window_is_missed_and_does_not_begin(self, planned: Planned) -> None:
        planned.come(HOUR)
        assert planned.begin() == 0
        before = planned.seen()
        assert record_missed(planned.jobs) == 1
        assert record_missed(planned.jobs) == 0
        assert planned.seen() == before
        assert (before["state"], before["missed"], before["freeze_id"]) == ("past", True, None)
        [entry] = planned.audit("occurrence.missed")
        assert (entry.actor["type"], entry.target["id"]) == ("system", planned.schedule.id)
        assert entry.details["occurrenceId"] == planned.occurrence.id
        assert planned.freezes() == []

    def test_missed_window_has_an_alert_until_another_window_begins(self, planned: Planned) -> None:
        planned.add(planned.schedule, 2 * HOUR)
        planned.come(HOUR)
        record_missed(planned.jobs)
        [(kind, message)] = planned.attention()
        assert kind == "missed_window"
        assert f"from {planned.starts_at:%Y-%m-%d %H:%M} to" in message
        planned.come(2 * HOUR)
        planned.begin()
        assert planned.attention() == []

    @pytest.mark.parametrize(
        "change", [{"enabled": False}, {"deleted_at": factories.now()}, {}], ids=["disabled", "deleted", "after a week"]
    )
    def test_alert_of_a_missed_window_ends_with_its_schedule_or_after_a_week(
        self, planned: Planned, change: dict[str, Any]
    ) -> None:
        planned.come(HOUR)
        record_missed(planned.jobs)
        if change:
            planned.change(**change)
        else:
            planned.come(HOUR + timedelta(days=7))
        assert resolve_outdated_alerts(planned.jobs) is True
        assert planned.attention() == []

    @pytest.mark.parametrize("seconds", [59, 60, 90])
    def test_window_that_begins_a_minute_late_has_an_alert(self, planned: Planned, seconds: int) -> None:
        planned.add(planned.schedule, 2 * HOUR)
        planned.come(timedelta(seconds=seconds))
        planned.begin()
        found = planned.attention()
        assert [kind for kind, _ in found] == (["late_window"] if seconds >= 60 else [])
        assert all("began 1 minute late" in message for _, message in found)
        planned.come(2 * HOUR)
        planned.begin()
        assert planned.attention() == []

    def test_open_window_begins_late_when_the_app_is_reinstalled(self, planned: Planned) -> None:
        installation = planned.session.scalars(select(Installation)).one()
        installation.state = "removed"
        planned.session.commit()
        planned.come()
        assert planned.begin() == 0
        installation.state = "active"
        planned.session.commit()
        planned.come(timedelta(minutes=30))
        assert planned.begin() == 1
        assert planned.seen()["late"] is True


class TestManualChanges:
    @pytest.fixture
    def freeze(self, planned: Planned) -> Freeze:
        planned.come()
        planned.begin()
        return planned.freezes()[0]

    @pytest.mark.parametrize(
        ("by_hand", "why"),
        [
            (lambda uow, freeze_id: lift(uow, freeze_id, None), "lifted"),
            (lambda uow, freeze_id: override(uow, freeze_id, "The release was moved"), "overridden"),
        ],
        ids=["lifted", "overridden"],
    )
    def test_manually_ended_window_stays_ended_and_the_next_begins(
        self, planned: Planned, freeze: Freeze, by_hand: Callable[..., object], why: str
    ) -> None:
        following = planned.add(planned.schedule, 2 * HOUR)
        with planned.unit_of(planned.acme) as uow:
            by_hand(uow, freeze.id)
        assert planned.begin() == 0
        seen = planned.seen()
        assert (seen["state"], seen["missed"], seen["freeze_id"]) == ("past", False, freeze.id)
        assert planned.frozen(planned.web) == [False]
        planned.come(2 * HOUR)
        assert planned.begin() == 1
        assert planned.seen(following)["state"] == "active"
        assert planned.freezes()[0].end_reason == why

    def test_extended_freeze_outlives_its_window_and_the_next_has_its_own(
        self, planned: Planned, freeze: Freeze
    ) -> None:
        following = planned.add(planned.schedule, 2 * HOUR)
        with planned.unit_of(planned.acme) as uow:
            extend(uow, freeze.id, planned.starts_at + 5 * HOUR)
        planned.come(90 * timedelta(minutes=1))
        end_freezes(planned.jobs)
        assert planned.seen()["state"] == "past"
        assert planned.frozen(planned.web) == [True]
        planned.come(2 * HOUR)
        assert planned.begin() == 1
        assert planned.seen(following)["freeze_id"] != freeze.id
        planned.come(3 * HOUR)
        assert end_freezes(planned.jobs) == 1
        assert planned.frozen(planned.web) == [True]
        with planned.unit_of(planned.acme) as uow:
            shown = views.show(uow, freeze.id)
        assert (shown["state"], shown["ends_at"]) == ("in_force", planned.starts_at + 5 * HOUR)
