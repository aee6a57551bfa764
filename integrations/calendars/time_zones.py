"""The IANA time zones of a calendar's times.

Programs name zones in their own way (Windows' names, paths that end with an IANA name, display names), and define them
in the file by rules (VTIMEZONE; RFC 5545, 3.6.5). A name that is not IANA's becomes the zone that the request maps it
to, or else a zone whose offsets from UTC are those of the definition in the years that matter: the zone that the name
means, or the first of the others. A name without a definition becomes the zone that it means, by Unicode's table of
Windows' names (CLDR, in icalendar). Times in other zones stay without a zone, and make their event unusable.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import chain, islice
from typing import Any
from zoneinfo import ZoneInfo

from icalendar import Calendar, Component, Event
from icalendar.prop import vDDDLists, vDDDTypes, vRecur
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from integrations.calendars.content import Options
from rules.errors import ServiceError
from rules.time.recurrence import EARLIEST, MAX_INTERVAL, Recurrence, check, days
from rules.time.zones import zone_names

YEARS_AHEAD = 5
"""Years after this one in which the offsets of a zone have to agree with its definition."""
MAX_ONSETS = 1_000
"""Changes of the offset in a definition, of which a zone has about two a year."""
TIMES = ("DTSTART", "DTEND", "RECURRENCE-ID", "RDATE", "EXDATE")
"""The properties of events that have times."""

PREFERRED_ZONES = (
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "Europe/Helsinki",
    "Europe/Istanbul",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Phoenix",
    "America/Los_Angeles",
    "America/Anchorage",
    "America/Halifax",
    "America/St_Johns",
    "America/Mexico_City",
    "America/Bogota",
    "America/Santiago",
    "America/Sao_Paulo",
    "Africa/Lagos",
    "Africa/Johannesburg",
    "Africa/Nairobi",
    "Asia/Jerusalem",
    "Asia/Dubai",
    "Asia/Karachi",
    "Asia/Kolkata",
    "Asia/Dhaka",
    "Asia/Bangkok",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Adelaide",
    "Australia/Brisbane",
    "Australia/Sydney",
    "Pacific/Auckland",
    "Pacific/Honolulu",
)
"""Zones that are preferred to others with the same offsets."""

_AREAS = frozenset(
    ["Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"]
)
_FIRST_YEAR = 1600
"""A leap year before all time zones. Programs write years from 1 on."""
_RULE_PARTS = frozenset({"FREQ", "INTERVAL", "UNTIL", "BYDAY", "BYMONTH", "BYMONTHDAY", "BYSETPOS", "WKST"})
_FIRST, _LAST = datetime(1900, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001
_WEEK = timedelta(weeks=1)
_SECOND = timedelta(seconds=1)

Span = tuple[datetime, datetime]
"""First and last instant, in naive UTC."""


def clean_name(tzid: object) -> str:
    """Return the name of a zone as files and requests are compared by it."""
    return str(tzid or "").strip()[:200]


@dataclass(frozen=True, slots=True)
class Definition:
    """The offsets from UTC that a VTIMEZONE defines; `offsets[0]` is that before all onsets. Instants are naive UTC."""

    onsets: tuple[datetime, ...]
    offsets: tuple[timedelta, ...]

    def offset_at(self, instant: datetime) -> timedelta:
        """Return the offset at an instant."""
        return self.offsets[bisect_right(self.onsets, instant)]

    def instant_of(self, local: datetime) -> datetime:
        """Return the instant of a local time."""
        return local - self.offset_at(local - self.offset_at(local))

    def samples(self, span: Span) -> list[tuple[datetime, timedelta]]:
        """Return instants of a span with their offsets: one a week, and those around each onset."""
        first, last = span
        weeks = (first + week * _WEEK for week in range((last - first) // _WEEK + 1))
        within = [onset for onset in self.onsets if first < onset <= last]
        instants = chain(weeks, (last,), within, (onset - _SECOND for onset in within))
        return [(instant.replace(tzinfo=UTC), self.offset_at(instant)) for instant in instants]


class TimeZones:
    """The time zones of one calendar."""

    def __init__(self, calendar: Calendar, options: Options) -> None:
        self._options = options
        self._mapped = {clean_name(name): zone for name, zone in options.timezones.items()}
        self._components: dict[str, Component] = {}
        for component in calendar.subcomponents:
            if component.name == "VTIMEZONE":
                self._components.setdefault(clean_name(component.get("TZID")), component)
        self._definitions: dict[str, Definition | None] = {}
        self._found: dict[tuple[str, Span, bool], str | None] = {}
        declared = clean_name(calendar.get("X-WR-TIMEZONE"))
        self._declared = self._mapped.get(declared) or next(_meant(declared), None)
        """The zone of the calendar's times that are in UTC or without a zone."""

    def apply(self, event: Event) -> None:
        """Set the zone of an event's times. Those in an unknown zone, and those out of range, stay as they are.

        The times of a single event whose zone is defined, but is no IANA zone, are instants.
        """
        extent = _extent(event)
        for tzid, value in list(_times(event)):
            with suppress(OverflowError):
                if isinstance(value.dt, tuple):
                    value.dt = tuple(self._placed(each, tzid, extent) for each in value.dt)
                else:
                    value.dt = self._placed(value.dt, tzid, extent)

    def _placed(self, moment: Any, tzid: str, extent: "Extent") -> Any:
        """Return a time in its zone; days and lengths are returned unchanged."""
        if not isinstance(moment, datetime):
            return moment
        if not tzid:
            if self._declared is None:
                return moment
            zone = _loaded(self._declared)
            return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)
        local = moment.replace(tzinfo=None)
        name = self._zone(tzid, extent)
        if name is not None:
            return local.replace(tzinfo=_loaded(name))
        definition = self.definition_of(tzid)
        if definition is None or extent.repeats:
            return local
        return definition.instant_of(local).replace(tzinfo=_loaded("UTC"))

    def _zone(self, tzid: str, extent: "Extent") -> str | None:
        """Return the IANA zone that a name is in an event, or None."""
        if tzid in self._mapped:
            return self._mapped[tzid]
        if tzid in zone_names():
            return tzid
        definition = self.definition_of(tzid)
        if definition is None:
            return next(_meant(tzid), None)
        own, ahead = self._spans(extent, definition)
        return self._agreeing(tzid, own, is_meant=True) or self._agreeing(tzid, ahead, is_meant=False)

    def _agreeing(self, tzid: str, span: Span, *, is_meant: bool) -> str | None:
        """Return the first zone that agrees with a definition in a span, of those that its name means or of others."""
        key = (tzid, span, is_meant)
        definition = self.definition_of(tzid)
        if definition is not None and key not in self._found:
            names = self._meant(tzid) if is_meant else self._others(tzid)
            self._found[key] = _first_with(definition.samples(span), names)
        return self._found.get(key)

    def _meant(self, tzid: str) -> Iterator[str]:
        yield from _meant(tzid)
        yield from _meant(clean_name(self._components[tzid].get("X-LIC-LOCATION")))

    def _others(self, tzid: str) -> Iterator[str]:
        yield self._options.timezone
        if self._declared is not None:
            yield self._declared
        yield from _cities_in(tzid)
        yield from PREFERRED_ZONES
        yield from _all_zones()

    def definition_of(self, tzid: str) -> Definition | None:
        """Return what the file defines a name as; None if it does not, or if that cannot be read."""
        if tzid not in self._definitions:
            component, year = self._components.get(tzid), self._options.now.year
            found = None if component is None else _definition(component, year - 1, year + YEARS_AHEAD + 1)
            self._definitions[tzid] = found
        return self._definitions[tzid]

    def _spans(self, extent: "Extent", definition: Definition) -> tuple[Span, Span]:
        """Return the time of an event, and all time from its start on, within the years in which offsets matter.

        Both begin with the month of the start, so that few different ones have to be compared.
        """
        year = self._options.now.year
        first, final, last = (datetime(year + years, 1, 1) for years in (0, YEARS_AHEAD, YEARS_AHEAD + 1))  # noqa: DTZ001
        start = min(max(definition.instant_of(extent.start), first), final)
        since = start.replace(day=1, hour=0, minute=0, second=0)
        until = min(max(definition.instant_of(extent.end), since), last)
        return (since, until), (since, last)


