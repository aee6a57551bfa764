"""Previews: the next windows of a saved or drafted schedule, and the overlaps with other schedules."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from models.freezes import Freeze
from models.schedule_queries import with_freezes
from models.schedules import Occurrence, Schedule
from rules.errors import ServiceError, errors_of, field_error, merge_errors
from rules.time.wall_clock import Interval, local_time
from services.core.lookups import get_organization_settings, require_schedule
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import resolve
from services.schedules.later_occurrences import MAX_AHEAD, later_occurrence
from services.schedules.occurrence_views import state_of
from services.schedules.overlaps import NONE, Overlaps, overlaps_of
from services.schedules.plans import FAR, not_skipped, ranges, skipped_rows, upcoming_windows, windows_to_start
from services.schedules.preview_remarks import remarks_on
from services.schedules.terms import windows_of
from services.schedules.validation import check_terms
from services.schedules.views import get_schedule

_CHECKED = ("scope", "timezone", "recurrence", "window")


def preview_draft(uow: UnitOfWork, draft: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return the preview of a draft, with recurrence and window as they are stored; nothing is saved.

    Raise what `check_terms` raises, and `invalid_parameter` for the id of a schedule that there is not.
    """
    terms = {name: draft[name] for name in _CHECKED if name in draft}
    if errors := errors_of(partial(_check_schedule_id, uow, draft), partial(check_terms, uow, terms)):
        raise merge_errors(errors)
    schedule = Schedule(
        id=draft.get("schedule_id"),
        organization_id=uow.organization,
        scope=draft.get("scope"),
        timezone=draft.get("timezone") or get_organization_settings(uow).timezone,
        recurrence=draft["recurrence"],
        window=draft["window"],
    )
    return _preview(uow, schedule, limit, {}, stored=False)


def _check_schedule_id(uow: UnitOfWork, draft: Mapping[str, Any]) -> None:
    if "schedule_id" not in draft:
        return
    try:
        require_schedule(uow, draft["schedule_id"])
    except ServiceError as unknown:
        problem = "this organisation has no such schedule"
        raise field_error("/scheduleId", problem, message=unknown.message) from None


def preview_saved(uow: UnitOfWork, schedule_id: str, limit: int) -> dict[str, Any]:
    """Return the next windows of a schedule, including those not planned yet. Raise `schedule_not_found`.

    Of one that is not enabled, those that it would have.
    """
    saved = get_schedule(uow, schedule_id)
    rows = uow.session.execute(
        with_freezes().where(Occurrence.schedule_id == saved.id, Occurrence.ends_at > uow.now)
    ).all()
    copied = {name: getattr(saved, name) for name in ("id", "scope", "timezone", "recurrence", "window")}
    schedule = Schedule(organization_id=saved.organization_id, **copied)
    schedule.planned_until = saved.planned_until if saved.enabled else None
    known = {row.starts_at: (row, freeze) for row, freeze in sorted(rows, key=lambda row: row[0].starts_at)}
    return _preview(uow, schedule, limit, known, stored=True)


Rows = Mapping[datetime, tuple[Occurrence, Freeze | None]]


def _preview(uow: UnitOfWork, schedule: Schedule, limit: int, rows: Rows, *, stored: bool) -> dict[str, Any]:
    """Return the preview of a schedule outside any session; `rows` are its future occurrences by start.

    Where windows are planned, the stored occurrences are returned: one that started before an edit replaces the window
    of its day. One whose freeze was ended manually is over.
    """
    ahead: Sequence[Interval] = upcoming_windows(uow, schedule)
    schedule.windows = ranges(not_skipped(ahead, skipped_rows(uow, schedule.id) if schedule.id else ()))
    reached = None if schedule.scope is None else resolve(uow, schedule.scope, stored=stored).branches
    overlaps = NONE if reached is None else overlaps_of(uow, schedule, reached=reached)
    over = {start for start, (row, freeze) in rows.items() if state_of(row, freeze, uow.now) == "past"}
    if len(windows_to_start(ahead, uow.now)) - len(over) < limit:
        ahead = windows_of(schedule, uow.now, uow.now + FAR)
    until = schedule.planned_until
    if until is None:
        ahead = windows_to_start(ahead, uow.now)
    else:
        planned = [Interval(row.starts_at, row.ends_at) for row, _ in rows.values()]
        later = [one for one in ahead if one.start > until and one.start not in rows]
        ahead = sorted([*planned, *later], key=lambda one: one.start)
        shown = [one for one in later[:limit] if one.start < uow.now + MAX_AHEAD]
        rows = {**rows, **{one.start: (later_occurrence(schedule, one), None) for one in shown}}
    ahead = [one for one in ahead if one.start not in over]
    zone, branch_count = ZoneInfo(schedule.timezone), None if reached is None else len(reached)
    return {
        "timezone": schedule.timezone,
        "occurrences": [_occurrence(window, rows.get(window.start), zone, uow.now) for window in ahead[:limit]],
        "branch_count": branch_count,
        **_overlaps(overlaps),
        "remarks": list(remarks_on(uow, schedule, branch_count, has_windows=bool(ahead))),
    }


def _occurrence(
    window: Interval, known: tuple[Occurrence, Freeze | None] | None, zone: ZoneInfo, now: datetime
) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": None, "starts_at": window.start, "ends_at": window.end, "skip_reason": None}
    shown["state"] = "planned"
    if not window.is_real:
        shown |= {"state": "skipped", "skip_reason": "no_such_time"}
    if known is not None:
        row, freeze = known
        shown |= {"id": row.id, "ends_at": row.ends_at, "skip_reason": row.skip_reason}
        shown["state"] = state_of(row, freeze, now)
    return {**shown, **local(shown["starts_at"], shown["ends_at"], zone)}


def local(starts_at: datetime, ends_at: datetime, zone: ZoneInfo) -> dict[str, str]:
    """Return the local start and end of a window in a zone."""
    return {"local_start": local_time(starts_at, zone).isoformat(), "local_end": local_time(ends_at, zone).isoformat()}


def _overlaps(found: Overlaps) -> dict[str, Any]:
    named = [
        {
            "schedule_id": one.schedule_id,
            "schedule_name": one.schedule_name,
            "first_overlap_at": one.first_overlap_at,
            "allowed": one.allowed,
        }
        for one in found.named
    ]
    return {"overlaps": named, "overlap_count": found.count}
