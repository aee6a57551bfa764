"""Planning: the windows of a schedule as rows, 90 days ahead, and as ranges for 400 days, to detect overlaps.

The next two windows are rows in any case, however far away: one to show, skip or run now, and the one after it.

`plan` makes the rows agree with the schedule, and changes only the future. Invariants (I7):

- What has started, passed or been missed is not changed; neither is a skipped window, even while the schedule is
  disabled. A skipped window that is moved to another time of its day stays skipped.
- A window that is open now starts at once, unless it started or was skipped at another time of the same day; of several
  new open windows only the one that ends last starts.
- A window that no clock shows is a row too: skipped, `no_such_time`.
- After the 90 days only these two, and windows that people have skipped, are rows (`later_occurrences.py`).

The task `extend_plans` extends the 90 days once a day, and replans when the time zone data have changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from sqlalchemy import and_, cast, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import TSTZMULTIRANGE, Range

from models.organizations import Organization
from models.schedules import Occurrence, Schedule
from rules.time.wall_clock import Interval, local_time
from rules.time.zones import DATA_VERSION
from services.core.batch import for_each_in_organization
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.schedules import alerts
from services.schedules.cancelled_windows import record_cancelled
from services.schedules.later_occurrences import later_occurrence, occurrence_id, window_at
from services.schedules.terms import local_day, windows_of

HORIZON = timedelta(days=90)
LOOKAHEAD = timedelta(days=400)
"""How far ahead overlaps are detected."""
EXTENSION_INTERVAL = timedelta(days=1)
FAR = timedelta(days=3660)
"""How far ahead the next windows are looked for: the frequencies of a schedule recur within ten years."""
_COMING = 2
"""How many of the next windows are rows in any case."""
_GROWTH = 8
"""How many times as long each period is as the one before, in which the next windows are looked for."""
_TWO_DAYS = timedelta(days=2)
"""More than the same day of two time zones is apart."""
MAX_PLANNED = 200
"""Schedules planned per sweep; other work of the sweep waits for them."""


def plan(uow: UnitOfWork, schedule: Schedule, former_timezone: str | None = None) -> int:
    """Make the rows of a schedule agree with it; return how many have changed. The caller has it locked, or made it.

    One that is disabled has nothing planned. `former_timezone` is the zone in which its rows were planned, if another.
    """
    ahead = upcoming_windows(uow, schedule)
    schedule.windows = ranges(ahead) if schedule.enabled else None
    schedule.planned_until, schedule.planned_with = uow.now + HORIZON, DATA_VERSION
    uow.session.flush()
    near = [one for one in ahead if one.start <= schedule.planned_until]
    rows = _rows(uow, schedule, min((one.start for one in near), default=uow.now))
    rows = [*rows, *_moved_skips(uow, schedule, rows, ZoneInfo(former_timezone or schedule.timezone))]
    if schedule.enabled and any(row.skip_reason == "asked" for row in rows):
        schedule.windows = ranges(not_skipped(ahead, rows))
    wanted = {one.start: one for one in near if one.is_real or one.start > uow.now}
    changed, cancelled = 0, list[Occurrence]()
    for row in rows:
        window = wanted.pop(row.starts_at, None)
        if row.starts_at > schedule.planned_until:
            window = window_at(schedule, row.starts_at)
        if not _is_settled(row, uow.now):
            changed += _update_row(uow, row, window, cancelled, enabled=schedule.enabled)
    record_cancelled(uow, schedule, cancelled)
    if not schedule.enabled:
        return changed
    begun, to_start = _begun(rows, uow.now), set(windows_to_start(near, uow.now))
    again = {one for one in wanted.values() if any(_is_same_window(schedule, one, row) for row in begun)}
    new = [one for one in wanted.values() if one in to_start and one not in again]
    _insert(uow, schedule, new)
    opened = [one.start for one in new if one.start < uow.now]
    if opened:
        of = (Occurrence.schedule_id == schedule.id, Occurrence.starts_at.in_(opened))
        uow.session.execute(update(Occurrence).where(*of).values(due_at=uow.now))
    return changed + len(new) + plan_next(uow, schedule)


def plan_next(uow: UnitOfWork, schedule: Schedule) -> int:
    """Store the next windows of a planned, enabled schedule if they are after the 90 days; return how many it added."""
    uow.session.flush()
    begin = schedule.planned_until or uow.now
    of = (Occurrence.schedule_id == schedule.id, Occurrence.is_planned(uow.now), Occurrence.starts_at > uow.now)
    near = select(Occurrence.id).where(*of, Occurrence.starts_at <= begin).limit(_COMING)
    missing = _COMING - len(uow.session.scalars(near).all())
    if not missing:
        return 0
    later = (one for one in _later(schedule, begin, uow.now + FAR) if one.is_real)
    coming = list(islice(not_skipped(later, skipped_rows(uow, schedule.id)), missing))
    stored = set(uow.session.scalars(select(Occurrence.starts_at).where(*of, Occurrence.starts_at > begin)))
    new = [one for one in coming if one.start not in stored]
    _insert(uow, schedule, new)
    return len(new)


def _later(schedule: Schedule, begin: datetime, last: datetime) -> Iterator[Interval]:
    """Yield the windows that start after one time and until another, in order; looked for in ever longer periods."""
    length = HORIZON
    while begin < last:
        end = min(begin + length, last)
        yield from (one for one in windows_of(schedule, begin, end) if one.start > begin)
        begin, length = end, length * _GROWTH


def upcoming_windows(uow: UnitOfWork, schedule: Schedule) -> list[Interval]:
    """Return the windows of a schedule, stored or not, that are open now or start within 400 days."""
    return windows_of(schedule, uow.now, uow.now + LOOKAHEAD)


def windows_to_start(windows: Sequence[Interval], now: datetime) -> list[Interval]:
    """Return the future windows, and of the open ones the one that ends last.

    It covers what the others would: a schedule with windows of a year does not start hundreds of them at once.
    """
    last = max((one for one in windows if one.start <= now), key=lambda one: one.end, default=None)
    return [one for one in windows if one.start > now or one is last]


def exclude_skipped(uow: UnitOfWork, schedule: Schedule) -> None:
    """Exclude skipped windows from the ranges of a locked schedule, by which overlaps are detected."""
    schedule.windows = ranges(not_skipped(upcoming_windows(uow, schedule), skipped_rows(uow, schedule.id)))
    schedule.overlaps_checked_at = None


def skipped_rows(uow: UnitOfWork, schedule_id: str) -> Sequence[Occurrence]:
    """Return the manually skipped windows of a schedule that are not over."""
    skipped = (Occurrence.skip_reason == "asked", Occurrence.ends_at > uow.now)
    return uow.session.scalars(select(Occurrence).where(Occurrence.schedule_id == schedule_id, *skipped)).all()


def not_skipped(windows: Iterable[Interval], rows: Iterable[Occurrence]) -> Iterator[Interval]:
    """Yield the windows that were not skipped manually: a window that does not take place cannot overlap."""
    skipped = {row.starts_at for row in rows if row.skip_reason == "asked"}
    return (one for one in windows if one.start not in skipped)


def ranges(windows: Iterable[Interval]) -> list[Range[datetime]]:
    """Return windows as in `Schedule.windows`."""
    return [Range(one.start, one.end) for one in windows if one.is_real]


def _rows(uow: UnitOfWork, schedule: Schedule, earliest: datetime) -> Sequence[Occurrence]:
    """Return the rows that may change, locked; this waits for a window that is starting."""
    query = select(Occurrence).where(
        Occurrence.schedule_id == schedule.id, or_(Occurrence.starts_at >= earliest, Occurrence.ends_at > uow.now)
    )
    locking = query.order_by(Occurrence.starts_at).with_for_update().execution_options(populate_existing=True)
    return uow.session.scalars(locking).all()


def _moved_skips(
    uow: UnitOfWork, schedule: Schedule, rows: Sequence[Occurrence], former_zone: ZoneInfo
) -> Sequence[Occurrence]:
    """Add and return skipped windows at the new times of those that a person has skipped and that are moved."""
    moved = list[Occurrence]()
    for row in rows:
        if row.skip_reason != "asked" or row.starts_at <= uow.now or window_at(schedule, row.starts_at) is not None:
            continue
        day = local_time(row.starts_at, former_zone).date()
        for one in windows_of(schedule, max(row.starts_at - _TWO_DAYS, uow.now), row.starts_at + _TWO_DAYS):
            if one.is_real and local_day(schedule, one.start) == day:
                skipped = later_occurrence(schedule, one)
                skipped.skip_reason, skipped.skipped_by = "asked", row.skipped_by
                moved.append(skipped)
    uow.session.add_all(moved)
    return moved


def _is_settled(row: Occurrence, now: datetime) -> bool:
    """True if a row must not change: started, over, without targets, or skipped and open."""
    if row.started_at is not None or row.missed_at is not None or row.skip_reason == "no_targets":
        return True
    return row.starts_at <= now and (row.ends_at <= now or row.skip_reason is not None)


def _update_row(
    uow: UnitOfWork, row: Occurrence, window: Interval | None, cancelled: list[Occurrence], *, enabled: bool
) -> bool:
    """Make a row agree with the window that starts at the same time; True if it changed.

    A row without such a window is deleted, and added to `cancelled`. `enabled`: the schedule is.
    """
    skipped_by_person = row.skip_reason == "asked"
    if window is None or not (enabled or skipped_by_person) or (skipped_by_person and not window.is_real):
        uow.session.delete(row)
        cancelled.append(row)
        return True
    before = (row.ends_at, row.skip_reason)
    row.ends_at = window.end
    if not skipped_by_person:
        row.skip_reason = None if window.is_real else "no_such_time"
    if before != (row.ends_at, row.skip_reason):
        row.verified_at = None
        return True
    return False


def _begun(rows: Iterable[Occurrence], now: datetime) -> list[Occurrence]:
    """Return the rows that are not over and have started, or would have if they were not skipped."""
    skipped = {"asked", "no_targets"}
    return [
        row
        for row in rows
        if row.ends_at > now and (row.started_at is not None or (row.starts_at <= now and row.skip_reason in skipped))
    ]


def _is_same_window(schedule: Schedule, window: Interval, row: Occurrence) -> bool:
    """True if a window is the same as an occurrence before an edit: on the same day and overlapping it.

    If that has begun, the edited window does not start once more.
    """
    apart = window.end <= row.starts_at or row.ends_at <= window.start
    return not apart and local_day(schedule, window.start) == local_day(schedule, row.starts_at)


_INSERT = text("""
    INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at, skip_reason)
    SELECT new.id, :organization, :schedule, new.starts_at, new.ends_at,
        CASE WHEN new.starts_at = new.ends_at THEN 'no_such_time' END
    FROM unnest(CAST(:ids AS text[]), CAST(:starts AS timestamptz[]), CAST(:ends AS timestamptz[]))
        AS new (id, starts_at, ends_at)
    ON CONFLICT (schedule_id, starts_at) DO NOTHING
