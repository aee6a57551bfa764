"""Listing what needs attention: items that were raised and are open, and those that are read from what there is.

The second kind is never stored, so that it cannot outlive its cause: failed targets, requests that wait, keys that
expire, an installation that has gone, limits of the code host. Its ids follow from what it is about.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from sqlalchemy import func, select
from sqlalchemy.sql.selectable import Subquery, TextualSelect

from services.alerts.alerts import Severity
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.overview.attention_sources import every_source

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class AttentionFilters:
    """Which items a list shows; None: any."""

    type: str | None = None
    severity: str | None = None


def list_items(uow: UnitOfWork, filters: AttentionFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of what needs attention now, what began last first; raises `invalid_cursor`."""
    items = _items(uow)
    query = select(*items.c)
    if filters.type is not None:
        query = query.where(items.c.type == filters.type)
    if filters.severity is not None:
        query = query.where(items.c.severity == filters.severity)
    keys = (items.c.since, items.c.id)
    page = page_of(uow, "list_attention_items", filters, query, keys, cursor=cursor, limit=limit)
    return Page([dict(zip(items.c.keys(), row, strict=True)) for row in page.data], page.next_cursor)


def count_items(uow: UnitOfWork) -> Mapping[str, int]:
    """Return how many items there are of each severity."""
    items = _items(uow)
    found = {row[0]: row[1] for row in uow.session.execute(select(items.c.severity, func.count()).group_by("severity"))}
    return {severity: found.get(severity, 0) for severity in SEVERITIES}


def _items(uow: UnitOfWork) -> Subquery:
    values = {"organization": uow.organization, "now": uow.now, "home": f"{uow.dependencies.web_url}/"}
    return _query().bindparams(**values).subquery("items")


@cache
def _query() -> TextualSelect:
    return every_source()  # once: to build it takes longer than to run it
