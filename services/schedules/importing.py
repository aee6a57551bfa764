"""Importing calendars as schedules: each event, and each holiday, is a schedule that the next import finds again.

Importing again

- changes nothing where the calendar says the same as before, and what people changed by hand stays;
- changes a schedule where the calendar, or what the request says of scope, window or reason, has changed;
- makes no second schedule, also when a calendar was written anew with other UIDs;
- removes the schedule of an event that was cancelled. One that the file does not have any more stays: a file may be a
  part of a calendar. So do the days of a holiday in years that are not asked for.

The calendar is read before the transaction. A dry run does everything in a savepoint and takes it back, so that it
tells, and refuses, exactly what the import would.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import select

from integrations.calendars import holidays, ics
from integrations.calendars.found import WHOLE_DAY, CalendarError, Options, Reading
from models.organizations import Organization
from rules.access.organization_settings import OrganizationSettings
from rules.errors import Detail, ServiceError
from services.core.unit_of_work import UnitOfWork
from services.organizations.organizations import lock_current
from services.schedules.checking import check_terms
from services.schedules.matching import Entry, Import, Matching
from services.schedules.terms import window_of

MOST_SCHEDULES = 500
"""That one import takes."""
HARMLESS = frozenset({"past", "cancelled"})
"""Why an event is left out that has nothing wrong."""
MOST_TOLD = 100


def import_calendar(uow: UnitOfWork, wanted: Import) -> dict[str, Any]:
    """Make, change and remove schedules as a calendar says, and tell what became of each of its events.

    Raises what `check_terms` raises, `invalid_parameter` and `invalid_recurrence` for a calendar of which nothing can
    be used, `feature_not_available`, `schedule_overlap`.
    """
    reading = _read(uow, wanted)
    _refuse_useless(wanted, reading)
    organization, wakeups = lock_current(uow), set(uow.wakeups)
    savepoint = uow.session.begin_nested()
    entries = list(Matching(uow, wanted, reading).entries())
    counts = _counted(entries)
    if wanted.dry_run:
        savepoint.rollback()
        uow.wakeups = wakeups
        entries = [replace(entry, schedule_id=None) if entry.action == "created" else entry for entry in entries]
    else:
        savepoint.commit()
        _record(uow, wanted, organization, entries, counts)
    return {"dry_run": wanted.dry_run, "counts": counts, "data": entries}


def _read(uow: UnitOfWork, wanted: Import) -> Reading:
    """Check what the request says, and read the calendar while no transaction is open."""
    settings = uow.session.scalars(select(Organization.settings).where(Organization.id == uow.organization)).one()
    timezone = wanted.timezone or OrganizationSettings.from_json(settings).timezone
    given = {"scope": wanted.scope, "timezone": timezone, "window": wanted.window, "reason": wanted.reason}
    check_terms(uow, {name: value for name, value in given.items() if value is not None})
    window = window_of(wanted.window) if wanted.window else WHOLE_DAY
    options = Options(timezone, uow.now, window, wanted.day_before)
    with uow.outside_transaction():
        try:
            if wanted.format == "ics":
                return ics.read(wanted.content, options)
            place = (wanted.country, wanted.subdivision, wanted.years)
            return holidays.read(*place, options, observances=wanted.observances, together=wanted.together)
        except CalendarError as error:
            raise _invalid("/content", f"The calendar {error}.") from None
        except holidays.UnknownPlaceError as error:
            raise _invalid(f"/{error.field}", f"{error.field} {error.message}.") from None


def _invalid(path: str, message: str, code: str = "invalid_parameter") -> ServiceError:
    return ServiceError(code, message, details=(Detail(path, message, code),))


def _refuse_useless(wanted: Import, reading: Reading) -> None:
    """Refuse a calendar without an event, one all of whose events have something wrong, and one with too many."""
    path = "/content" if wanted.format == "ics" else "/years"
    if not reading.found and not reading.left_out:
        raise _invalid(path, "The calendar holds no event.")
    lasting = sum(not found.past for found in reading.found)
    if lasting > MOST_SCHEDULES:
        message = f"The calendar stands for {lasting} schedules; one import takes {MOST_SCHEDULES}."
        raise _invalid(path, message)
    bad = [item for item in reading.left_out if item.code not in HARMLESS]
    if bad and not reading.found and len(bad) == len(reading.left_out):
        code = "invalid_recurrence" if bad[0].code == "unsupported_recurrence" else "invalid_parameter"
        at = "/window" if wanted.format == "holidays" else path  # a holiday is left out only where it makes it too long
        rows = tuple(Detail(at, f"{item.name!r} {item.message}", code) for item in bad[:MOST_TOLD])
        raise ServiceError(code, f"Nothing of the calendar can be used: {rows[0].message}.", details=rows)


def _counted(entries: Iterable[Entry]) -> dict[str, int]:
    counts = dict.fromkeys(("created", "updated", "unchanged", "removed", "skipped"), 0)
    for entry in entries:
        counts[entry.action] += 1
    return counts


def _record(
    uow: UnitOfWork, wanted: Import, organization: Organization, entries: Iterable[Entry], counts: Mapping[str, int]
) -> None:
    """Tell the audit of an import that changed something as a whole; each schedule has an entry of its own."""
    changed = [entry.schedule_id for entry in entries if entry.action in {"created", "updated", "removed"}]
    if not changed:
        return
    place = {name: getattr(wanted, name) for name in ("country", "subdivision", "years")}
    uow.audit(
        "schedule.imported",
        ("organization", organization.id, organization.name),
        format=wanted.format,
        **(place if wanted.format == "holidays" else {}),
        scope=wanted.scope,
        counts=dict(counts),
        schedules=changed,
    )
