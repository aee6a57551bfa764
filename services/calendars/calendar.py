"""The calendar of a feed: planned windows that are stored, and freezes and past windows of the last 30 days.

An event has the id of the window, or of the freeze if no window started it, so that it stays the same event from the
plan to the end. How often it has changed follows from the audit, which has an entry for each change.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select

from integrations.calendars.feed import write_calendar
from models.audit import AuditEntry, AuditRemoval
from models.calendar_feeds import CalendarFeed
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.queries import any_of
from models.repositories import Repository, WatchedBranch
from models.schedules import CancelledWindow, Occurrence, Schedule
from rules.time.calendar_events import (
    MAX_EVENTS,
    MAX_NAME_LENGTH,
    PAST,
    CalendarEvent,
    Changes,
    event_of_freeze,
    event_of_window,
    shown_text,
    within_limit,
)
from rules.web_addresses import CALENDAR, FREEZE, SCHEDULE
from services.core.unit_of_work import UnitOfWork
from services.schedules.occurrences import touching
from services.schedules.schedule_filters import ScheduleFilters, matching_schedules, one_of

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
Window = tuple[Occurrence, Schedule, Freeze | None]


def render(uow: UnitOfWork, feed: CalendarFeed) -> bytes:
    """Return the calendar of a feed, the same bytes as long as nothing has changed."""
    schedule_ids = _schedules_of(uow, feed)
    windows, cancelled = _windows(uow, feed, schedule_ids), _cancelled(uow, schedule_ids)
    freezes = uow.session.scalars(_freezes(uow, feed)).all()
    changes = _Changes(uow, [*windows, *cancelled], freezes)
    events = [*_of_windows(windows, changes, uow.now), *(_of_freeze(row, changes, uow.now) for row in freezes)]
    shown = within_limit(events, uow.now, MAX_EVENTS)
    shown += within_limit([*_of_windows(cancelled, changes, uow.now)], uow.now, MAX_EVENTS - len(shown))
    name = shown_text(_name(uow, feed), MAX_NAME_LENGTH)
    return write_calendar(name, DESCRIPTION, shown, web_url=uow.dependencies.web_url)


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


def _windows(uow: UnitOfWork, feed: CalendarFeed, schedule_ids: list[str] | None) -> Sequence[Window]:
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
    return [(occurrence, schedule, freeze) for occurrence, schedule, freeze in rows]


def _cancelled(uow: UnitOfWork, schedule_ids: list[str] | None) -> Sequence[Window]:
    """Return the windows of schedules that were taken from the plan, as skipped ones that are no rows."""
    of_feed = (
        CancelledWindow.organization_id == uow.organization,
        CancelledWindow.ends_at > uow.now - PAST,
        *one_of(CancelledWindow.schedule_id, schedule_ids),
    )
    query = (
        select(CancelledWindow, Schedule)
        .join(Schedule, Schedule.id == CancelledWindow.schedule_id)
        .where(*of_feed, ~select(Occurrence.id).where(Occurrence.id == CancelledWindow.id).exists())
        .order_by((CancelledWindow.ends_at > uow.now).desc(), CancelledWindow.starts_at, CancelledWindow.id)
        .limit(MAX_EVENTS)
    )
    return [
        (Occurrence(id=one.id, starts_at=one.starts_at, ends_at=one.ends_at, skip_reason="cancelled"), schedule, None)
        for one, schedule in uow.session.execute(query)
    ]


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


def _of_windows(windows: Sequence[Window], changes: "_Changes", now: datetime) -> Iterator[CalendarEvent]:
    for occurrence, schedule, freeze in windows:
        so_far = changes.of_window(occurrence, schedule, freeze)
        if freeze is not None:
            yield event_of_freeze(
                occurrence.id,
                FREEZE.format(id=freeze.id),
                schedule.name,
                freeze.reason,
                freeze.started_at,
                freeze.ends_at,
                ended_at=freeze.ended_at,
                changes=so_far,
                now=now,
            )
        else:
            yield event_of_window(
                occurrence.id,
                SCHEDULE.format(id=schedule.id) if schedule.deleted_at is None else CALENDAR,
                schedule.name,
                schedule.reason,
                occurrence.starts_at,
                occurrence.ends_at,
                cancelled=occurrence.skip_reason is not None or occurrence.missed_at is not None,
                changes=so_far,
            )


def _of_freeze(freeze: Freeze, changes: "_Changes", now: datetime) -> CalendarEvent:
    return event_of_freeze(
        freeze.id,
        FREEZE.format(id=freeze.id),
        freeze.reason,
        freeze.reason,
        freeze.started_at,
        freeze.ends_at,
        ended_at=freeze.ended_at,
        changes=changes.of_freeze(freeze),
        now=now,
    )


class _Changes:
    """The audited changes of windows and freezes.

    Entries may have left the database. The number of all that did is added to each count, and the instant of the last
    is the earliest, so that neither becomes smaller.
    """

    def __init__(self, uow: UnitOfWork, windows: Sequence[Window], freezes: Sequence[Freeze]) -> None:
        targets = {schedule.id for _, schedule, _ in windows} | {row.id for _, _, row in windows if row is not None}
        targets |= {freeze.id for freeze in freezes}
        self._found: Mapping[tuple[str, str | None], Changes] = {}
        self._removed = _read_removed(uow)
        if targets:
            self._found = _read_changes(uow, sorted(targets))

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

    def _left_of_freeze(self, freeze: Freeze) -> Changes:
        return self._found.get((freeze.id, None), Changes(0, freeze.started_at))

    def _with_removed(self, left: Changes) -> Changes:
        return Changes(left.count + self._removed.count, max(left.latest, self._removed.latest))


def _read_removed(uow: UnitOfWork) -> Changes:
    """Return the number of all entries that left the database, and the instant of the last of them."""
    query = select(func.max(AuditRemoval.sequence), func.max(AuditRemoval.sealed_at))
    count, latest = uow.session.execute(query.where(AuditRemoval.organization_id == uow.organization)).one()
    return Changes(count or 0, latest or datetime.min.replace(tzinfo=UTC))


def _read_changes(uow: UnitOfWork, targets: Sequence[str]) -> dict[tuple[str, str | None], Changes]:
    window = case((AuditEntry.action.in_(_CHANGE_WINDOWS), AuditEntry.details["occurrenceId"].astext))
    query = (
        select(AuditEntry.target_id, window, func.count(), func.max(AuditEntry.at))
        .where(
            AuditEntry.organization_id == uow.organization,
            AuditEntry.target_id == any_of(targets),
            AuditEntry.action.in_([*_CHANGE_SCHEDULES, *_CHANGE_WINDOWS, *_CHANGE_FREEZES]),
        )
        .group_by(AuditEntry.target_id, window)
    )
    return {(target, one): Changes(count, at) for target, one, count, at in uow.session.execute(query)}
