"""Matching of calendar events with imported schedules: which event is which schedule, and what has changed.

An imported schedule keeps the identity of its event (`import_key`): the calendar's format, the event's UID or the
holiday's place and name, and the times of day if it has several. It also keeps a digest of what was imported.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Literal

import orjson
from sqlalchemy import func, select

from integrations.calendars.content import ImportedWindow, ParsedCalendar, listed, stored_recurrence
from models.schedule_queries import existing
from models.schedules import Schedule
from rules.access.entitlements import require_schedules
from services.core.unit_of_work import UnitOfWork
from services.schedules.changes import NewSchedule, camel_case, change, insert_checked
from services.schedules.deletion import delete_schedule

Format = Literal["ics", "holidays"]
Action = Literal["created", "updated", "unchanged", "removed", "skipped"]

_TERMS = ("name", "timezone", "recurrence", "window", "reason")
_IMPORTED = (*_TERMS, "scope", "exceptions_allowed", "allow_overlap")
_REASONS = {"ics": "Calendar", "holidays": "Holiday"}


@dataclass(frozen=True, slots=True)
class Import:
    """The input of an import; `window` as it is stored."""

    format: Format
    scope: dict[str, Any]
    content: str = ""
    country: str = ""
    subdivision: str | None = None
    years: list[int] = field(default_factory=list)
    observances: bool = False
    together: bool = False
    timezone: str | None = None
    """None means the time zone of the organisation's settings."""
    window: dict[str, Any] | None = None
    day_before: bool = False
    reason: str | None = None
    exceptions_allowed: bool = True
    allow_overlap: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """The result for one event: the contract's `ImportedEvent`."""

    action: Action
    uid: str
    name: str
    schedule_id: str | None = None
    terms: dict[str, Any] | None = None
    changed: list[str] = field(default_factory=list)
    before: dict[str, Any] | None = None
    code: str | None = None
    message: str | None = None


