"""Windows of many schedules at the same minute: several workers start them, once, and in order within a schedule."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from models.requests import MORE_WINDOWS
from models.schedules import Occurrence
from services.maintenance import tasks
from services.maintenance.tasks import end_freezes
from services.schedules import occurrence_start
from tests.harness.concurrency import at_once
from tests.services.schedules.windows import HOUR, Planned

SCHEDULES = 5
AT_REST = "INSERT INTO periodic_tasks (name, done_at) SELECT unnest(CAST(:names AS text[])), now()"
REQUESTED = "SELECT name FROM periodic_tasks WHERE due_at <= :now AND name = ANY(:names) ORDER BY name"


@pytest.fixture
def due(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> list[Occurrence]:
    """Two windows of each schedule that have come, more than a page."""
    monkeypatch.setattr(occurrence_start, "BATCH_SIZE", 4)
    monkeypatch.setattr(tasks, "MAX_ENDED_AT_ONCE", 4)
    found = []
    for number in range(SCHEDULES):
        schedule = planned.add_schedule(name=f"Nights {number}")
        starts = (timedelta(minutes=number), timedelta(minutes=30 + number))
        found += [planned.add(schedule, start, 3 * HOUR) for start in starts]
    planned.session.execute(text(AT_REST), {"names": list(MORE_WINDOWS)})
    planned.session.commit()
    planned.come(HOUR - timedelta(minutes=10))
    return found


def requested(planned: Planned) -> list[str]:
    planned.session.rollback()
    return list(planned.session.scalars(text(REQUESTED), {"now": planned.clock.at, "names": list(MORE_WINDOWS)}))


def test_windows_beyond_a_page_begin_once_with_two_workers(planned: Planned, due: list[Occurrence]) -> None:
    assert sum(at_once(planned.begin, planned.begin)) + planned.begin() == len(due) + 1
    assert {freeze.occurrence_id for freeze in planned.freezes()} >= {window.id for window in due}


def test_windows_of_a_schedule_begin_in_order_beyond_a_page(planned: Planned, due: list[Occurrence]) -> None:
    planned.begin()
    begun = [entry.details["occurrenceId"] for entry in planned.audit("freeze.started")]
    for first, second in zip(due[::2], due[1::2], strict=True):
        assert begun.index(first.id) < begun.index(second.id)


def test_other_workers_help_where_more_windows_are_due_than_a_page(planned: Planned, due: list[Occurrence]) -> None:
    assert planned.begin() == len(due) + 1
    assert requested(planned) == sorted(MORE_WINDOWS)


def test_no_worker_helps_where_few_windows_are_due(planned: Planned) -> None:
    planned.session.execute(text(AT_REST), {"names": list(MORE_WINDOWS)})
    planned.session.commit()
    planned.come()
    assert planned.begin() == 1
    assert requested(planned) == []


def test_ends_beyond_a_page_are_recorded_once_with_two_workers(planned: Planned, due: list[Occurrence]) -> None:
    planned.begin()
    planned.come(10 * HOUR)
    assert sum(at_once(lambda: end_freezes(planned.jobs), lambda: end_freezes(planned.jobs))) == len(due) + 1
    assert len(planned.audit("freeze.expired")) == len(due) + 1
