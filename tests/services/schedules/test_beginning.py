"""Windows begin once each when they are due, late rather than never, whoever sweeps; what passed is recorded."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from models.attention import AttentionItem
from models.audit import AuditEntry
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.organizations import Organization
from models.queries import covering_freezes
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.ids import new_id
from services import freeze_views
from services.chores import end_freezes, seconds_to_next
from services.freezes import extend
from services.lifting import lift, override
from services.receipts import complete
from services.schedules.beginning import begin_windows, cover_the_rest
from services.schedules.missing import clear_what_is_over, record_missed
from services.schedules.occurrence_views import occurrence_views
from services.unit import Surroundings, Units
from tests import factories
from tests.services.conftest import Listener, Opener
from tests.support.clocks import MovableClock

HOUR = timedelta(hours=1)


class Planned:
    """A schedule of acme whose next window begins in an hour and takes one, and those who look at it."""

    def __init__(self, session: Session, acme: Organization, jobs: Units, unit_of: Opener, clock: MovableClock) -> None:
        self.session, self.acme, self.jobs, self.unit_of, self.clock = session, acme, jobs, unit_of, clock
        self.web = factories.watched(session, acme, "acme/web")
        self.api = factories.watched(session, acme, "acme/api")
        self.starts_at = factories.now().replace(microsecond=0) + HOUR
        self.saved_at = self.starts_at - timedelta(days=30)
        self.schedule = self.add_schedule(name="Weekends")
        self.occurrence = self.add(self.schedule)

    def add_schedule(self, **columns: Any) -> Schedule:
        given = {"created_at": self.saved_at, "updated_at": self.saved_at, **columns}
        row = factories.schedule(self.session, self.acme, **given)
        self.session.commit()
        return row

    def add(self, of: Schedule, after: timedelta = timedelta(), length: timedelta = HOUR, **columns: Any) -> Occurrence:
        starts_at = self.starts_at + after
        row = factories.occurrence(self.session, of, starts_at=starts_at, ends_at=starts_at + length, **columns)
        self.session.commit()
        return row

    def change(self, **columns: Any) -> None:
        for name, value in columns.items():
            setattr(self.schedule, name, value)
        self.session.commit()

    def come(self, after: timedelta = timedelta()) -> None:
        """Let time pass until so long after the start of the window."""
        self.clock.at = self.starts_at + after

    def begin(self) -> int:
        return begin_windows(self.jobs)

    def freezes(self) -> list[Freeze]:
        self.session.rollback()
        self.session.expire_all()
        return list(self.session.scalars(select(Freeze).order_by(Freeze.started_at, Freeze.id)))

    def covered(self, freeze: Freeze) -> set[str]:
        targets = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id)
        return set(self.session.scalars(targets))

    def seen(self, occurrence: Occurrence | None = None) -> dict[str, Any]:
        """Return the occurrence as people see it."""
        with self.unit_of(self.acme) as unit:
            return occurrence_views(unit, [unit.session.get_one(Occurrence, (occurrence or self.occurrence).id)])[0]

    def frozen(self, *branches: WatchedBranch) -> list[bool]:
        with self.unit_of(self.acme) as unit:
            covering = covering_freezes(unit.session, [branch.id for branch in branches], unit.now)
            return [branch.id in covering for branch in branches]

    def audit(self, action: str) -> list[AuditEntry]:
        query = select(AuditEntry).where(AuditEntry.action == action).order_by(AuditEntry.at, AuditEntry.id)
        return list(self.session.scalars(query))

    def attention(self) -> list[tuple[str, str]]:
        """Return the open items: type and words."""
        query = select(AttentionItem.type, AttentionItem.message).where(AttentionItem.cleared_at.is_(None))
        self.session.rollback()
        return [(kind, message) for kind, message in self.session.execute(query.order_by(AttentionItem.key))]


@pytest.fixture
def planned(session: Session, acme: Organization, jobs: Units, unit_of: Opener, clock: MovableClock) -> Planned:
    return Planned(session, acme, jobs, unit_of, clock)


class TestAWindowThatIsDue:
    def test_does_not_begin_a_moment_before_its_start(self, planned: Planned) -> None:
        planned.come(timedelta(seconds=-5))
        assert planned.begin() == 0
        assert planned.seen()["state"] == "planned"
        assert planned.frozen(planned.web, planned.api) == [False, False]

    def test_starts_a_freeze_of_the_schedule_until_its_end(self, planned: Planned, listener: Listener) -> None:
        planned.come()
        assert planned.begin() == 1
        [freeze] = planned.freezes()
        schedule, occurrence = planned.schedule, planned.occurrence
        assert (freeze.source, freeze.schedule_id, freeze.occurrence_id) == ("schedule", schedule.id, occurrence.id)
        assert (freeze.reason, freeze.ends_at) == (schedule.reason, occurrence.ends_at)
        assert freeze.started_at == occurrence.starts_at
        assert freeze.created_by == {"type": "schedule", "id": schedule.id, "name": "Weekends"}
        assert planned.frozen(planned.web, planned.api) == [True, True]
        assert "reconcile" in listener.heard

    def test_is_told_alike_by_freeze_occurrence_and_audit(self, planned: Planned) -> None:
        planned.come()
        planned.begin()
        [freeze] = planned.freezes()
        seen = planned.seen()
        assert (seen["state"], seen["freeze_id"], seen["late"], seen["missed"]) == ("active", freeze.id, False, False)
        [entry] = planned.audit("freeze.started")
        assert (entry.source, entry.actor["id"]) == ("schedule", planned.schedule.id)
        assert entry.details["occurrenceId"] == planned.occurrence.id
        assert "late" not in entry.details

    def test_begins_once_however_often_is_swept(self, planned: Planned) -> None:
        planned.come()
        assert [planned.begin() for _ in range(3)] == [1, 0, 0]
        assert len(planned.freezes()) == 1

    def test_ends_when_it_was_planned_to(self, planned: Planned) -> None:
        planned.come()
        planned.begin()
        planned.come(HOUR)
        assert planned.frozen(planned.web) == [False]
        assert planned.seen()["state"] == "past"
        assert end_freezes(planned.jobs) == 1
        [freeze] = planned.freezes()
        assert (freeze.ended_at, freeze.end_reason) == (planned.occurrence.ends_at, "schedule_ended")
        assert planned.begin() == 0

    def test_that_follows_another_begins_before_that_one_is_recorded_as_ended(self, planned: Planned) -> None:
        following = planned.add(planned.schedule, HOUR)
        planned.come()
        planned.begin()
        planned.come(HOUR)
        assert planned.begin() == 1
        assert planned.frozen(planned.web) == [True]
        end_freezes(planned.jobs)
        assert planned.frozen(planned.web) == [True]
        assert planned.seen(following)["state"] == "active"

    def test_does_not_wait_for_one_that_cannot_begin(self, planned: Planned) -> None:
        broken = planned.add_schedule(scope={"type": "glob", "patterns": ["["]})
        planned.add(broken, -timedelta(minutes=5))
        planned.come()
        assert planned.begin() == 1
        assert planned.seen()["state"] == "active"

    def test_begins_in_the_order_of_the_starts(self, planned: Planned) -> None:
        earlier = planned.add(planned.add_schedule(name="Nights"), -timedelta(minutes=5), timedelta(hours=3))
        planned.come()
        assert planned.begin() == 2
        assert [freeze.occurrence_id for freeze in planned.freezes()] == [earlier.id, planned.occurrence.id]

    def test_of_a_disabled_or_deleted_schedule_is_gone(self, planned: Planned) -> None:
        planned.add(planned.add_schedule(deleted_at=planned.saved_at))
        planned.change(enabled=False)
        planned.come()
        assert planned.begin() == 0
        assert planned.freezes() == []
        assert planned.session.scalars(select(Occurrence.id)).all() == []

    def test_of_a_deleted_organisation_does_not_begin(self, planned: Planned) -> None:
        planned.acme.deleted_at = planned.saved_at
        planned.session.commit()
        planned.come()
        assert planned.begin() == 0
        planned.come(HOUR)
        assert record_missed(planned.jobs) == 0


class TestWhatHasGoneFromAScope:
    def test_is_passed_over(self, planned: Planned) -> None:
        planned.change(scope={"type": "repositories", "repositories": ["acme/web", "acme/gone", new_id("rep")]})
        planned.come()
        assert planned.begin() == 1
        assert planned.frozen(planned.web, planned.api) == [True, False]

    @pytest.mark.parametrize(
        "scope",
        [
            {"type": "repositories", "repositories": ["acme/gone"]},
            {"type": "branch", "repository": "acme/gone", "branch": "main"},
            {"type": "branch", "repository": "acme/web", "branch": "unwatched"},
            {"type": "branch", "branchId": new_id("wbr")},
        ],
        ids=str,
    )
    def test_leaves_nothing_to_freeze_and_the_window_is_skipped(self, planned: Planned, scope: dict[str, Any]) -> None:
        planned.change(scope=scope)
        planned.come()
        assert planned.begin() == 0
        seen = planned.seen()
        assert (seen["state"], seen["skip_reason"]) == ("skipped", "no_targets")
        [entry] = planned.audit("occurrence.skipped")
        assert entry.details["skipReason"] == "no_targets"
        [(kind, message)] = planned.attention()
        assert kind == "window_without_targets"
        assert "reaches no watched branch" in message
        assert planned.freezes() == []

    def test_needs_no_attention_once_a_later_window_begins(self, planned: Planned) -> None:
        planned.add(planned.schedule, 2 * HOUR)
        planned.change(scope={"type": "repositories", "repositories": ["acme/later"]})
        planned.come()
        planned.begin()
        factories.watched(planned.session, planned.acme, "acme/later")
        planned.session.commit()
        planned.come(2 * HOUR)
        assert planned.begin() == 1
        assert planned.attention() == []

    def test_matters_not_to_an_open_ended_one_which_takes_in_what_comes(self, planned: Planned) -> None:
        planned.change(scope={"type": "glob", "patterns": ["other/*"]})
        planned.come()
        assert planned.begin() == 1
        [freeze] = planned.freezes()
        assert planned.covered(freeze) == set()
        assert planned.seen()["state"] == "active"


class TestVeryManyBranches:
    @pytest.fixture
    def few_at_once(self, planned: Planned) -> int:
        for number in range(3):
            factories.watched(planned.session, planned.acme, f"acme/more-{number}")
        planned.session.commit()
        planned.jobs.surroundings = Surroundings(most_targets=2)
        return 5

    def test_are_covered_in_batches_and_none_is_left_out(self, planned: Planned, few_at_once: int) -> None:
        planned.come()
        planned.begin()
        [freeze] = planned.freezes()
        assert (len(planned.covered(freeze)), freeze.partly_covered) == (2, True)
        cover_the_rest(planned.jobs)
        [freeze] = planned.freezes()
        assert (len(planned.covered(freeze)), freeze.partly_covered) == (few_at_once, False)
        assert [entry.details["targets"] for entry in planned.audit("freeze.grew")] == [2, 1]

    def test_have_no_receipt_before_all_are_covered(self, planned: Planned, few_at_once: int) -> None:
        planned.come()
        planned.begin()
        [freeze] = planned.freezes()
        planned.session.execute(text("UPDATE freeze_targets SET state = 'applied'"))
        planned.session.commit()
        with planned.unit_of(planned.acme) as unit:
            complete(unit, [freeze.id])
        [freeze] = planned.freezes()
        assert freeze.enforced_at is None

    def test_are_not_covered_any_more_once_the_freeze_has_ended(self, planned: Planned, few_at_once: int) -> None:
        planned.come()
        planned.begin()
        [freeze] = planned.freezes()
        with planned.unit_of(planned.acme) as unit:
            lift(unit, freeze.id, None)
        cover_the_rest(planned.jobs)
        [freeze] = planned.freezes()
        assert (len(planned.covered(freeze)), freeze.partly_covered) == (2, False)


class TestAfterDowntime:
    def test_a_window_that_is_still_open_begins_late_and_says_so(self, planned: Planned) -> None:
        planned.come(timedelta(minutes=20))
        assert planned.begin() == 1
        seen = planned.seen()
        assert (seen["state"], seen["late"]) == ("active", True)
        [freeze] = planned.freezes()
        assert freeze.started_at == planned.starts_at + timedelta(minutes=20)
        assert freeze.ends_at == planned.occurrence.ends_at
        [entry] = planned.audit("freeze.started")
        assert entry.details["late"] == 1200

    def test_a_minute_is_not_late(self, planned: Planned) -> None:
        planned.come(timedelta(seconds=50))
        planned.begin()
        assert planned.seen()["late"] is False

    def test_a_window_that_was_open_when_its_schedule_was_saved_is_not_late(self, planned: Planned) -> None:
        planned.change(updated_at=planned.starts_at + timedelta(minutes=19, seconds=30))
        planned.come(timedelta(minutes=20))
        planned.begin()
        assert planned.seen()["late"] is False

    def test_a_window_that_has_passed_is_missed_and_never_begins(self, planned: Planned) -> None:
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

    def test_what_was_missed_needs_attention_until_a_window_begins(self, planned: Planned) -> None:
        planned.add(planned.schedule, 2 * HOUR)
        planned.come(HOUR)
        record_missed(planned.jobs)
        [(kind, message)] = planned.attention()
        assert kind == "missed_window"
        assert f"from {planned.starts_at:%Y-%m-%d %H:%M} to" in message
        planned.come(2 * HOUR)
        planned.begin()
        assert planned.attention() == []

    @pytest.mark.parametrize("change", [{"enabled": False}, {"deleted_at": factories.now()}, {}], ids=str)
    def test_what_was_missed_is_forgotten_with_its_schedule_or_after_a_week(
        self, planned: Planned, change: dict[str, Any]
    ) -> None:
        planned.come(HOUR)
        record_missed(planned.jobs)
        if change:
            planned.change(**change)
        else:
            planned.come(HOUR + timedelta(days=7))
        assert clear_what_is_over(planned.jobs) is True
        assert planned.attention() == []

    def test_each_window_is_judged_by_itself(self, planned: Planned) -> None:
        day = timedelta(days=1)
        later = [planned.add(planned.schedule, number * day) for number in (1, 2)]
        planned.come(2 * day + timedelta(minutes=10))
        assert planned.begin() == 1
        assert record_missed(planned.jobs) == 2
        states = [planned.seen(each) for each in (planned.occurrence, *later)]
        assert [(seen["state"], seen["missed"], seen["late"]) for seen in states] == [
            ("past", True, False),
            ("past", True, False),
            ("active", False, True),
        ]

    def test_while_the_app_is_uninstalled_nothing_begins_and_afterwards_what_is_open_does(
        self, planned: Planned
    ) -> None:
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


class TestByHand:
    @pytest.fixture
    def freeze(self, planned: Planned) -> Freeze:
        planned.come()
        planned.begin()
        return planned.freezes()[0]

    @pytest.mark.parametrize(
        ("by_hand", "why"),
        [
            (lambda unit, freeze_id: lift(unit, freeze_id, None), "lifted"),
            (lambda unit, freeze_id: override(unit, freeze_id, "The release was moved"), "overridden"),
        ],
        ids=["lifted", "overridden"],
    )
    def test_what_was_ended_stays_ended_for_this_window_and_the_next_begins(
        self, planned: Planned, freeze: Freeze, by_hand: Callable[..., object], why: str
    ) -> None:
        following = planned.add(planned.schedule, 2 * HOUR)
        with planned.unit_of(planned.acme) as unit:
            by_hand(unit, freeze.id)
        assert planned.begin() == 0
        seen = planned.seen()
        assert (seen["state"], seen["missed"], seen["freeze_id"]) == ("past", False, freeze.id)
        assert planned.frozen(planned.web) == [False]
        planned.come(2 * HOUR)
        assert planned.begin() == 1
        assert planned.seen(following)["state"] == "active"
        assert planned.freezes()[0].end_reason == why

    def test_overriding_one_leaves_every_other_freeze(self, planned: Planned, freeze: Freeze) -> None:
        other = factories.freeze(planned.session, planned.acme, [planned.web])
        planned.session.commit()
        with planned.unit_of(planned.acme) as unit:
            override(unit, freeze.id, "The release was moved")
        assert planned.frozen(planned.web, planned.api) == [True, False]
        assert other.ended_at is None

    def test_an_extended_freeze_outlives_its_window_and_the_next_one_starts_its_own(
        self, planned: Planned, freeze: Freeze
    ) -> None:
        following = planned.add(planned.schedule, 2 * HOUR)
        with planned.unit_of(planned.acme) as unit:
            extend(unit, freeze.id, planned.starts_at + 5 * HOUR)
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
        with planned.unit_of(planned.acme) as unit:
            shown = freeze_views.show(unit, freeze.id)
        assert (shown["state"], shown["ends_at"]) == ("in_force", planned.starts_at + 5 * HOUR)

    def test_a_window_that_was_skipped_does_not_begin(self, planned: Planned) -> None:
        planned.occurrence.skip_reason = "asked"
        planned.session.commit()
        planned.come()
        assert planned.begin() == 0
        planned.come(HOUR)
        assert record_missed(planned.jobs) == 0


def at_once(count: int, step: Callable[[], int]) -> int:
    """Take a step so many times at the same moment; returns the sum of what was returned."""
    begin, results = threading.Barrier(count), list[int]()

    def take() -> None:
        begin.wait(10)
        results.append(step())

    threads = [threading.Thread(target=take) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == count
    return sum(results)


class TestSeveralSweepers:
    def test_begin_each_window_once(self, planned: Planned) -> None:
        for number in range(20):
            planned.add(planned.add_schedule(name=f"Number {number}"))
        planned.come()
        assert at_once(3, planned.begin) == 21
        assert len({freeze.occurrence_id for freeze in planned.freezes()}) == len(planned.freezes()) == 21

    def test_record_what_was_missed_once(self, planned: Planned) -> None:
        for number in range(1, 10):
            planned.add(planned.schedule, -number * HOUR, timedelta(minutes=30))
        planned.come(HOUR)
        recorded = at_once(3, lambda: record_missed(planned.jobs))
        recorded += record_missed(planned.jobs)
        assert recorded == len(planned.audit("occurrence.missed")) == 10

    def test_pass_over_what_somebody_is_changing_and_come_back_to_it(self, planned: Planned) -> None:
        planned.come()
        planned.session.execute(select(Schedule.id).with_for_update(key_share=True))
        assert planned.begin() == 0
        planned.session.commit()
        assert planned.begin() == 1


class TestTheNextInstant:
    def test_is_the_start_of_a_window_or_the_end_of_a_freeze(self, planned: Planned) -> None:
        planned.come(-timedelta(seconds=90))
        assert seconds_to_next(planned.jobs) == 90
        planned.come()
        planned.begin()
        assert seconds_to_next(planned.jobs) == 3600

    def test_is_never_one_that_has_passed(self, planned: Planned) -> None:
        planned.come(timedelta(minutes=1))
        assert seconds_to_next(planned.jobs) is None