class Matching:
    """The schedules that calendars of one format were imported as. The caller has locked the organisation."""

    def __init__(self, uow: UnitOfWork, wanted: Import, reading: ParsedCalendar) -> None:
        self._unit = uow
        self._wanted = wanted
        self._reading = reading
        query = select(Schedule).where(existing(uow.organization), Schedule.import_key.startswith(f"{wanted.format}:"))
        rows = uow.session.scalars(query.order_by(Schedule.id).with_for_update(key_share=True)).all()
        uow.refresh_now()
        self._rows = {str(row.import_key): row for row in rows}
        keys = {self._key(found) for found in reading.found}
        self._adoptable = {row.import_digest: row for key, row in self._rows.items() if key not in keys}

    def entries(self) -> Iterator[Entry]:
        """Apply each event and yield its result; deletions come first, since they free quota.

        Raise `feature_not_available`, `schedule_overlap`.
        """
        yield from self._removals()
        pairs = [(found, self._row_of(found)) for found in self._reading.found]
        self._require_quota(sum(row is None and not found.past for found, row in pairs))
        for found, row in pairs:
            yield self._create(found) if row is None else self._update(found, row)
        for skipped in self._reading.skipped:
            if skipped.code != "cancelled" or not self._of_uid(skipped.uid):
                yield Entry("skipped", skipped.uid, skipped.name, code=skipped.code, message=skipped.message)

    def _require_quota(self, added: int) -> None:
        self._unit.session.flush()
        count = select(func.count()).select_from(Schedule).where(existing(self._unit.organization))
        require_schedules(self._unit.caller.plan, self._unit.session.scalar(count) or 0, added)

    def _removals(self) -> Iterator[Entry]:
        """Delete the schedules of cancelled events, and of times of day at which an event no longer takes place."""
        cancelled = {item.uid for item in self._reading.skipped if item.code == "cancelled"}
        keys = {self._key(found) for found in self._reading.found}
        for uid in sorted(cancelled):
            yield from (self._remove(uid, row, "cancelled", "is cancelled") for row in self._of_uid(uid))
        known = {found.uid for found in self._reading.found}
        over = {item.uid for item in self._reading.skipped if item.code == "past"}
        for uid in sorted(known | over):
            for row in self._of_uid(uid):
                if row.import_key not in keys and self._has_future_windows(row) and not self._days_of_other_years(row):
                    yield self._remove(uid, row, "moved", "no longer takes place at these times")

    def _has_future_windows(self, row: Schedule) -> bool:
        """True if a schedule is disabled or has windows that are not over."""
        return not row.enabled or any(window.upper > self._unit.now for window in row.windows or () if window.upper)

    def _remove(self, uid: str, row: Schedule, code: str, message: str) -> Entry:
        delete_schedule(self._unit, row.id, end_active=False)
        return Entry("removed", uid, row.name, row.id, before=_terms(row), code=code, message=message)

    def _of_uid(self, uid: str) -> list[Schedule]:
        key = f"{self._wanted.format}:{uid}"
        return [row for known, row in self._rows.items() if known == key or known.startswith(f"{key}\t")]

    def _key(self, found: ImportedWindow) -> str:
        return f"{self._wanted.format}:{found.uid}" + (f"\t{found.part}" if found.part else "")

    def _row_of(self, found: ImportedWindow) -> Schedule | None:
        """Return the schedule of an event, or None; an event with a new UID is recognised by its digest."""
        row = self._rows.get(self._key(found))
        if row is None:
            row = self._adoptable.pop(_digest(self._new(found)), None)
        return row if row is not None and row.deleted_at is None else None

    def _new(self, found: ImportedWindow) -> NewSchedule:
        wanted = self._wanted
        return NewSchedule(
            name=found.name,
            scope=wanted.scope,
            recurrence=found.recurrence,
            window=found.window,
            reason=(wanted.reason or f"{_REASONS[wanted.format]}: {found.name}").strip(),
            timezone=found.timezone,
            exceptions_allowed=wanted.exceptions_allowed,
            allow_overlap=wanted.allow_overlap,
            source="import",
            import_key=self._key(found),
        )

    def _create(self, found: ImportedWindow) -> Entry:
        if found.past:
            return Entry("skipped", found.uid, found.name, code="past", message="is over")
        new = self._new(found)
        made = insert_checked(self._unit, replace(new, import_digest=_digest(new)), found.timezone)
        code, message = _cut(found)
        return Entry("created", found.uid, made.name, made.id, _terms(made), code=code, message=message)

    def _update(self, found: ImportedWindow, row: Schedule) -> Entry:
        others = self._days_of_other_years(row)
        kept = others if self._starts_alike(found, row) else []
        new = self._new(replace(found, recurrence=_with_days(found.recurrence, kept)))
        code, message = _cut(found) if kept or not others else self._lost_days(found, others)
        changes = {name: getattr(new, name) for name in _IMPORTED}
        changed = [camel_case(name) for name, value in changes.items() if value != _value_of(row, name)]
        digest = _digest(new)
        if row.import_digest == digest or not changed:
            row.import_key, row.import_digest = new.import_key, digest
            return Entry("unchanged", found.uid, row.name, row.id, _terms(row), code=code, message=message)
        before = _terms(row)
        change(self._unit, row, {**changes, "import_digest": digest, "import_key": new.import_key})
        return Entry("updated", found.uid, row.name, row.id, _terms(row), changed, before, code, message)

    def _starts_alike(self, found: ImportedWindow, row: Schedule) -> bool:
        """True if the windows of a schedule start like those of the event, not for example one of them the day before.

        They do if it has the same window, or had it when it was imported and it was changed by hand since.
        """
        before = self._new(replace(found, recurrence=row.recurrence))
        return row.wall_clock_window == found.window or row.import_digest == _digest(before)

    def _lost_days(self, found: ImportedWindow, others: list[date]) -> tuple[str | None, str | None]:
        """Return code and message for days of other years that are dropped."""
        years = sorted({str(day.year) for day in others if day >= self._unit.now.date()})
        if not years:
            return _cut(found)
        return "cut", f"no longer has days of {', '.join(years)}, which had another window; request those years too"

    def _days_of_other_years(self, row: Schedule) -> list[date]:
        if self._wanted.format != "holidays":
            return []
        shift = timedelta(days=int(self._wanted.day_before))
        return [day for day in _days(row.recurrence) if (day + shift).year not in self._wanted.years]


def _with_days(recurrence: dict[str, Any], others: list[date]) -> dict[str, Any]:
    """Return a stored recurrence that lists its days, with other days added."""
    return stored_recurrence(listed([*others, *_days(recurrence)])[0]) if others else recurrence


def _days(recurrence: Mapping[str, Any]) -> list[date]:
    """Return the days of a stored recurrence that lists its days."""
    texts = recurrence.get("dates") or ([recurrence["start_date"]] if recurrence["frequency"] == "once" else [])
    return [date.fromisoformat(text) for text in texts]


def _value_of(row: Schedule, name: str) -> Any:
    return row.wall_clock_window if name == "window" else getattr(row, name)


def _terms(row: Schedule) -> dict[str, Any]:
    """Return the terms of a schedule, without its scope, which is the same in all of an import and may be long."""
    return {name: _value_of(row, name) for name in _TERMS}


def _digest(new: NewSchedule) -> str:
    values = {name: getattr(new, name) for name in _IMPORTED}
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _cut(found: ImportedWindow) -> tuple[str | None, str | None]:
    """Return code and message for an event with more days than a schedule can list."""
    if not found.cut:
        return None, None
    return "cut", f"has more days than a schedule can list; import it again before {found.recurrence['dates'][-1]}"
