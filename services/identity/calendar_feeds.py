"""Calendar feeds: create, list, revoke, and find one by the secret in its address.

Calendar programs send no credentials, so the address is the secret: 128 random bits, shown once, of which only the hash
is stored. It gives nothing but the calendar. A feed ends when a person revokes it, when its creator leaves the
organisation, and with the organisation.
"""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, func, select, text

from models.calendar_feeds import CalendarFeed
from models.repositories import Repository
from models.schedules import Schedule
from rules.access.access_tokens import AccessTokenSettings
from rules.access.permissions import role_reaches
from rules.errors import Detail, ServiceError
from rules.ids import new_id
from services.core.lookups import get_repository, require_schedule, role_of_caller
from services.core.named_locks import acquire_lock
from services.core.pagination import Page, page_of
from services.core.tokens import new_feed_token, token_hash
from services.core.unit_of_work import UnitOfWork

MAX_FEEDS = 50
"""Feeds that one person may have in an organisation."""
SUFFIX = ".ics"
_KEYS = (CalendarFeed.created_at, CalendarFeed.id)
_FIND = text("SELECT * FROM find_calendar_feed(:hash)")
"""Feed and organisation of a token; the caller has no organisation yet, and so sees no rows."""

Why = Literal["by_person", "member_removed"]


@dataclass(frozen=True, slots=True)
class NewFeed:
    """The input for a new feed: of the organisation, or of one schedule or repository."""

    name: str
    schedule_id: str | None = None
    repo: str | None = None
    """The repository's id, or its owner and name."""


def list_feeds(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the organisation's feeds, newest first, without their addresses. Raise `invalid_cursor`."""
    page = page_of(uow, "list_calendar_feeds", None, _listed(uow), _KEYS, cursor=cursor, limit=limit)
    return Page([_to_response(*row) for row in page.data], page.next_cursor)


def create(uow: UnitOfWork, wanted: NewFeed) -> dict[str, Any]:
    """Create a feed of the caller and return it with its address, which is shown only once.

    Raise `validation_failed` if it names both a schedule and a repository, `schedule_not_found`,
    `repository_not_found`, and `invalid_state` if the person has too many.
    """
    if wanted.schedule_id is not None and wanted.repo is not None:
        message = "must not be sent together with scheduleId"
        raise ServiceError("validation_failed", f"repo {message}.", details=(Detail("/repo", message),))
    _require_below_limit(uow)
    token = new_feed_token()
    feed = CalendarFeed(
        id=new_id("cal"),
        organization_id=uow.organization,
        user_id=uow.caller.user_id,
        name=wanted.name,
        schedule_id=require_schedule(uow, wanted.schedule_id) if wanted.schedule_id is not None else None,
        repository_id=get_repository(uow, wanted.repo).id if wanted.repo is not None else None,
        token_hash=token_hash(token),
        created_by=uow.actor.as_json(),
        created_at=uow.now,
    )
    uow.session.add(feed)
    uow.session.flush()
    after = {"scheduleId": feed.schedule_id, "repositoryId": feed.repository_id}
    uow.audit("calendar_feed.created", _target(feed), before=None, after=after)
    [row] = uow.session.execute(_listed(uow).where(CalendarFeed.id == feed.id)).all()
    address = f"{uow.ports[AccessTokenSettings].audience}/calendars/{token}{SUFFIX}"
    return {"calendar_feed": _to_response(*row), "url": address}


def revoke(uow: UnitOfWork, feed_id: str) -> None:
    """Revoke a feed, effective with the next request for its calendar.

    Raise `calendar_feed_not_found` if there is none or it was revoked, `insufficient_permission` if it is another
    person's and the caller is no administrator.
    """
    query = _live(uow).where(CalendarFeed.id == feed_id).with_for_update()
    feed = uow.session.scalar(query)
    if feed is None:
        raise _not_found()
    if feed.user_id != uow.caller.user_id and not role_reaches(role_of_caller(uow), "admin"):
        message = "Only administrators can revoke the calendar feeds of others."
        raise ServiceError("insufficient_permission", message)
    _end(uow, feed, "by_person")


def end_feeds_of(uow: UnitOfWork, user_id: str, why: Why) -> None:
    """Revoke all feeds of a person in the organisation of the unit of work."""
    query = _live(uow).where(CalendarFeed.user_id == user_id).order_by(CalendarFeed.id).with_for_update()
    for feed in uow.session.scalars(query).all():
        _end(uow, feed, why)


def open_feed(uow: UnitOfWork, file_name: str) -> CalendarFeed:
    """Return the feed of a calendar's file name (`svc_feed_….ics`), and continue in its organisation.

    Raise `calendar_feed_not_found` if it is unknown or has ended.
    """
    token = file_name.removesuffix(SUFFIX)
    row = uow.session.execute(_FIND, {"hash": token_hash(token)}).one_or_none() if token != file_name else None
    if row is None:
        raise _not_found()
    uow.bind_organization(row.organization_id)
    return uow.session.get_one(CalendarFeed, row.feed_id)


def _live(uow: UnitOfWork) -> Select[CalendarFeed]:
    return select(CalendarFeed).where(*_is_live(uow))


def _is_live(uow: UnitOfWork) -> tuple[ColumnElement[bool], ...]:
    return CalendarFeed.organization_id == uow.organization, CalendarFeed.revoked_at.is_(None)


def _require_below_limit(uow: UnitOfWork) -> None:
    """Raise `invalid_state` if the person has too many feeds; another creation of theirs waits for this transaction."""
    acquire_lock(uow, f"calendar feeds {uow.organization} {uow.caller.user_id}")
    mine = select(func.count()).where(*_is_live(uow), CalendarFeed.user_id == uow.caller.user_id)
    if uow.session.scalars(mine).one() >= MAX_FEEDS:
        message = f"You have {MAX_FEEDS} calendar feeds in this organisation, which is the maximum. Revoke one first."
        raise ServiceError("invalid_state", message)


def _end(uow: UnitOfWork, feed: CalendarFeed, why: Why) -> None:
    feed.revoked_at = uow.now
    before, after = {"state": "active"}, {"state": "revoked"}
    uow.audit("calendar_feed.revoked", _target(feed), before=before, after=after, why=why, userId=feed.user_id)


def _not_found() -> ServiceError:
    return ServiceError("calendar_feed_not_found", "There is no such calendar feed, or it has ended.")


def _target(feed: CalendarFeed) -> tuple[str, str, str]:
    return "calendar_feed", feed.id, feed.name


def _listed(uow: UnitOfWork) -> Select[CalendarFeed, str | None, str | None]:
    """Return the query for live feeds, each with the name of its schedule and of its repository."""
    return (
        select(CalendarFeed, Schedule.name, Repository.owner + "/" + Repository.name)
        .outerjoin(Schedule, Schedule.id == CalendarFeed.schedule_id)
        .outerjoin(Repository, Repository.id == CalendarFeed.repository_id)
        .where(*_is_live(uow))
    )


def _to_response(feed: CalendarFeed, schedule: str | None, repository: str | None) -> dict[str, Any]:
    return {
        "id": feed.id,
        "name": feed.name,
        "schedule": None if feed.schedule_id is None else {"id": feed.schedule_id, "name": schedule},
        "repository": None if feed.repository_id is None else {"id": feed.repository_id, "name": repository},
        "created_by": feed.created_by,
        "created_at": feed.created_at,
    }