@dataclass(frozen=True, slots=True)
class Extent:
    """The local times of the start of an event, and of its end after all repetitions."""

    start: datetime
    end: datetime
    repeats: bool


def _extent(event: Event) -> Extent:
    """Return the extent of an event; what cannot be read has no bounds."""
    values = (event.get(name) for name in ("DTSTART", "DTEND"))
    start, end = (_local(value.dt) if isinstance(value, vDDDTypes) else None for value in values)
    rule: Any = event.get("RRULE")
    repeats = rule is not None or "RDATE" in event
    if repeats:
        ends = isinstance(rule, vRecur) and "RDATE" not in event
        end = _local(next(iter(rule.get("UNTIL", ())), None)) if ends else None
    elif end is None:
        end = start
    return Extent(start or _FIRST, end or _LAST, repeats)


def _local(moment: Any) -> datetime | None:
    """Return a local time without its zone, within the range that can be computed with."""
    return min(max(moment.replace(tzinfo=None), _FIRST), _LAST) if isinstance(moment, datetime) else None


def _times(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield the times, days and periods of an event, each with the name of its zone."""
    for name in TIMES:
        found: Any = event.get(name)
        for value in found if isinstance(found, list) else [found]:
            if isinstance(value, vDDDTypes | vDDDLists):
                tzid = clean_name(value.params.get("TZID"))
                yield from ((tzid, item) for item in value.dts)


def unknown_zone(event: Event) -> str | None:
    """Return the name of an unknown zone of an event's times; None if there is none."""
    for tzid, value in _times(event):
        moments = value.dt if isinstance(value.dt, tuple) else (value.dt,)
        if tzid and any(isinstance(moment, datetime) and moment.tzinfo is None for moment in moments):
            return tzid
    return None


def _first_with(samples: Sequence[tuple[datetime, timedelta]], names: Iterable[str]) -> str | None:
    """Return the first zone that has these offsets."""
    for name in names:
        zone = _loaded(name)
        if all(instant.astimezone(zone).utcoffset() == offset for instant, offset in samples):
            return name
    return None


_loaded = cache(ZoneInfo)
"""`ZoneInfo` itself keeps eight zones."""


def _meant(tzid: str) -> Iterator[str]:
    """Yield the zones that a name means: by Windows' names, or by the IANA name with which it ends."""
    if tzid in WINDOWS_TO_OLSON:
        yield WINDOWS_TO_OLSON[tzid]
    parts = tzid.split("/")
    for first in range(len(parts)):
        name = "/".join(parts[first:]).lower()
        if name in _by_lower_case():
            yield _by_lower_case()[name]


def _cities_in(tzid: str) -> list[str]:
    """Return the zones whose city a name contains, in their order in it: `(UTC+01:00) Amsterdam, Berlin`."""
    text = tzid.lower()
    found = ((text.find(zone.rpartition("/")[2].replace("_", " ").lower()), zone) for zone in _all_zones())
    return [zone for position, zone in sorted(found) if position >= 0 and _is_place(zone)]


@cache
def _by_lower_case() -> dict[str, str]:
    return {name.lower(): name for name in zone_names()}


@cache
def _all_zones() -> tuple[str, ...]:
    """Return all zones, those of places first."""
    return tuple(sorted(zone_names(), key=lambda name: (not _is_place(name), name)))


def _is_place(zone: str) -> bool:
    return zone.partition("/")[0] in _AREAS


def _definition(component: Component, first_year: int, last_year: int) -> Definition | None:
    """Return the offsets of a VTIMEZONE within some years; None if it cannot be read."""
    onsets: list[tuple[datetime, timedelta, timedelta]] = []
    try:
        part: Any
        for part in component.subcomponents:
            if part.name in {"STANDARD", "DAYLIGHT"}:
                before, after = part["TZOFFSETFROM"].td, part["TZOFFSETTO"].td
                onsets += ((local - before, after, before) for local in _onsets(part, before, first_year, last_year))
    except (ServiceError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    if not 0 < len(onsets) <= MAX_ONSETS:
        return None
    onsets.sort()
    offsets = (onsets[0][2], *(after for _instant, after, _before in onsets))
    return Definition(tuple(instant for instant, _after, _before in onsets), offsets)


def _onsets(part: Any, before: timedelta, first_year: int, last_year: int) -> Iterator[datetime]:
    """Yield the local times at which an offset begins, those of a rule within some years or the last ones before."""
    written = _naive(part["DTSTART"].dt)
    start = written.replace(year=max(written.year, _FIRST_YEAR))
    yield start
    listed = part.get("RDATE", [])
    for value in listed if isinstance(listed, list) else [listed]:
        yield from (_naive(item.dt) for item in value.dts)
    rule = part.get("RRULE")
    if rule is None:
        return
    last = datetime(last_year, 12, 31)  # noqa: DTZ001
    until = next(iter(rule.get("UNTIL", ())), last)
    if until.year <= last_year:
        is_utc = isinstance(until, datetime) and until.tzinfo is not None
        last = min(last, _naive(until) + before if is_utc else _naive(until))
    recurrence = _recurrence(rule, start, min(first_year, last.year) - 1)
    found = list(islice(days(recurrence, recurrence.start_date, last.date()), MAX_ONSETS + 1))
    if len(found) > MAX_ONSETS:
        raise ValueError("not the rule of a time zone")
    onsets = (datetime.combine(day, start.time()) for day in found)
    yield from (onset for onset in onsets if start <= onset <= last)


def _recurrence(rule: Any, start: datetime, year: int) -> Recurrence:
    """Return the rule of an offset, from a year on. Raise ValueError if it is not one that time zones have."""
    interval = rule.get("INTERVAL", [1])[0]
    if rule.get("FREQ") != ["YEARLY"] or set(rule) - _RULE_PARTS or not 1 <= interval <= MAX_INTERVAL:
        raise ValueError("not the rule of a time zone")
    by_month_day = rule.get("BYMONTHDAY", () if "BYDAY" in rule else (start.day,))
    skipped = max(year - start.year, 0)
    recurrence = Recurrence(
        "yearly",
        date(start.year + skipped - skipped % interval, 1, 1),
        interval,
        tuple(map(str, rule.get("BYDAY", ()))),
        tuple(by_month_day),
        tuple(rule.get("BYMONTH", (start.month,))),
        by_set_position=tuple(rule.get("BYSETPOS", ())),
    )
    check(replace(recurrence, start_date=EARLIEST))
    return recurrence


def _naive(moment: Any) -> datetime:
    """Return a day or time as a local time."""
    return moment.replace(tzinfo=None) if isinstance(moment, datetime) else datetime.combine(moment, time())
