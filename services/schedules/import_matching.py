"""Matching of calendar events with imported schedules: which event is which schedule, and what has changed.

An imported schedule keeps the identity of its event (`import_key`): the calendar's format, a digest of the scope, the
event's UID or the holiday's place and name, and the times of day if it has several. So a calendar that is imported with
another scope has other schedules. A schedule that a person deleted keeps its key: imports do not create it again.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import select
from sqlalchemy.orm import undefer

from integrations.calendars.content import ImportedWindow, ParsedCalendar
from models.billing import schedule_count
from models.schedules import Schedule
from rules.billing.plans import require_room
from rules.contract_names import camel_case
from rules.errors import ServiceError
from rules.time.windows import are_over
from services.core.unit_of_work import UnitOfWork
from services.schedules import import_merging as merging
from services.schedules.changes import NewSchedule, is_equal
from services.schedules.import_writes import RehearsedWrites, StoredWrites, Writes
from services.schedules.manual_runs import lock_freezes_in_force
from services.schedules.terms import is_over, recurrence_of, window_of

Format = Literal["ics", "holidays"]
Action = Literal["created", "updated", "unchanged", "removed", "missing", "skipped", "refused"]

_MISSING = "is no longer in the calendar"
_SHOWN = ("name", "timezone", "recurrence", "window", "reason")
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
    timezones: dict[str, str] = field(default_factory=dict)
    """The IANA zones of names of zones in the file."""
    window: dict[str, Any] | None = None
    day_before: bool = False
    reason: str | None = None
    exceptions_allowed: bool = True
    allow_overlap: bool = True
    remove_missing: bool = False
    restore_deleted: bool = False
    apply_to_active: bool = False
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
    edited: list[str] = field(default_factory=list)
    before: dict[str, Any] | None = None
    code: str | None = None
    message: str | None = None
    active_freeze: dict[str, Any] | None = None


class Matching:
    """The schedules that calendars of one format were imported as with one scope, and the events of a calendar.

    The caller has locked the organisation, but not in a dry run: that works on copies, and locks and writes nothing.
    `scope` is the normalized scope of the import.
    """

    def __init__(self, uow: UnitOfWork, wanted: Import, scope: Mapping[str, Any], parsed: ParsedCalendar) -> None:
        self._uow = uow
        self._wanted = wanted
        self._parsed = parsed
        self._prefix = f"{wanted.format}:{_digest(scope)}:"
        query = select(Schedule).where(Schedule.organization_id == uow.organization)
        query = query.where(Schedule.import_key.startswith(self._prefix)).order_by(Schedule.id)
        query = query.options(undefer(Schedule.imported), undefer(Schedule.windows))
        query = query if wanted.dry_run else query.with_for_update(key_share=True)
        rows = uow.session.scalars(query).all()
        uow.refresh_now()
        if wanted.dry_run:
            self._writes: Writes = RehearsedWrites(uow)
            for row in rows:
                uow.session.expunge(row)
        else:
            self._writes = StoredWrites(uow, apply_to_active=wanted.apply_to_active)
            if wanted.apply_to_active:
                lock_freezes_in_force(uow, rows)
        self._rows = {str(row.import_key): row for row in rows}
        self._taking_place = {found.uid for found in parsed.found} | self._skipped_with("past")
        self._uids = self._taking_place | {item.uid for item in parsed.skipped}
        self._years = merging.Years(wanted.years, self._year_of)
        self._adoptable = self._rows_without_event()
        self.removed_keys: dict[str, str] = {}
        """The keys that deleted schedules had, by their ids."""

    def entries(self) -> Iterator[Entry]:
        """Apply each event and yield its result; what is removed or missing comes first, since deletions free quota.

        Raise `feature_not_available`, and `schedule_overlap` if it is for real.
        """
        pairs = [(found, self._row_of(found)) for found in self._parsed.found]
        ended = list(self._endings({row.id for _, row in pairs if row is not None}))
        yield from ended
        self._require_quota(sum(row is None and not found.past for found, row in pairs))
        for found, row in pairs:
            if row is None:
                yield self._create(found)
            elif row.deleted_at is not None:
                yield self._leave_out(found, row)
            else:
                yield self._update(found, row)
        cancelled = {entry.uid for entry in ended if entry.code == "cancelled"}
        for skipped in self._parsed.skipped:
            if skipped.code != "cancelled" or skipped.uid not in cancelled:
                yield Entry("skipped", skipped.uid, skipped.name, code=skipped.code, message=skipped.message)

    def _require_quota(self, added: int) -> None:
        self._uow.session.flush()
        counted = self._uow.session.scalar(schedule_count(self._uow.organization)) or 0
        require_room(self._uow.plan, "schedules", counted - self._writes.uncounted, added)

    def _skipped_with(self, code: str) -> set[str]:
        return {item.uid for item in self._parsed.skipped if item.code == code}

    def _key(self, found: ImportedWindow) -> str:
        return f"{self._prefix}{found.uid}" + (f"\t{found.part}" if found.part else "")

    def _uid(self, row: Schedule) -> str:
        return str(row.import_key).removeprefix(self._prefix).partition("\t")[0]

    def _rows_without_event(self) -> dict[str, list[Schedule]]:
        """Return this calendar's schedules whose UID is not in a file, by what was imported: it may have new UIDs.

        Of equal ones the deleted come first. A holiday has no other identity than its place and name.
        """
        if self._wanted.format == "holidays":
            return {}
        found: dict[str, list[Schedule]] = {}
        for row in sorted(self._rows.values(), key=lambda row: row.deleted_at is None):
            if row.imported is not None and self._uid(row) not in self._uids and self._is_of_this_calendar(row):
                found.setdefault(_identity(row.imported), []).append(row)
        return found

    def _row_of(self, found: ImportedWindow) -> Schedule | None:
        """Return the schedule of an event, or None; a deleted one only if it is not to be restored."""
        row = self._rows.get(self._key(found))
        if row is None:
            equal = self._adoptable.get(_identity(merging.terms_of(self._new(found))))
            row = equal.pop() if equal else None
        if row is not None and row.deleted_at is not None and self._wanted.restore_deleted and not found.past:
            row.import_key = None
            return None
        return row

    def _endings(self, matched: set[str]) -> Iterator[Entry]:
        """Yield the results for schedules without an event in the calendar.

        They are deleted if their event is cancelled or no longer takes place at their times, and on request if it has
        left the calendar. What is over is no longer compared.
        """
        cancelled = self._skipped_with("cancelled")
        rows = [row for row in self._rows.values() if row.deleted_at is None and row.id not in matched]
        for row in sorted(rows, key=self._uid):
            uid = self._uid(row)
            if uid in cancelled:
                yield self._remove(row, "cancelled", "is cancelled")
            elif uid in self._taking_place:
                if self._is_coming(row):
                    yield self._remove(row, "moved", "no longer takes place at these times")
            elif uid not in self._uids and self._is_requested(row) and self._is_coming(row):
                if self._wanted.remove_missing:
                    yield self._remove(row, "missing", _MISSING)
                else:
                    yield Entry("missing", uid, row.name, row.id, _shown(row), code="missing", message=_MISSING)

    def _is_requested(self, row: Schedule) -> bool:
        """True if the calendar would have the event of a schedule: not that of another calendar, place or kind."""
        if self._wanted.format == "ics":
            return self._is_of_this_calendar(row)
        kinds = ("public", "observance") if self._wanted.observances else ("public",)
        return self._uid(row).startswith(tuple(f"{self._parsed.uid_prefix}{kind}/" for kind in kinds))

    def _is_of_this_calendar(self, row: Schedule) -> bool:
        """True if a schedule is of a file of the same name; files without a name count as one calendar."""
        return (row.imported or {}).get("calendar") == (self._parsed.name or None)

    def _is_coming(self, row: Schedule) -> bool:
        """True if a schedule has windows that are not over; of holidays, if days of requested years are not over."""
        requested, others = self._years.split(_imported_recurrence(row))
        if self._wanted.format == "ics" or not (others or requested):
            return not is_over(row, self._uow.now)
        if not requested or (others and not merging.lists_days(row.recurrence)):
            return False
        days = recurrence_of(merging.with_days(row.recurrence, requested))
        return not are_over(days, window_of(row.window), ZoneInfo(row.timezone), self._uow.now)

    def _remove(self, row: Schedule, code: str, message: str) -> Entry:
        """Delete a schedule, or of a holiday only the days of requested years if it has others."""
        uid, before = self._uid(row), _shown(row)
        remaining = self._years.split(row.recurrence)[1] if self._days_of_other_years(row) else []
        if remaining:
            imported = merging.with_days(row.recurrence, self._days_of_other_years(row))
            row.imported = row.imported and {**row.imported, "recurrence": imported}
            self._writes.change(row, {"recurrence": merging.with_days(row.recurrence, remaining)})
            return Entry("updated", uid, row.name, row.id, _shown(row), ["recurrence"], [], before, code, message)
        self._writes.delete(row)
        self.removed_keys[row.id] = str(row.import_key)
        row.import_key = None
        return Entry("removed", uid, row.name, row.id, before=before, code=code, message=message)

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
        made = self._writes.insert(replace(new, imported=self._stored(merging.terms_of(new))), found.timezone)
        if self._writes.refusal is not None:
            return Entry("refused", found.uid, made.name, None, _shown(made), **_refused(self._writes.refusal))
        code, message = _remark(found)
        return Entry("created", found.uid, made.name, made.id, _shown(made), code=code, message=message)

    def _leave_out(self, found: ImportedWindow, deleted: Schedule) -> Entry:
        deleted.import_key = self._key(found)
        if found.past:
            return Entry("skipped", found.uid, found.name, code="past", message="is over")
        message = "was deleted by hand; restoreDeleted imports it again"
        return Entry("skipped", found.uid, found.name, code="deleted", message=message)

    def _update(self, found: ImportedWindow, row: Schedule) -> Entry:
        now, imported, before = merging.terms_of(row), row.imported, _shown(row)
        others = self._days_of_other_years(row)
        alike = found.window in (now["window"], imported and imported["window"])
        days = [*others, *merging.listed_days(found.recurrence)] if others and alike else []
        new = merging.terms_of(self._new(replace(found, recurrence=merging.with_days(found.recurrence, days))))
        changes = merging.changes(now, imported, new, default_reason=self._wanted.reason is None)
        if self._wanted.format == "holidays" and alike and merging.lists_days(row.recurrence):
            base = imported and imported["recurrence"]
            changes["recurrence"] = merging.merged_days(row.recurrence, base, found.recurrence, self._years)
        changed = [camel_case(name) for name, value in changes.items() if not is_equal(name, value, now[name])]
        self._writes.change(row, {**changes, "imported": self._stored(new), "import_key": self._key(found)})
        edited = [camel_case(name) for name in merging.edited(merging.terms_of(row), new)]
        code, message = _remark(found) if alike or "recurrence" not in changed else self._lost_days(found, others)
        shown = (found.uid, row.name, row.id, _shown(row))
        if self._writes.refusal is not None:
            return Entry("refused", *shown, changed, edited, before, **_refused(self._writes.refusal))
        if not changed:
            return Entry("unchanged", *shown, [], edited, None, code, message)
        return Entry("updated", *shown, changed, edited, before, code, message)

    def _stored(self, terms: dict[str, Any]) -> dict[str, Any]:
        """Return what is stored of an import: the terms, and the name of the calendar."""
        return {**terms, "calendar": self._parsed.name} if self._parsed.name else terms

    def _lost_days(self, found: ImportedWindow, others: list[date]) -> tuple[str | None, str | None]:
        """Return code and message for days of other years that are dropped."""
        years = sorted({str(day.year) for day in others if day >= self._uow.now.date()})
        if not years:
            return _remark(found)
        return "cut", f"no longer has days of {', '.join(years)}, which had another window; request those years too"

    def _year_of(self, day: date) -> int:
        return (day + timedelta(days=int(self._wanted.day_before))).year

    def _days_of_other_years(self, row: Schedule) -> list[date]:
        """Return the days of a holiday that were imported for years that are not requested now."""
        return self._years.split(_imported_recurrence(row))[1] if self._wanted.format == "holidays" else []


def _imported_recurrence(row: Schedule) -> dict[str, Any]:
    """Return the recurrence as it was imported; as it is if that is not known."""
    recurrence: dict[str, Any] = row.imported["recurrence"] if row.imported is not None else row.recurrence
    return recurrence


def _shown(row: Schedule) -> dict[str, Any]:
    """Return the terms of a schedule, without its scope, which is the same in all of an import and may be long."""
    terms = merging.terms_of(row)
    return {name: terms[name] for name in _SHOWN}


def _identity(imported: merging.Terms) -> str:
    """Return what events with equal terms have in common."""
    return _digest({name: imported[name] for name in merging.IMPORTED})


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _refused(error: ServiceError) -> dict[str, Any]:
    """Return code and message for an event that the import would refuse."""
    first, *others = error.details
    return {"code": error.code, "message": first.message + (f", and with {len(others)} more" if others else "")}


def _remark(found: ImportedWindow) -> tuple[str | None, str | None]:
    """Return code and message for an event with more days than a schedule can list, or with estimated days."""
    if found.cut:
        last = found.recurrence.get("dates", [found.recurrence["start_date"]])[-1]
        return "cut", f"has more days than a schedule can list; import it again before {last}"
    if found.estimated:
        days = ", ".join(found.estimated)
        return "estimated", f"has estimated days ({days}), which may change; import it again when they are known"
    return None, None
