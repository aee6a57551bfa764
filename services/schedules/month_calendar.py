"""The calendar of a month: occurrences by day, in a time zone; later ones are computed."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Integer, Subquery, Text, and_, bindparam, func, literal, select, true, union_all
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP, aggregate_order_by
from sqlalchemy.orm import aliased

from models.freezes import Freeze
from models.queries import any_of
from models.schedules import Occurrence, Schedule
from rules.time.wall_clock import first_instant
from rules.time.zones import check_zone
from services.core.unit_of_work import UnitOfWork
from services.schedules.later_occurrences import LaterWindow, LaterWindows
from services.schedules.occurrence_views import occurrence_columns, occurrence_view
from services.schedules.occurrences import touching
from services.schedules.previews import local
from services.schedules.schedule_filters import NO_FILTERS, ScheduleFilters, matching_schedules, one_of

MAX_PER_DAY = 20
"""Occurrences listed per day; all are counted."""
MAX_ATTEMPTS = 3
"""Attempts to read, if rows change meanwhile."""
_MOMENT = timedelta(microseconds=1)

Boundaries = Mapping[str, Sequence[datetime]]
"""By time zone, the start of each day of the month, and the end of the last one."""


def calendar_of(
    uow: UnitOfWork,
    month: str,
    timezone: str | None,
    filters: ScheduleFilters = NO_FILTERS,
    *,
    whole_weeks: bool = False,
) -> dict[str, Any]:
    """Return the days of a month (`2026-12`), each with the occurrences that touch it.

    With `whole_weeks`, the days that complete its weeks, from Monday on, come before and after them.
    Days are those of the given time zone, or else of each schedule's own. Deleted schedules are included.
    Raise `invalid_timezone`, `schedule_not_found`, `repository_not_found`.
    """
    if timezone is not None:
        check_zone(timezone, "timezone")
    schedule_ids = matching_schedules(uow, filters)
    days = _days(month, whole_weeks=whole_weeks)
    zones = [timezone] if timezone is not None else _zones(uow)
    boundaries = {zone: _day_boundaries(days, ZoneInfo(zone)) for zone in zones}
    later = _later(uow, boundaries, timezone, schedule_ids)
    by_day, views = _read_occurrences(uow, boundaries, timezone, schedule_ids)
    found: dict[date, dict[str, Any]] = {day: {"date": day, "count": 0, "occurrences": []} for day in days}
    for number, count, ids in by_day:
        found[days[number - 1]] |= {"count": count, "occurrences": [views[one] for one in ids if one in views]}
    for number, windows in later.items():
        day = found[days[number - 1]]
        both = [*day["occurrences"], *(_view(one, timezone, uow.now) for one in windows[:MAX_PER_DAY])]
        both.sort(key=lambda one: (one["starts_at"], one["id"]))
        day |= {"count": day["count"] + len(windows), "occurrences": both[:MAX_PER_DAY]}
    return {"month": month, "timezone": timezone, "days": list(found.values())}


def _later(
    uow: UnitOfWork,
    boundaries: Boundaries,
    timezone: str | None,
    schedule_ids: Sequence[str] | None,
) -> dict[int, list[LaterWindow]]:
    """Return the windows that are not stored, by the numbers of the days that they touch, in order."""
    touched: dict[int, list[LaterWindow]] = defaultdict(list)
    if not boundaries:
        return touched
    since, until = min(each[0] for each in boundaries.values()), max(each[-1] for each in boundaries.values())
    for one in LaterWindows(uow, until, *one_of(Schedule.id, schedule_ids)).ending_after(since):
        days = boundaries.get(timezone or one.schedule.timezone, ())  # a zone may be new since they were read
        last_moment = max(one.window.end - _MOMENT, one.window.start)
        for number in range(max(bisect(days, one.window.start), 1), min(bisect(days, last_moment), len(days) - 1) + 1):
            touched[number].append(one)
    return touched


def _days(month: str, *, whole_weeks: bool) -> list[date]:
    first = date.fromisoformat(f"{month}-01")
    end = (first + timedelta(days=31)).replace(day=1)
    if whole_weeks:
        first, end = first - timedelta(days=first.weekday()), end + timedelta(days=-end.weekday() % 7)
    return [first + timedelta(days=number) for number in range((end - first).days)]


def _zones(uow: UnitOfWork) -> Sequence[str]:
    query = select(Schedule.timezone).where(Schedule.organization_id == uow.organization).distinct()
    return uow.session.scalars(query).all()


def _day_boundaries(days: Sequence[date], zone: ZoneInfo) -> list[datetime]:
    """Return the start of each day, and the end of the last one."""
    ends = [*days, days[-1] + timedelta(days=1)]
    return [first_instant(datetime.combine(day, time()), zone) for day in ends]


def _read_occurrences(
    uow: UnitOfWork,
    boundaries: Boundaries,
    timezone: str | None,
    schedule_ids: Sequence[str] | None,
) -> tuple[Sequence[tuple[int, int, Sequence[str]]], dict[str, dict[str, Any]]]:
    """Return the results of `_ids_by_day` and of `_views_by_id` for it.

    An edit may replace occurrences between the two; then both are read again.
    """
    for _ in range(MAX_ATTEMPTS):
        by_day = _ids_by_day(uow, boundaries, timezone, schedule_ids)
        wanted = {occurrence_id for _, _, ids in by_day for occurrence_id in ids}
        views = _views_by_id(uow, wanted, timezone)
        if views.keys() == wanted:
            break
    return by_day, views


def _ids_by_day(
    uow: UnitOfWork,
    boundaries: Boundaries,
    timezone: str | None,
    schedule_ids: Sequence[str] | None,
) -> Sequence[tuple[int, int, list[str]]]:
    """Return for each touched day its number, the number of occurrences, and the ids of the first of them.

    The database sorts occurrences into days, since a month may have a hundred thousand of them.
    """
    if not boundaries:
        return ()
    zones = _as_rows(boundaries)
    since, until = min(each[0] for each in boundaries.values()), max(each[-1] for each in boundaries.values())
    last_moment = func.greatest(Occurrence.ends_at - _MOMENT, Occurrence.starts_at)
    first = func.greatest(func.width_bucket(Occurrence.starts_at, zones.c.boundaries), 1)
    last = func.width_bucket(last_moment, zones.c.boundaries)
    # A slice of the days there are: of a series of numbers the database expects a thousand for each occurrence.
    touched = (
        select(func.unnest(zones.c.days[first:last]).label("day"), Occurrence.starts_at, Occurrence.id)
        .join(zones, true())
        .where(*touching(uow, since, until))
    )
    if timezone is None:
        touched = touched.join(Schedule, and_(Schedule.id == Occurrence.schedule_id, Schedule.timezone == zones.c.zone))
    touched = touched.where(*one_of(Occurrence.schedule_id, schedule_ids))
    each = touched.subquery().c
    # Many begin at once: bytes are compared faster than letters, and ids are of one kind.
    ids = func.array_agg(aggregate_order_by(each.id, each.starts_at, each.id.collate("C")), type_=ARRAY(Text))
    query = select(each.day, func.count(), ids[1:MAX_PER_DAY]).group_by(each.day)
    return [(number, total, first_ids) for number, total, first_ids in uow.session.execute(query)]


def _as_rows(boundaries: Boundaries) -> Subquery:
    """Return rows of a zone, the boundaries of its days, and the numbers of its days.

    Not as `VALUES`: SQLAlchemy would compile the whole query again for each request.
    """
    each = (
        select(
            literal(zone).label("zone"),
            literal(list(days), ARRAY(TIMESTAMP(timezone=True))).label("boundaries"),
            literal(list(range(1, len(days))), ARRAY(Integer)).label("days"),
        )
        for zone, days in boundaries.items()
    )
    return union_all(*each).subquery("zones")


_WANTED = func.unnest(bindparam("ids", type_=ARRAY(Text))).table_valued("id").render_derived("wanted")
# Each is looked up separately: for hundreds of ids the planner would prefer to scan the whole table.
_FOUND = select(Occurrence).where(Occurrence.id == _WANTED.c.id).limit(1).lateral("found")
_SHOWN = (
    select(*occurrence_columns(aliased(Occurrence, _FOUND), Freeze))
    .select_from(_WANTED)
    .join(_FOUND, true())
    .outerjoin(Freeze, Freeze.id == _FOUND.c.freeze_id)
)
"""The occurrences `:ids`. Without their schedules: joined, few of them would be scanned once for each occurrence."""


def _views_by_id(uow: UnitOfWork, ids: set[str], timezone: str | None) -> dict[str, dict[str, Any]]:
    """Return occurrences as shown in a calendar, by id."""
    found = uow.session.execute(_SHOWN, {"ids": list(ids), "now": uow.now})
    names = found.keys()
    occurrences = [dict(zip(names, row, strict=True)) for row in found]  # a third of the time of `_asdict`
    named = select(Schedule.id, Schedule.name, Schedule.timezone).where(
        Schedule.id == any_of({one["schedule_id"] for one in occurrences})
    )
    schedules = {row.id: (row.name, timezone or row.timezone) for row in uow.session.execute(named)}
    return {
        one["id"]: _in_calendar(one, *schedules[one["schedule_id"]])
        for one in occurrences
        if one["schedule_id"] in schedules
    }


def _view(one: LaterWindow, timezone: str | None, now: datetime) -> dict[str, Any]:
    """Return a window that is not stored as shown in a calendar."""
    shown = occurrence_view(one.occurrence(), None, now)
    return _in_calendar(shown, one.schedule.name, timezone or one.schedule.timezone)


def _in_calendar(occurrence: dict[str, Any], name: str, timezone: str) -> dict[str, Any]:
    """Return an occurrence of the contract as a calendar shows it: with its schedule and in local time."""
    times = local(occurrence["starts_at"], occurrence["ends_at"], ZoneInfo(timezone))
    return {**occurrence, **times, "schedule_name": name, "timezone": timezone}
