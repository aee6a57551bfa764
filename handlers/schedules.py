"""Operations of the tag Schedules."""

from typing import Any

from schemas.names import snake_case
from services.pages import Page
from services.schedules import views
from services.unit import Unit

TERMS = ("recurrence", "window")


def list_schedules(unit: Unit, limit: int, cursor: str | None) -> Page:
    """List schedules, the one whose next occurrence comes first first."""
    return views.list_schedules(unit, cursor, limit)


def get_schedule(unit: Unit, schedule_id: str) -> object:
    """Get a schedule."""
    return views.show(unit, schedule_id)


def with_terms(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body of the contract with the keys of its recurrence and its window in snake_case, as they are kept."""
    terms = {name: {snake_case(key): value for key, value in body[name].items()} for name in TERMS if name in body}
    return {**body, **terms}
