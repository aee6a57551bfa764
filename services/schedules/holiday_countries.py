"""The countries whose holidays can be imported."""

from integrations.calendars import holidays
from services.core.pagination import Page, page_of_listed
from services.core.unit_of_work import UnitOfWork


def list_countries(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the countries with their subdivisions, by code. Raise `invalid_cursor`."""
    return page_of_listed(uow, "list_holiday_countries", holidays.countries(), cursor, limit)
