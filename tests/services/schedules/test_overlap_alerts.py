"""Overlaps that arise after schedules were saved have an alert until they are resolved."""

import itertools
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.organizations import Organization
from models.schedules import Schedule
from rules.ids import derive_id
from services.core.unit_of_work import UnitOfWorkFactory
from services.schedules.overlap_alerts import MAX_COMPARED, RECHECK_INTERVAL, find_overlaps
from tests import factories
from tests.harness.clock import MovableClock
from tests.services.schedules.test_overlaps import WEB, windows

_SECONDS = itertools.count(1)
API: dict[str, Any] = {"type": "glob", "patterns": ["acme/api*"]}


@pytest.fixture
def weekends(session: Session, acme: Organization) -> Schedule:
    """Return a schedule of everything in an organisation that watches acme/web."""
    factories.watched(session, acme, "acme/web")
    made = factories.schedule(session, acme, name="Weekends", windows=windows((0, 10)))
    session.commit()
    return made


def add(session: Session, of: Organization, *hours: tuple[float, float], **columns: Any) -> Schedule:
    ordered = factories.now() + timedelta(seconds=next(_SECONDS))  # ids of one millisecond have no order
    made = factories.schedule(session, of, id=derive_id("sch", of.id, ordered), windows=windows(*hours), **columns)
    session.commit()
    return made


def open_alerts(session: Session) -> list[tuple[str, str]]:
    """Return the subject and the message of each open alert."""
    session.rollback()
    query = "SELECT subject ->> 'name', message FROM attention_items WHERE cleared_at IS NULL ORDER BY since, key"
    return [(name, message) for name, message in session.execute(text(query))]


def compare_again(jobs: UnitOfWorkFactory, clock: MovableClock) -> None:
    clock.offset += RECHECK_INTERVAL
    find_overlaps(jobs)


def test_later_schedule_has_an_overlap_alert_that_names_the_earlier(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, weekends: Schedule
) -> None:
    add(session, acme, (5, 6), name="Release night")
    find_overlaps(jobs)
    [(subject, message)] = open_alerts(session)
    assert subject == "Release night"
    assert message.startswith("Windows of Release night overlap with those of Weekends from ")
    row = session.execute(text("SELECT type, severity, action, subject ->> 'id' FROM attention_items")).one()
    action = {"label": "Open the schedule", "url": f"https://freeze.test/schedules/{row[3]}"}
    assert row[:3] == ("schedules_overlap", "info", action)


def test_overlap_alert_follows_the_shared_branches(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, weekends: Schedule, clock: MovableClock
) -> None:
    add(session, acme, (5, 6), name="API", scope=API)
    find_overlaps(jobs)
    assert open_alerts(session) == []
    branch = factories.watched(session, acme, "acme/api-v2")
    session.commit()
    compare_again(jobs, clock)
    assert [subject for subject, _ in open_alerts(session)] == ["API"]
    branch.unwatched_at = factories.now()
    session.commit()
    compare_again(jobs, clock)
    assert open_alerts(session) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"enabled": False}, id="disabled"),
        pytest.param({"deleted_at": factories.now()}, id="deleted"),
        pytest.param({"allow_overlap": True}, id="allowed to overlap"),
    ],
)
@pytest.mark.parametrize("whose", ["earlier", "later"])
def test_overlap_alert_is_resolved_when_either_schedule_no_longer_applies(
    jobs: UnitOfWorkFactory,
    session: Session,
    acme: Organization,
    weekends: Schedule,
    clock: MovableClock,
    change: dict[str, Any],
    whose: str,
) -> None:
    later = add(session, acme, (5, 6))
    find_overlaps(jobs)
    assert len(open_alerts(session)) == 1
    for name, value in change.items():
        setattr(later if whose == "later" else weekends, name, value)
    session.commit()
    compare_again(jobs, clock)
    assert open_alerts(session) == []


@pytest.mark.parametrize("allowing", ["earlier", "later"])
def test_allowed_overlap_has_no_alert(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, weekends: Schedule, allowing: str
) -> None:
    weekends.allow_overlap = allowing == "earlier"
    add(session, acme, (5, 6), allow_overlap=allowing == "later")
    find_overlaps(jobs)
    assert open_alerts(session) == []


def test_several_overlaps_of_a_schedule_are_one_alert(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, weekends: Schedule
) -> None:
    add(session, acme, (20, 21), name="Release night")
    add(session, acme, (5, 21), name="Year's end", scope=WEB)
    find_overlaps(jobs)
    [(subject, message)] = open_alerts(session)
    assert subject == "Year's end"
    assert "those of Weekends and 1 more from" in message


def test_schedules_are_compared_in_turns(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, weekends: Schedule, clock: MovableClock
) -> None:
    for _ in range(MAX_COMPARED + 1):
        add(session, acme, (30, 31), allow_overlap=False)
    assert [find_overlaps(jobs) for _ in range(3)] == [MAX_COMPARED, 2, 0]
    clock.offset += RECHECK_INTERVAL - timedelta(seconds=30)
    assert find_overlaps(jobs) == 0
    clock.offset += timedelta(seconds=30)
    assert find_overlaps(jobs) == MAX_COMPARED


def test_schedules_of_deleted_organizations_are_not_compared(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, weekends: Schedule
) -> None:
    acme.deleted_at = factories.now()
    session.commit()
    assert find_overlaps(jobs) == 0
