"""Operations of the tag Schedules."""

from typing import Any

from handlers.entity_tags import tagged
from rules.contract_names import snake_case
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.schedules import (
    changes,
    deletion,
    holiday_countries,
    import_undo,
    imports,
    manual_runs,
    month_calendar,
    occurrences,
    previews,
    skips,
    views,
)
from services.schedules.import_matching import Import
from services.schedules.occurrences_by_schedule import OccurrenceRange
from services.schedules.schedule_filters import ScheduleFilters

_NESTED_TERMS = ("recurrence", "window")


def list_schedules(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List schedules, ordered by their next occurrence."""
    since, until = filters.pop("occurrences_from"), filters.pop("occurrences_to")
    wanted = OccurrenceRange(since, until) if since or until else None
    return views.list_schedules(uow, ScheduleFilters(**filters), cursor, limit, wanted)


def create_schedule(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Create a schedule."""
    return tagged(views.view(uow, changes.create(uow, changes.NewSchedule(**_with_terms(body)))))


def get_schedule(uow: UnitOfWork, schedule_id: str) -> object:
    """Get a schedule."""
    return tagged(views.show(uow, schedule_id))


def update_schedule(uow: UnitOfWork, schedule_id: str, body: dict[str, Any], if_match: str | None) -> object:
    """Change a schedule."""
    apply_to_active = body.pop("apply_to_active")
    schedule, lost = changes.update(uow, schedule_id, _with_terms(body), if_match, apply_to_active=apply_to_active)
    return tagged(views.view(uow, schedule), **({"lost_skips": lost} if lost else {}))


def delete_schedule(uow: UnitOfWork, schedule_id: str, *, end_active: bool, if_match: str | None) -> None:
    """Delete a schedule."""
    deletion.delete_schedule(uow, schedule_id, end_active=end_active, if_match=if_match)


def skip_next_occurrence(uow: UnitOfWork, schedule_id: str, body: dict[str, Any] | None) -> object:
    """Skip the next occurrence."""
    return skips.skip_next(uow, schedule_id, (body or {}).get("occurrence_id"))


def skip_occurrence(uow: UnitOfWork, schedule_id: str, occurrence_id: str) -> object:
    """Skip an occurrence."""
    return skips.skip(uow, schedule_id, occurrence_id)


def unskip_occurrence(uow: UnitOfWork, schedule_id: str, occurrence_id: str) -> object:
    """Plan a skipped occurrence again."""
    return skips.unskip(uow, schedule_id, occurrence_id)


def run_schedule_now(uow: UnitOfWork, schedule_id: str, body: dict[str, Any]) -> object:
    """Apply or lift a schedule's window now."""
    return manual_runs.run_now(uow, schedule_id, body["action"], body.get("ends_at"))


def preview_schedule_draft(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Preview a draft."""
    return previews.preview_draft(uow, _with_terms(body), body["limit"])


def preview_schedule(uow: UnitOfWork, schedule_id: str, limit: int) -> object:
    """Preview a schedule."""
    return previews.preview_saved(uow, schedule_id, limit)


def list_occurrences(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List occurrences, earliest first."""
    since, until, state = filters.pop("from"), filters.pop("to"), filters.pop("state")
    wanted = occurrences.OccurrenceFilters(since, until, state, ScheduleFilters(**filters))
    return occurrences.list_occurrences(uow, wanted, cursor, limit)


def get_schedule_calendar(
    uow: UnitOfWork, month: str, timezone: str | None, *, whole_weeks: bool, **filters: str | None
) -> object:
    """Return the calendar of a month."""
    return month_calendar.calendar_of(uow, month, timezone, ScheduleFilters(**filters), whole_weeks=whole_weeks)


def import_schedules(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Import a calendar."""
    return imports.import_calendar(uow, Import(**_with_terms(body)))


def undo_schedule_import(uow: UnitOfWork, import_id: str) -> object:
    """Undo the import of a calendar."""
    return import_undo.undo_schedule_import(uow, import_id)


def list_holiday_countries(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the countries whose holidays can be imported."""
    return holiday_countries.list_countries(uow, cursor, limit)


def _with_terms(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request body with the keys of its recurrence and window in snake_case, as they are stored."""
    terms = {
        name: {snake_case(key): value for key, value in body[name].items()} for name in _NESTED_TERMS if name in body
    }
    return {**body, **terms}
