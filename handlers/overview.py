"""Operations of the tag Overview."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.overview import attention, overview


def get_overview(uow: UnitOfWork) -> object:
    """Tell what is going on."""
    return overview.show(uow)


def list_attention_items(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List what needs attention now."""
    return attention.list_items(uow, attention.AttentionFilters(**filters), cursor, limit)
