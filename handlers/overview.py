"""Operations of the tag Overview."""

from typing import Any

from services import attention_items, overview
from services.pages import Page
from services.unit import Unit


def get_overview(unit: Unit) -> object:
    """Tell what is going on."""
    return overview.show(unit)


def list_attention_items(unit: Unit, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List what needs attention now."""
    return attention_items.list_items(unit, attention_items.AttentionFilters(**filters), cursor, limit)