""")


def _insert(uow: UnitOfWork, schedule: Schedule, windows: Sequence[Interval]) -> None:
    """Insert up to a hundred rows in one statement, which is faster than row by row; skipped windows have theirs."""
    uow.session.flush()
    if windows:
        values = {
            "organization": schedule.organization_id,
            "schedule": schedule.id,
            "ids": [occurrence_id(schedule.id, one.start) for one in windows],
            "starts": [one.start for one in windows],
            "ends": [one.end for one in windows],
        }
        uow.session.execute(_INSERT, values)


def extend_plans(uow_factory: UnitOfWorkFactory) -> int:
    """Extend plans to 90 days, and replan those made with other time zone data.

    Each schedule has its own unit of work; return the number of planned schedules.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        waiting = or_(
            Schedule.planned_until.is_(None),
            Schedule.planned_until <= uow.now + HORIZON - EXTENSION_INTERVAL,
            Schedule.planned_with < DATA_VERSION,
            Schedule.planned_with > DATA_VERSION,
        )
        query = (
            select(Schedule.id, Schedule.organization_id)
            .join(Organization, Organization.id == Schedule.organization_id)
            .where(Schedule.is_running, Organization.deleted_at.is_(None), waiting)
            .order_by(Schedule.planned_until)
            .limit(MAX_PLANNED)
        )
        found = uow.session.execute(query).all()
    return for_each_in_organization(uow_factory, found, _extend_one)


