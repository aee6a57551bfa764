"""Reminders: each planned window is announced once to a destination, for each number of minutes, and no other."""

from collections.abc import Callable
from datetime import datetime, timedelta

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
Plan = Callable[[float], str]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def now(clock: MovableClock) -> datetime:
    """Stop the clock."""
    clock.at = factories.now()
    return clock.at


@pytest.fixture
def weekends(session: Session, acme: Organization) -> Schedule:
    schedule = factories.schedule(session, acme, recurrence=FAR_AWAY)
    session.commit()
    return schedule


@pytest.fixture
def plan(session: Session, weekends: Schedule, now: datetime) -> Plan:
    """Plan a window that begins so many minutes from now, and return its id."""

    def planned(minutes: float) -> str:
        row = factories.occurrence(session, weekends, starts_at=now + minutes * MINUTE)
        session.commit()
        return row.id

    return planned


def announced(channel: KeptEvents) -> list[tuple[str, int, list[str]]]:
    """Return destination, minutes and windows of each event, and forget them."""
    found = [
        (destination, event.details["minutes"], [window["occurrenceId"] for window in event.details["windows"]])
        for destination, events in channel.given
        for event in events
    ]
    channel.given.clear()
    return found


def test_window_is_announced_once_when_it_comes_due(
    add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory, clock: MovableClock, now: datetime
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    window = plan(61)
    assert announce_windows(jobs) == 0
    assert seconds_to_next(jobs) == pytest.approx(60, abs=0.01)
    clock.at = now + MINUTE
    assert announce_windows(jobs) == 1
    assert announced(channel) == [("sub_1", 60, [window])]
    clock.at = now + 30 * MINUTE
    assert announce_windows(jobs) == 0
    assert channel.given == []


def test_announcement_says_when_and_why(
    add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory, weekends: Schedule
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    plan(30)
    announce_windows(jobs)
    [(_, [event])] = channel.given
    assert (event.action, event.kind, event.sequence) == ("window.upcoming", "window.upcoming", None)
    assert event.target == {"type": "schedule", "id": weekends.id, "name": "Weekends"}
    [window] = event.details["windows"]
    assert (window["scheduleName"], window["timezone"]) == ("Weekends", "Europe/London")
    assert window["reason"] == "No release team at the weekend"


def test_window_is_announced_by_the_smallest_of_several_that_are_due(
    add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory, clock: MovableClock, now: datetime
) -> None:
    add("sub_1", "slack", remind_before=(5, 15, 60))
    window = plan(10)
    announce_windows(jobs)
    assert announced(channel) == [("sub_1", 15, [window])]
    clock.at = now + 6 * MINUTE
    announce_windows(jobs)
    assert announced(channel) == [("sub_1", 5, [window])]


def test_longer_reminder_that_is_added_later_announces_nothing_again(
    add: Add,
    plan: Plan,
    channel: KeptEvents,
    jobs: UnitOfWorkFactory,
    unit_of: UnitOfWorkOpener,
    acme: Organization,
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    soon, later = plan(30), plan(90)
    announce_windows(jobs)
    assert announced(channel) == [("sub_1", 60, [soon])]
    with unit_of(acme) as uow:
        change_reminders(uow, "sub_1", (60, 120))
    announce_windows(jobs)
    assert announced(channel) == [("sub_1", 120, [later])]


def test_thousand_windows_at_once_are_one_event_of_each_destination(
    session: Session,
    add: Add,
    weekends: Schedule,
    channel: KeptEvents,
    jobs: UnitOfWorkFactory,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    add("sub_2", "slack", remind_before=(60,))
    session.execute(
        text(
            "INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at) "
            "SELECT 'occ_' || n, :organization, :schedule, CAST(:now AS timestamptz) + n * interval '1 second', "
            "CAST(:now AS timestamptz) + interval '2 hours' FROM generate_series(1, 1000) n"
        ),
        {"organization": weekends.organization_id, "schedule": weekends.id, "now": now},
    )
    session.commit()
    assert announce_windows(jobs) == 2
    assert sorted((destination, len(windows)) for destination, _, windows in announced(channel)) == [
        ("sub_1", 1000),
        ("sub_2", 1000),
    ]


def test_skipped_window_is_not_announced(
    session: Session,
    add: Add,
    plan: Plan,
    weekends: Schedule,
    channel: KeptEvents,
    jobs: UnitOfWorkFactory,
    unit_of: UnitOfWorkOpener,
    acme: Organization,
    clock: MovableClock,
    now: datetime,
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    window = plan(61)
    with unit_of(acme) as uow:
        skip(uow, weekends.id, window)
    clock.at = now + 2 * MINUTE
    assert announce_windows(jobs) == 0
    assert channel.given == []


def test_window_that_is_planned_at_another_time_is_announced_at_that_time(
    session: Session, add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory, acme: Organization
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    before = plan(30)
    announce_windows(jobs)
    session.execute(text("DELETE FROM occurrences"))
    session.commit()
    after = plan(45)
    announce_windows(jobs)
    assert announced(channel) == [("sub_1", 60, [before]), ("sub_1", 60, [after])]


@pytest.mark.parametrize("change", ["UPDATE schedules SET enabled = false", "DELETE FROM occurrences"])
def test_window_that_is_no_longer_planned_is_not_announced(
    session: Session, add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory, change: str
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    plan(30)
    session.execute(text(change))
    session.commit()
    assert announce_windows(jobs) == 0


def test_window_that_has_begun_is_not_announced(
    add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    plan(0)
    assert announce_windows(jobs) == 0


def test_announcement_that_the_channel_fails_to_take_is_made_later(
    add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    window = plan(30)
    channel.failing = True
    assert announce_windows(jobs) == 0
    channel.failing = False
    channel.given.clear()
    assert announce_windows(jobs) == 1
    assert announced(channel) == [("sub_1", 60, [window])]


def test_window_is_announced_once_by_several_sweepers(
    add: Add, plan: Plan, channel: KeptEvents, jobs: UnitOfWorkFactory
) -> None:
    add("sub_1", "slack", remind_before=(60,))
    plan(30)
    assert sum(at_once(*[lambda: announce_windows(jobs)] * 3)) == 1
    assert len(announced(channel)) == 1


def test_announced_window_names_the_branch_of_its_schedule(
    add: Add, plan: Plan, weekends: Schedule, channel: KeptEvents, jobs: UnitOfWorkFactory, session: Session
) -> None:
    branch = factories.watched(session, session.get_one(Organization, weekends.organization_id))
    weekends.scope = {"type": "branch", "branchId": branch.id}
    add("sub_1", "slack", remind_before=(60,))
    plan(5)
    assert announce_windows(jobs) == 1
    [(_, [event])] = channel.given
    [window] = event.details["windows"]
    assert window["scope"] == {**weekends.scope, "repository": "acme/web", "branch": "main"}
