"""What is read all day is written as SQL once: SQLAlchemy finds each statement again that it has written before."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from services.core.unit_of_work import UnitOfWork
from services.schedules.month_calendar import calendar_of
from services.schedules.occurrences import OccurrenceFilters, list_occurrences
from services.schedules.occurrences_by_schedule import OccurrenceRange
from services.schedules.previews import preview_saved
from services.schedules.schedule_filters import NO_FILTERS, ScheduleFilters
from services.schedules.views import list_schedules
from tests.services.schedules.conftest import ScheduleFixture

pytestmark = pytest.mark.check

YEAR = timedelta(days=365)
Read = Callable[[UnitOfWork, str], object]

READS: dict[str, Read] = {
    "the list": lambda uow, _: list_schedules(uow, NO_FILTERS, None, 50),
    "occurrences": lambda uow, _: list_occurrences(uow, OccurrenceFilters(since=uow.now), None, 50),
    "planned occurrences": lambda uow, _: list_occurrences(uow, OccurrenceFilters(state="planned"), None, 50),
    "the calendar": lambda uow, _: calendar_of(uow, "2026-12", None),
    "the calendar in a zone": lambda uow, _: calendar_of(uow, "2026-12", "Asia/Kolkata"),
    "the calendar of a schedule": lambda uow, schedule_id: calendar_of(
        uow, "2026-12", None, ScheduleFilters(schedule_id)
    ),
    "a later month": lambda uow, _: calendar_of(uow, "2027-12", None),
    "later occurrences": lambda uow, _: list_occurrences(uow, OccurrenceFilters(until=uow.now + YEAR), None, 50),
    "the list of a branch": lambda uow, _: list_schedules(uow, ScheduleFilters(branch="main"), None, 50),
    "the list with occurrences": lambda uow, _: list_schedules(uow, NO_FILTERS, None, 50, OccurrenceRange(uow.now)),
    "a preview": lambda uow, schedule_id: preview_saved(uow, schedule_id, 10),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_second_request_compiles_no_statement(schedules: ScheduleFixture, read: Read) -> None:
    schedule_id = schedules.at("2026-11-21 12:00").create()
    written: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool) -> None:
        if context.compiled is not None and context.cache_hit.name != "CACHE_HIT":
            written.append(statement)

    with schedules.uow_factory.open(schedules.caller) as uow:
        read(uow, schedule_id)
        event.listen(schedules.uow_factory.engine, "after_cursor_execute", note)
        read(uow, schedule_id)
        event.remove(schedules.uow_factory.engine, "after_cursor_execute", note)
    assert written == []
