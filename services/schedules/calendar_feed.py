"""The calendar of a feed: planned windows that are stored, and freezes and past windows of the last 30 days.

What does not take place is shown for 14 days if the feed existed before, and so has shown it as planned. An event has
the id of the window, or of the freeze if no window started it, so that it stays the same event from the plan to the
end. How often it has changed follows from the audit, which has an entry for each change.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select

from integrations.calendars.feed import write_calendar
from models.audit import AuditEntry, AuditRemoval
from models.calendar_feeds import CalendarFeed
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.queries import any_of
from models.repositories import Repository, WatchedBranch
from models.schedules import CancelledWindow, Occurrence, Schedule
from rules.access.organization_settings import OrganizationSettings
from rules.time.calendar_events import (
    GONE,
    MAX_EVENTS,
    MAX_NAME_LENGTH,
    PAST,
    CalendarEvent,
    Changes,
    State,
    Texts,
    event_of_freeze,
    event_of_window,
    shown_text,
    within_limit,
)
from rules.web_addresses import CALENDAR, FREEZE, SCHEDULE, WebOrigin
from services.core.unit_of_work import UnitOfWork
from services.schedules.occurrences import touching
from services.schedules.schedule_filters import ScheduleFilters, matching_schedules, one_of
from services.schedules.terms import local_day

DESCRIPTION = (
    "Windows of the next 90 days and the next two of each schedule, and freezes of the last 30 days. Calendar programs "
    "decide when they read it, often once a day: it is a plan, not a notice."
)
_CHANGE_SCHEDULES = ("schedule.created", "schedule.updated", "schedule.deleted", "schedule.replanned")
_CHANGE_WINDOWS = ("occurrence.skipped", "occurrence.unskipped", "occurrence.missed")
_CHANGE_FREEZES = (
    "freeze.started",
    "freeze.extended",
    "freeze.lifted",
    "freeze.overridden",
    "freeze.expired",
    "freeze.ended",
)
_CHANGE_ORGANIZATION = ("organization.updated",)
"""Its time zone, in which the day ends until which a freeze without an end is shown."""
_CHANGES = [*_CHANGE_SCHEDULES, *_CHANGE_WINDOWS, *_CHANGE_FREEZES, *_CHANGE_ORGANIZATION]
_NEVER = datetime.min.replace(tzinfo=UTC)


class FeedWindow(NamedTuple):
    """A window of a schedule; one that was taken from the plan is no row."""

    occurrence: Occurrence
    schedule: Schedule
    freeze: Freeze | None
    state: State


def render(uow: UnitOfWork, feed: CalendarFeed) -> bytes:
    """Return the calendar of a feed, the same bytes as long as nothing has changed."""
    schedule_ids = _schedules_of(uow, feed)
    windows = _windows(uow, feed, schedule_ids)
    gone = _gone(uow, feed, schedule_ids, windows)
    freezes = uow.session.scalars(_freezes(uow, feed)).all()
    changes = _Changes(uow, [*windows, *gone], freezes)
    since = max(feed.created_at, uow.now - GONE)
    windows = [one for one in windows if one.state == "frozen" or changes.since(one.occurrence) >= since]
    events = _Events(uow, [*windows, *gone], freezes, changes)
    shown = within_limit([*map(events.of_window, windows), *map(events.of_freeze, freezes)], uow.now, MAX_EVENTS)
    shown += within_limit([*map(events.of_window, gone)], uow.now, MAX_EVENTS - len(shown))
    name = shown_text(_name(uow, feed), MAX_NAME_LENGTH)
    return write_calendar(name, DESCRIPTION, shown, web_url=uow.ports[WebOrigin].url)


def _name(uow: UnitOfWork, feed: CalendarFeed) -> str:
    if feed.schedule_id is not None:
        return f"Freezes: {uow.session.get_one(Schedule, feed.schedule_id).name}"
    if feed.repository_id is not None:
        return f"Freezes of {uow.session.get_one(Repository, feed.repository_id).full_name}"
    return f"Freezes of {uow.session.get_one(Organization, uow.organization).name}"


def _schedules_of(uow: UnitOfWork, feed: CalendarFeed) -> list[str] | None:
    """Return the ids of the schedules whose planned windows a feed shows; None: all."""
    if feed.schedule_id is not None:
        return [feed.schedule_id]
    return None if feed.repository_id is None else matching_schedules(uow, ScheduleFilters(repo=feed.repository_id))


def _windows(uow: UnitOfWork, feed: CalendarFeed, schedule_ids: list[str] | None) -> Sequence[FeedWindow]:
    """Return the windows of the feed that can be among its events: the next ones, and the last ones of the past."""
    real = Occurrence.skip_reason.is_(None) | (Occurrence.skip_reason != "no_such_time")
    of_feed = [*touching(uow, uow.now - PAST, None), real, *_of_feed(feed, schedule_ids)]
    query = (
        select(Occurrence, Schedule, Freeze)
        .join(Schedule, Schedule.id == Occurrence.schedule_id)
        .outerjoin(Freeze, Freeze.id == Occurrence.freeze_id)
        .where(*of_feed)
        .limit(MAX_EVENTS)
    )
    ahead = query.where(Occurrence.ends_at > uow.now).order_by(Occurrence.starts_at, Occurrence.id)
    past = query.where(Occurrence.ends_at <= uow.now).order_by(Occurrence.starts_at.desc(), Occurrence.id)
    rows = [*uow.session.execute(ahead), *uow.session.execute(past)]
    return [FeedWindow(row, schedule, freeze, _state_of(row, freeze)) for row, schedule, freeze in rows]


def _state_of(occurrence: Occurrence, freeze: Freeze | None) -> State:
    if freeze is None and occurrence.missed_at is not None:
        return "missed"
    return "skipped" if freeze is None and occurrence.skip_reason is not None else "frozen"


def _gone(
    uow: UnitOfWork, feed: CalendarFeed, schedule_ids: list[str] | None, windows: Iterable[FeedWindow]
) -> Sequence[FeedWindow]:
    """Return the windows that were lately taken from the plan, and that the feed has shown before.

    They are moved if their schedule has another window on the same day.
    """
    of_feed = (
        CancelledWindow.organization_id == uow.organization,
        CancelledWindow.cancelled_at >= max(feed.created_at, uow.now - GONE),
        *one_of(CancelledWindow.schedule_id, schedule_ids),
    )
    query = (
        select(CancelledWindow, Schedule)
        .join(Schedule, Schedule.id == CancelledWindow.schedule_id)
        .where(*of_feed, ~select(Occurrence.id).where(Occurrence.id == CancelledWindow.id).exists())
        .order_by((CancelledWindow.ends_at > uow.now).desc(), CancelledWindow.starts_at, CancelledWindow.id)
        .limit(MAX_EVENTS)
    )
    days = {_day_of(one.occurrence, one.schedule) for one in windows if one.schedule.is_running}
    gone = list[FeedWindow]()
    for row, schedule in uow.session.execute(query):
        occurrence = Occurrence(id=row.id, starts_at=row.starts_at, ends_at=row.ends_at)
        is_moved = _day_of(occurrence, schedule) in days
        gone.append(FeedWindow(occurrence, schedule, None, "moved" if is_moved else "cancelled"))
    return gone


def _day_of(occurrence: Occurrence, schedule: Schedule) -> tuple[str, date]:
    return schedule.id, local_day(schedule, occurrence.starts_at)


def _of_feed(feed: CalendarFeed, schedule_ids: list[str] | None) -> list[ColumnElement[bool]]:
    """Return the conditions of the windows of a feed; of a repository, the started ones are those that covered it."""
    of_schedules = one_of(Occurrence.schedule_id, schedule_ids)
    if feed.repository_id is None:
        return of_schedules
    planned = and_(Occurrence.freeze_id.is_(None), *of_schedules)
    return [or_(planned, Occurrence.freeze_id.in_(_covering(feed.repository_id)))]


def _freezes(uow: UnitOfWork, feed: CalendarFeed) -> Select[Freeze]:
    """Return the query of the feed's freezes that no window started."""
    recent = or_(Freeze.ended_at.is_(None), Freeze.ended_at > uow.now - PAST)
    query = select(Freeze).where(Freeze.organization_id == uow.organization, Freeze.occurrence_id.is_(None), recent)
    if feed.schedule_id is not None:
        query = query.where(Freeze.schedule_id == feed.schedule_id)
    if feed.repository_id is not None:
        query = query.where(Freeze.id.in_(_covering(feed.repository_id)))
    return query.order_by(Freeze.started_at.desc(), Freeze.id).limit(MAX_EVENTS)