def _extend_one(uow: UnitOfWork, schedule_id: str) -> bool:
    """Plan one schedule, unless it is locked by an edit, which plans it; audit changes by new time zone data."""
    locking = select(Schedule).where(Schedule.id == schedule_id, Schedule.is_running)
    schedule = uow.session.scalar(locking.with_for_update(key_share=True, skip_locked=True))
    if schedule is None:
        return False
    if schedule.planned_until is None:
        plan(uow, schedule)
    elif schedule.planned_until <= uow.now:
        _add_missed(uow, schedule, schedule.planned_until)
        plan(uow, schedule)
    elif schedule.planned_with == DATA_VERSION:
        _extend(uow, schedule, schedule.planned_until)
    else:
        _replan(uow, schedule, schedule.planned_until)
    return True


def _add_missed(uow: UnitOfWork, schedule: Schedule, until: datetime) -> None:
    """Add windows that started after the end of the plan while nothing extended it: they are late or missed."""
    began = windows_of(schedule, until, uow.now)
    _insert(uow, schedule, [one for one in began if one.start > until])


def _extend(uow: UnitOfWork, schedule: Schedule, until: datetime) -> None:
    """Add to rows and ranges what starts after the end of the plan; what is planned is still right."""
    horizon, seen = uow.now + HORIZON, until - HORIZON + LOOKAHEAD
    _insert(uow, schedule, [one for one in windows_of(schedule, until, horizon) if one.start > until])
    far = [one for one in windows_of(schedule, seen, uow.now + LOOKAHEAD) if one.start > seen]
    ahead = func.tstzmultirange(func.tstzrange(uow.now, None), type_=TSTZMULTIRANGE())
    more = cast(ranges(not_skipped(far, skipped_rows(uow, schedule.id))), TSTZMULTIRANGE())
    moved = {"windows": Schedule.windows.op("*")(ahead).op("+")(more), "planned_until": horizon}
    uow.session.execute(update(Schedule).where(Schedule.id == schedule.id).values(moved))
    plan_next(uow, schedule)


def _replan(uow: UnitOfWork, schedule: Schedule, until: datetime) -> None:
    """Replan what other time zone data had planned until a time, and audit the differences."""
    version, before = schedule.planned_with, _windows(uow, schedule, until)
    plan(uow, schedule)
    after = _windows(uow, schedule, until)
    if before != after:
        uow.audit(
            "schedule.replanned",
            alerts.subject(schedule),
            before={"timezoneData": version, "windows": before},
            after={"timezoneData": DATA_VERSION, "windows": after},
        )


def _windows(uow: UnitOfWork, schedule: Schedule, until: datetime) -> list[list[datetime]]:
    """Return the future windows until a time, for the audit log."""
    uow.session.flush()
    query = select(Occurrence.starts_at, Occurrence.ends_at).where(
        and_(Occurrence.schedule_id == schedule.id, Occurrence.starts_at > uow.now, Occurrence.starts_at <= until)
    )
    rows = uow.session.execute(query.order_by(Occurrence.starts_at))
    return [[start, end] for start, end in rows]
