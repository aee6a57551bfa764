"""Operations of the tag Overview."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import Unit
from services.overview import attention, overview


def get_overview(unit: Unit) -> object:
    """Tell what is going on."""
    return overview.show(unit)


def list_attention_items(unit: Unit, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List what needs attention now."""
    return attention.list_items(unit, attention.AttentionFilters(**filters), cursor, limit)
