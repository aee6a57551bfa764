"""Operations of the tag Overview."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.overview import alerts, busy_days, summary
from services.schedules.schedule_filters import ScheduleFilters


def get_overview(uow: UnitOfWork, *, counts_only: bool) -> object:
    """Return the summary of the organisation."""
    return summary.show(uow, counts_only=counts_only)


def get_busy_days(
    uow: UnitOfWork, first_day: str, last_day: str, timezone: str, *, list_freezes: bool, **filters: str | None
) -> object:
    """Return how many freezes and windows last on each day."""
    return busy_days.busy_days(
        uow, first_day, last_day, timezone, ScheduleFilters(**filters), list_freezes=list_freezes
    )


def list_attention_items(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List the current alerts, called attention items in the API."""
    return alerts.list_alerts(uow, alerts.AlertFilters(**filters), cursor, limit)
