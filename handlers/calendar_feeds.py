"""Operations of the tag Calendar feeds."""

from typing import Any

from schemas.replies import RawReply, SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.identity import calendar_feeds
from services.schedules import calendar_feed

_HEADERS = {
    "Content-Type": "text/calendar; charset=utf-8",
    "Cache-Control": "private, no-cache",
    "Referrer-Policy": "no-referrer",
}


def list_calendar_feeds(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the organisation's calendar feeds, newest first."""
    return calendar_feeds.list_feeds(uow, cursor, limit)


def create_calendar_feed(uow: UnitOfWork, body: dict[str, Any]) -> SecretReply:
    """Create a calendar feed and return its address once."""
    return SecretReply(calendar_feeds.create(uow, calendar_feeds.NewFeed(**body)))


def revoke_calendar_feed(uow: UnitOfWork, calendar_feed_id: str) -> None:
    """Revoke a calendar feed."""
    calendar_feeds.revoke(uow, calendar_feed_id)


def get_calendar(uow: UnitOfWork, calendar_file: str) -> RawReply:
    """Return the calendar of a feed."""
    return RawReply(200, _HEADERS, calendar_feed.render(uow, calendar_feeds.open_feed(uow, calendar_file)))
