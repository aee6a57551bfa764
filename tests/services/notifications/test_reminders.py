"""Reminders: each planned window is announced once to a destination, for each number of minutes, and no other."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.organizations import Organization
from models.schedules import Schedule
from services.core.unit_of_work import UnitOfWorkFactory
from services.events.destinations import change_reminders
from services.notifications.reminders import announce_windows, seconds_to_next
from services.schedules.skips import skip
from tests import factories
from tests.factories.freezes import FAR_AWAY
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.services.conftest import UnitOfWorkOpener
from tests.services.notifications.conftest import KeptEvents

Add = Callable[..., str]
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Reminders:
    """A schedule whose windows are announced to destinations; the clock has stopped."""

    session: Session
    weekends: Schedule
    channel: KeptEvents
    jobs: UnitOfWorkFactory
    clock: MovableClock
    now: datetime
    add: Add

    def plan(self, minutes: float) -> str:
        """Plan a window that begins so many minutes from now, and return its id."""
        row = factories.occurrence(self.session, self.weekends, starts_at=self.now + minutes * MINUTE)
        self.session.commit()
        return row.id

    def announce(self) -> int:
        return announce_windows(self.jobs)

    def announced(self) -> list[tuple[str, int, list[str]]]:
        """Return destination, minutes and windows of each event, and forget them."""
        found = [
            (destination, event.details["minutes"], [window["occurrenceId"] for window in event.details["windows"]])
            for destination, events in self.channel.given
            for event in events
        ]
        self.channel.given.clear()
        return found


@pytest.fixture
def reminders(
    session: Session,
    acme: Organization,
    channel: KeptEvents,
    jobs: UnitOfWorkFactory,
    clock: MovableClock,
    add: Add,
) -> Reminders:
    clock.at = factories.now()
    schedule = factories.schedule(session, acme, recurrence=FAR_AWAY)
    session.commit()
    return Reminders(session, schedule, channel, jobs, clock, clock.at, partial(add, name="slack", remind_before=(60,)))


def test_window_is_announced_once_when_it_comes_due(reminders: Reminders) -> None:
    reminders.add("sub_1")
    window = reminders.plan(61)
    assert reminders.announce() == 0
    assert seconds_to_next(reminders.jobs) == pytest.approx(60, abs=0.01)
    reminders.clock.at = reminders.now + MINUTE
    assert reminders.announce() == 1
    assert reminders.announced() == [("sub_1", 60, [window])]
    reminders.clock.at = reminders.now + 30 * MINUTE
    assert reminders.announce() == 0
    assert reminders.channel.given == []


def test_announcement_says_when_and_why(reminders: Reminders) -> None:
    reminders.add("sub_1")
    reminders.plan(30)
    reminders.announce()
    [(_, [event])] = reminders.channel.given
    assert (event.action, event.kind, event.sequence) == ("window.upcoming", "window.upcoming", None)
    assert event.target == {"type": "schedule", "id": reminders.weekends.id, "name": "Weekends"}
    [window] = event.details["windows"]
    assert (window["scheduleName"], window["timezone"]) == ("Weekends", "Europe/London")
    assert window["reason"] == "No release team at the weekend"


def test_window_is_announced_by_the_smallest_of_several_that_are_due(reminders: Reminders) -> None:
    reminders.add("sub_1", remind_before=(5, 15, 60))
    window = reminders.plan(10)
    reminders.announce()
    assert reminders.announced() == [("sub_1", 15, [window])]
    reminders.clock.at = reminders.now + 6 * MINUTE
    reminders.announce()
    assert reminders.announced() == [("sub_1", 5, [window])]


def test_longer_reminder_that_is_added_later_announces_nothing_again(
    reminders: Reminders, unit_of: UnitOfWorkOpener, acme: Organization
) -> None:
    reminders.add("sub_1")
    soon, later = reminders.plan(30), reminders.plan(90)
    reminders.announce()
    assert reminders.announced() == [("sub_1", 60, [soon])]
    with unit_of(acme) as uow:
        change_reminders(uow, "sub_1", (60, 120))
    reminders.announce()
    assert reminders.announced() == [("sub_1", 120, [later])]


def test_thousand_windows_at_once_are_one_event_of_each_destination(
    reminders: Reminders, monkeypatch: pytest.MonkeyPatch
) -> None:
    reminders.add("sub_1")
    reminders.add("sub_2")
    reminders.session.execute(
        text(
            "INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at) "
            "SELECT 'occ_' || n, :organization, :schedule, CAST(:now AS timestamptz) + n * interval '1 second', "
            "CAST(:now AS timestamptz) + interval '2 hours' FROM generate_series(1, 1000) n"
        ),
        {"organization": reminders.weekends.organization_id, "schedule": reminders.weekends.id, "now": reminders.now},
    )
    reminders.session.commit()
    assert reminders.announce() == 2
    assert sorted((destination, len(windows)) for destination, _, windows in reminders.announced()) == [
        ("sub_1", 1000),
        ("sub_2", 1000),
    ]


def test_skipped_window_is_not_announced(reminders: Reminders, unit_of: UnitOfWorkOpener, acme: Organization) -> None:
    reminders.add("sub_1")
    window = reminders.plan(61)
    with unit_of(acme) as uow:
        skip(uow, reminders.weekends.id, window)
    reminders.clock.at = reminders.now + 2 * MINUTE
    assert reminders.announce() == 0
    assert reminders.channel.given == []


def test_window_that_is_planned_at_another_time_is_announced_at_that_time(
    reminders: Reminders, acme: Organization
) -> None:
    reminders.add("sub_1")
    before = reminders.plan(30)
    reminders.announce()
    reminders.session.execute(text("DELETE FROM occurrences"))
    reminders.session.commit()
    after = reminders.plan(45)
    reminders.announce()
    assert reminders.announced() == [("sub_1", 60, [before]), ("sub_1", 60, [after])]


@pytest.mark.parametrize("change", ["UPDATE schedules SET enabled = false", "DELETE FROM occurrences"])
def test_window_that_is_no_longer_planned_is_not_announced(reminders: Reminders, change: str) -> None:
    reminders.add("sub_1")
    reminders.plan(30)
    reminders.session.execute(text(change))
    reminders.session.commit()
    assert reminders.announce() == 0


def test_window_that_has_begun_is_not_announced(reminders: Reminders) -> None:
    reminders.add("sub_1")
    reminders.plan(0)
    assert reminders.announce() == 0


def test_announcement_that_the_channel_fails_to_take_is_made_later(reminders: Reminders) -> None:
    reminders.add("sub_1")
    window = reminders.plan(30)
    reminders.channel.failing = True
    assert reminders.announce() == 0
    reminders.channel.failing = False
    reminders.channel.given.clear()
    assert reminders.announce() == 1
    assert reminders.announced() == [("sub_1", 60, [window])]


def test_window_is_announced_once_by_several_sweepers(reminders: Reminders) -> None:
    reminders.add("sub_1")
    reminders.plan(30)
    assert sum(at_once(*[reminders.announce] * 3)) == 1
    assert len(reminders.announced()) == 1


def test_announced_window_names_the_branch_of_its_schedule(reminders: Reminders) -> None:
    branch = factories.watched(
        reminders.session, reminders.session.get_one(Organization, reminders.weekends.organization_id)
    )
    reminders.weekends.scope = {"type": "branch", "branchId": branch.id}
    reminders.add("sub_1")
    reminders.plan(5)
    assert reminders.announce() == 1
    [(_, [event])] = reminders.channel.given
    [window] = event.details["windows"]
    assert window["scope"] == {**reminders.weekends.scope, "repository": "acme/web", "branch": "main"}
