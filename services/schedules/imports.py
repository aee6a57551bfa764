"""Import of calendars as schedules: each event or holiday becomes a schedule that the next import recognises.

A repeated import with the same scope

- changes the terms that the calendar, or the request, has changed, and keeps manual changes of all others;
- creates no duplicates, also if the calendar was exported with new UIDs;
- deletes the schedule of a cancelled event;
- reports schedules whose event is missing from the calendar, and deletes them only on request (`removeMissing`), as a
  file may hold a part of a calendar. Days of a holiday in years that were not requested are not missing;
- does not create again what people have deleted, except on request (`restoreDeleted`).

The calendar is read before the transaction. A dry run works on copies in memory, and reports what the import would do,
without a lock that others wait for. An overlap, for which the import is rejected, is the result of its event there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, get_args

from integrations.calendars import holidays, ics
from integrations.calendars.content import WHOLE_DAY, CalendarError, Options, ParsedCalendar
from models.organizations import Organization
from rules.errors import Detail, ServiceError, field_error
from rules.time.zones import check_zone
from services.core.lookups import get_organization_settings
from services.core.unit_of_work import UnitOfWork
from services.freezes.scope_names import named_scope
from services.freezes.scopes import normalize
from services.organizations.organizations import lock_current
from services.schedules.check_texts import refresh_all_texts
from services.schedules.import_matching import Action, Entry, Import, Matching
from services.schedules.terms import window_of
from services.schedules.validation import check_terms
from services.schedules.views import active_freezes

MAX_SCHEDULES = 500
"""Schedules of one import."""
HARMLESS = frozenset({"past", "cancelled"})
"""Reasons for skipping an event that is not invalid."""
CODES = {"unsupported_recurrence": "invalid_recurrence", "unknown_timezone": "invalid_timezone"}
"""Error codes of reasons for skipping all events, if not `invalid_parameter`."""
PATHS = {"unknown_timezone": "/timezones"}
"""What in the request can correct these."""
MAX_REPORTED = 100


def import_calendar(uow: UnitOfWork, wanted: Import) -> dict[str, Any]:
    """Create, change and delete schedules according to a calendar, and report the result for each event.

    Raise the errors of `check_terms`, `invalid_parameter` and `invalid_recurrence` if no event is usable,
    `feature_not_available`, `schedule_overlap`.
    """
    scope, parsed = _read(uow, wanted)
    _require_usable(wanted, parsed)
    organization = None if wanted.dry_run else lock_current(uow)
    matching = Matching(uow, wanted, scope, parsed)
    entries, import_id = list(matching.entries()), None
    counts = _count(entries)
    if organization is None:
        entries = [replace(entry, schedule_id=None) if entry.action == "created" else entry for entry in entries]
    else:
        if any(counts[action] for action in ("created", "updated", "removed")):
            refresh_all_texts(uow)
        import_id = _audit(uow, wanted, organization, entries, counts, matching.removed_keys)
    ids = [entry.schedule_id for entry in entries if entry.schedule_id is not None]
    in_force = active_freezes(uow, ids)
    entries = [replace(entry, active_freeze=in_force.get(entry.schedule_id or "")) for entry in entries]
    whole_country = wanted.format == "holidays" and wanted.subdivision is None
    subdivisions = holidays.subdivisions_of(wanted.country) if whole_country else []
    result = {"dry_run": wanted.dry_run, "import_id": import_id, "counts": counts}
    return {**result, "data": entries, "subdivisions": subdivisions}


def _read(uow: UnitOfWork, wanted: Import) -> tuple[dict[str, Any], ParsedCalendar]:
    """Validate the request, and read the calendar without an open transaction; return the normalized scope too."""
    timezone = wanted.timezone or get_organization_settings(uow).timezone
    given = {"scope": wanted.scope, "timezone": timezone, "window": wanted.window, "reason": wanted.reason}
    check_terms(uow, {name: value for name, value in given.items() if value is not None})
    scope = normalize(uow, wanted.scope)
    for name, zone in wanted.timezones.items():
        check_zone(zone, "/timezones/" + name[:200].replace("~", "~0").replace("/", "~1"))
    window = window_of(wanted.window) if wanted.window else WHOLE_DAY
    options = Options(timezone, uow.now, window, wanted.day_before, wanted.timezones)
    with uow.outside_transaction():
        try:
            if wanted.format == "ics":
                return scope, ics.read(wanted.content, options)
            place = (wanted.country, wanted.subdivision, wanted.years)
            return scope, holidays.read(*place, options, observances=wanted.observances, together=wanted.together)
        except CalendarError as error:
            raise _unusable("/content", f"The calendar {error}.") from None
        except holidays.UnknownPlaceError as error:
            raise _unusable(f"/{error.field}", f"{error.field} {error.message}.") from None


def _unusable(path: str, message: str) -> ServiceError:
    return field_error(path, message, message=message)


def _require_usable(wanted: Import, parsed: ParsedCalendar) -> None:
    """Raise if a calendar has no event, no valid event, or too many."""
    path = "/content" if wanted.format == "ics" else "/years"
    if not parsed.found and not parsed.skipped:
        raise _unusable(path, "The calendar contains no events.")
    lasting = sum(not found.past for found in parsed.found)
    if lasting > MAX_SCHEDULES:
        message = f"The calendar contains {lasting} schedules. One import can have at most {MAX_SCHEDULES}."
        raise _unusable(path, message)
    bad = [item for item in parsed.skipped if item.code not in HARMLESS]
    if bad and not parsed.found and len(bad) == len(parsed.skipped):
        # A holiday is skipped only if the window makes it too long.
        usual = "/window" if wanted.format == "holidays" else path
        rows = tuple(
            Detail(
                PATHS.get(item.code, usual), f"{item.name!r} {item.message}", CODES.get(item.code, "invalid_parameter")
            )
            for item in bad[:MAX_REPORTED]
        )
        message = f"No event of the calendar can be imported: {rows[0].message}."
        raise ServiceError(str(rows[0].code), message, details=rows)


def _count(entries: Iterable[Entry]) -> dict[str, int]:
    counts = dict.fromkeys(get_args(Action), 0)
    for entry in entries:
        counts[entry.action] += 1
    return counts


def _audit(
    uow: UnitOfWork,
    wanted: Import,
    organization: Organization,
    entries: Iterable[Entry],
    counts: Mapping[str, int],
    removed_keys: Mapping[str, str],
) -> str | None:
    """Audit an import that changed something, as a whole, and return its id; each schedule has an entry of its own."""
    changed = [entry.schedule_id for entry in entries if entry.action in {"created", "updated", "removed"}]
    if not changed:
        return None
    place = {name: getattr(wanted, name) for name in ("country", "subdivision", "years")}
    return uow.audit(
        "schedule.imported",
        ("organization", organization.id, organization.name),
        format=wanted.format,
        **(place if wanted.format == "holidays" else {}),
        scope=named_scope(uow, wanted.scope),
        counts=dict(counts),
        schedules=changed,
        **({"importKeys": removed_keys} if removed_keys else {}),
    )