def _covering(repository_id: str) -> Select[str]:
    """Return the query of the ids of all freezes with a target in a repository."""
    targets = select(FreezeTarget.freeze_id).join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
    return targets.where(WatchedBranch.repository_id == repository_id)


class _Events:
    """Makes the events of windows and freezes."""

    def __init__(
        self, uow: UnitOfWork, windows: Sequence[FeedWindow], freezes: Sequence[Freeze], changes: "_Changes"
    ) -> None:
        settings = uow.session.get_one(Organization, uow.organization).settings
        self._zone = ZoneInfo(OrganizationSettings.from_json(settings).timezone)
        self._now, self._changes = uow.now, changes
        scopes = [one.schedule.scope for one in windows] + [one.freeze.scope for one in windows if one.freeze]
        self._branches = _named_branches(uow, [*scopes, *(freeze.scope for freeze in freezes)])

    def of_window(self, window: FeedWindow) -> CalendarEvent:
        """Return the event of a window, or of the freeze that it started."""
        occurrence, schedule, freeze, state = window
        changes = self._changes.of_window(occurrence, schedule, freeze)
        if freeze is not None:
            return self._of(freeze, occurrence.id, schedule.name, schedule.created_by, changes)
        page = SCHEDULE.format(id=schedule.id) if schedule.deleted_at is None else CALENDAR
        actors = {"planned": schedule.created_by}
        texts = Texts.of(schedule.name, schedule.reason, self._named(schedule.scope), actors)
        times = (occurrence.starts_at, occurrence.ends_at)
        return event_of_window(occurrence.id, page, texts, *times, state=state, changes=changes)

    def of_freeze(self, freeze: Freeze) -> CalendarEvent:
        """Return the event of a freeze that no window started."""
        return self._of(freeze, freeze.id, freeze.reason, None, self._changes.of_freeze(freeze))

    def _of(
        self, freeze: Freeze, event_id: str, name: str, planned_by: Mapping[str, Any] | None, changes: Changes
    ) -> CalendarEvent:
        actors: dict[str, Mapping[str, Any]] = {"started": freeze.created_by}
        if planned_by is not None and freeze.created_by["type"] == "schedule":
            actors["planned"] = planned_by
        return event_of_freeze(
            event_id,
            FREEZE.format(id=freeze.id),
            Texts.of(name, freeze.reason, self._named(freeze.scope), actors),
            freeze.started_at,
            freeze.ends_at,
            ended_at=freeze.ended_at,
            changes=changes,
            now=self._now,
            zone=self._zone,
        )

    def _named(self, scope: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a scope that names its branch, if it has the id of one."""
        return {**scope, **self._branches.get(scope.get("branchId"), {})}


def _named_branches(uow: UnitOfWork, scopes: Iterable[Mapping[str, Any]]) -> dict[str | None, dict[str, str]]:
    """Return the repository and name of the branches that scopes have by id, by this id."""
    ids = {scope["branchId"] for scope in scopes if "branchId" in scope}
    if not ids:
        return {}
    query = select(WatchedBranch.id, WatchedBranch.name, Repository.owner + "/" + Repository.name)
    rows = uow.session.execute(query.join(Repository).where(WatchedBranch.id == any_of(sorted(ids))))
    return {branch_id: {"branch": branch, "repository": repository} for branch_id, branch, repository in rows}


class _Changes:
    """The audited changes of windows and freezes.

    Entries may have left the database. The number of all that did is added to each count, and the instant of the last
    is the earliest, so that neither becomes smaller.
    """

    def __init__(self, uow: UnitOfWork, windows: Sequence[FeedWindow], freezes: Sequence[Freeze]) -> None:
        targets = {one.schedule.id for one in windows} | {one.freeze.id for one in windows if one.freeze is not None}
        targets |= {freeze.id for freeze in freezes}
        self._found: Mapping[tuple[str, str | None], Changes] = {}
        self._removed = _read_removed(uow)
        if targets:
            self._found = _read_changes(uow, sorted({*targets, uow.organization}))
        self._of_organization = self._found.get((uow.organization, None), Changes(0, _NEVER))

    def of_freeze(self, freeze: Freeze) -> Changes:
        """Return the changes of a freeze."""
        return self._with_removed(self._left_of_freeze(freeze))

    def of_window(self, occurrence: Occurrence, schedule: Schedule, freeze: Freeze | None) -> Changes:
        """Return the changes of a window: of its schedule, its own, and those of the freeze that it started."""
        keys = [(schedule.id, None), (schedule.id, occurrence.id)]
        parts = [self._found[key] for key in keys if key in self._found]
        if freeze is not None:
            parts.append(self._left_of_freeze(freeze))
        latest = max((part.latest for part in parts), default=schedule.created_at)
        return self._with_removed(Changes(sum(part.count for part in parts), latest))

    def since(self, occurrence: Occurrence) -> datetime:
        """Return since when a window of a schedule is known to be skipped or missed."""
        found = self._found.get((occurrence.schedule_id, occurrence.id))
        return occurrence.missed_at or (_NEVER if found is None else found.latest)

    def _left_of_freeze(self, freeze: Freeze) -> Changes:
        found = self._found.get((freeze.id, None), Changes(0, freeze.started_at))
        return Changes(found.count + self._of_organization.count, max(found.latest, self._of_organization.latest))

    def _with_removed(self, left: Changes) -> Changes:
        return Changes(left.count + self._removed.count, max(left.latest, self._removed.latest))


def _read_removed(uow: UnitOfWork) -> Changes:
    """Return the number of all entries that left the database, and the instant of the last of them."""
    query = select(func.max(AuditRemoval.sequence), func.max(AuditRemoval.sealed_at))
    count, latest = uow.session.execute(query.where(AuditRemoval.organization_id == uow.organization)).one()
    return Changes(count or 0, latest or _NEVER)


def _read_changes(uow: UnitOfWork, targets: Sequence[str]) -> dict[tuple[str, str | None], Changes]:
    window = case((AuditEntry.action.in_(_CHANGE_WINDOWS), AuditEntry.details["occurrenceId"].astext))
    query = (
        select(AuditEntry.target_id, window, func.count(), func.max(AuditEntry.at))
        .where(
            AuditEntry.organization_id == uow.organization,
            AuditEntry.target_id == any_of(targets),
            AuditEntry.action.in_(_CHANGES),
        )
        .group_by(AuditEntry.target_id, window)
    )
    return {(target, one): Changes(count, at) for target, one, count, at in uow.session.execute(query)}
