"""Later occurrences: those after the 90 days whose windows are rows, computed from the terms of their schedules.

A later occurrence has the id that its row will have (`rules.ids.derive_id`). Skipping it stores its row early. So an id
that a client has read stays valid as long as the schedule has a window with that start.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, select

from models.schedule_queries import existing
from models.schedules import Occurrence, Schedule
from rules.ids import derive_id, instant_of
from rules.time.wall_clock import Interval, clock_gaps
from services.core.unit_of_work import UnitOfWork
from services.schedules.terms import windows_of

MAX_AHEAD = timedelta(days=731)
"""How far ahead there are occurrences: to the end of next year at least."""
MAX_SCHEDULES = 1000
"""Schedules whose later occurrences one request computes, oldest first: their windows of a month take 0.2 s."""
_FIRST_PERIOD = timedelta(days=1)
_MAX_WINDOW_LENGTH = timedelta(days=400)
"""More than any window takes: what starts before a time ends within this after it."""
_GROWTH = 8
"""How many times as long each period is as the one before, in which the next windows are looked for."""
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
"""Schedules begin on this day at the earliest (`rules.time.recurrence.EARLIEST`)."""
_MOMENT = timedelta(microseconds=1)

Position = tuple[datetime, str]
"""The place of an occurrence in a list: its start and its id."""


class LaterWindow(NamedTuple):
    """A window that is not stored."""

    schedule: Schedule
    window: Interval

    @property
    def id(self) -> str:
        """The id of its occurrence."""
        return occurrence_id(self.schedule.id, self.window.start)

    @property
    def position(self) -> Position:
        """Its place in lists by start."""
        return self.window.start, self.id

    def occurrence(self) -> Occurrence:
        """Return its row, outside of any session."""
        return later_occurrence(self.schedule, self.window)


def occurrence_id(schedule_id: str, starts_at: datetime) -> str:
    """Return the id of the occurrence of a schedule that starts at an instant."""
    return derive_id("occ", schedule_id, starts_at)


def later_occurrence(schedule: Schedule, window: Interval) -> Occurrence:
    """Return the row of a window, outside of any session."""
    return Occurrence(
        id=occurrence_id(schedule.id, window.start),
        organization_id=schedule.organization_id,
        schedule_id=schedule.id,
        starts_at=window.start,
        ends_at=window.end,
        skip_reason=None if window.is_real else "no_such_time",
        late=False,
    )


def window_at(schedule: Schedule, starts_at: datetime) -> Interval | None:
    """Return the window of a schedule, stored or not, that starts at an instant; None if it has none."""
    found = windows_of(schedule, starts_at - timedelta(seconds=1), starts_at)
    return next((one for one in found if one.start == starts_at), None)


def find_later(uow: UnitOfWork, schedule: Schedule, wanted: str) -> Occurrence | None:
    """Return the row of the later occurrence with an id, outside of any session; None if the schedule has none."""
    starts_at = instant_of(wanted, "occ", schedule.id)
    planned_until = schedule.planned_until if schedule.enabled else None
    if starts_at is None or planned_until is None or not planned_until < starts_at < uow.now + MAX_AHEAD:
        return None
    window = window_at(schedule, starts_at)
    return None if window is None else later_occurrence(schedule, window)


class LaterWindows:
    """The later windows of the organisation's schedules that meet conditions, until a time (exclusive).

    Schedules are read before the rows that a list shows: a window whose row is added in between is in both, and not in
    neither.
    """

    def __init__(self, uow: UnitOfWork, until: datetime, *conditions: ColumnElement[bool]) -> None:
        self._until = min(until, uow.now + MAX_AHEAD)
        query = (
            select(Schedule)
            .where(existing(uow.organization), Schedule.enabled, Schedule.planned_until < self._until, *conditions)
            .order_by(Schedule.id)
            .limit(MAX_SCHEDULES)
        )
        found = [(row, row.planned_until) for row in uow.session.scalars(query) if row.planned_until is not None]
        # Ids of one instant are in the same order at every instant (`rules.ids.derive_id`). In that order of schedules,
        # windows have to be sorted only by their start.
        self._plans = sorted(found, key=lambda plan: occurrence_id(plan[0].id, uow.now))
        self._stored: set[tuple[str, datetime]] = set()
        if found:
            first = min(planned_until for _, planned_until in found)
            rows = select(Occurrence.schedule_id, Occurrence.starts_at).where(
                Occurrence.organization_id == uow.organization,
                Occurrence.starts_at > first,
                Occurrence.starts_at < self._until,
            )
            self._stored = {(schedule_id, starts_at) for schedule_id, starts_at in uow.session.execute(rows)}

    def ending_after(self, since: datetime) -> list[LaterWindow]:
        """Return the windows that end after a time, in the order of their start and id."""
        return self._between(since, BEGINNING, self._until)

    def first(
        self, count: int, since: datetime, after: Position | None, last: datetime | None, *, only_real: bool
    ) -> list[LaterWindow]:
        """Return the first windows after a position that end after a time, and start until another at the latest.

        They are looked for in ever longer periods, so that one page of a list does not expand years.
        """
        found: list[LaterWindow] = []
        until = self._until if last is None else min(self._until, last + _MOMENT)
        since = min(since, until + _MAX_WINDOW_LENGTH)
        begin = min((planned_until for _, planned_until in self._plans), default=until)
        begin = begin if after is None else max(begin, after[0])
        length = max(since - begin, timedelta()) + _FIRST_PERIOD
        while begin < until and len(found) < count:
            end = min(begin + length, until)
            found += [
                one
                for one in self._between(since, begin, end)
                if (after is None or one.position > after) and (one.window.is_real or not only_real)
            ]
            begin, length = end, length * _GROWTH
        return found[:count]

    def unreal(self, since: datetime) -> list[LaterWindow]:
        """Return the windows without real time after a time, in the order of their start and id.

        They begin where clocks are put forward, so that the others need not be computed.
        """
        found = [
            LaterWindow(schedule, window)
            for schedule, planned_until in self._plans
            for gap in clock_gaps(ZoneInfo(schedule.timezone), max(planned_until, since), self._until)
            if (window := window_at(schedule, gap)) is not None and not window.is_real
        ]
        return sorted(filter(self._is_not_stored, found), key=lambda one: one.window.start)

    def _between(self, since: datetime, begin: datetime, end: datetime) -> list[LaterWindow]:
        """Return the windows that end after one time and start from another on, until a third (exclusive)."""
        before = begin - _MOMENT
        found = [
            LaterWindow(schedule, one)
            for schedule, planned_until in self._plans
            if planned_until < end
            for one in windows_of(schedule, max(since, planned_until, before), end)
            if max(planned_until, before) < one.start < end
        ]
        return sorted(filter(self._is_not_stored, found), key=lambda one: one.window.start)

    def _is_not_stored(self, one: LaterWindow) -> bool:
        return (one.schedule.id, one.window.start) not in self._stored
