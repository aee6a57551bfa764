"""The events of one UID as windows: by their rule if a recurrence expresses it, otherwise as a list of days.

RFC 5545: the events of a UID are one recurring event. The one without RECURRENCE-ID is its core, the others change
single instances (3.8.4.4); EXDATE and RDATE remove and add instances (3.8.5); a cancelled core cancels all of them
(3.8.1.11). Removed and changed instances are exceptions of the recurrence; days that do not follow from the rule are
lists of their own. The library recurring-ical-events finds them, and expands what no recurrence expresses.

Times are local times of the event's zone, which is an IANA zone (`time_zones`); those without a zone are in the
schedules' zone. The *shape* of an occurrence is the `Window` of its local times; occurrences of one shape can be
windows of one schedule. Expanded days lie between the start of this year and the end of the fifth year after it, so
that parsing the same calendar again in the same year has the same result.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

import recurring_ical_events
from icalendar import Calendar, Event

from integrations.calendars.content import (
    ImportedWindow,
    Options,
    SkippedEvent,
    first_day,
    list_days,
    name_from,
    part_of,
    stored_recurrence,
    stored_window,
)
from integrations.calendars.day_before import one_day_earlier
from integrations.calendars.event_zones import EventZone
from integrations.calendars.rules import UnusableError, from_earliest, translate
from integrations.calendars.spans import Moment, span_of
from rules.time.recurrence import EARLIEST, LATEST, MAX_DATES, MAX_EXCEPT_DATES, Recurrence, days
from rules.time.wall_clock import Window

MAX_OCCURRENCES = 5_000
"""Of one event, within the expanded years."""
MAX_EXCEPTIONS = 5_000
YEARS_AHEAD = 5
END_OF_MONTH = "end of month"
"""The part of an event whose windows start on the day before the first of a month."""
_FAR = datetime(2099, 12, 31)  # noqa: DTZ001 - gets the zone of the compared value
_DAY = timedelta(days=1)


class Series:
    """The events of one UID."""

    def __init__(self, uid: str, events: Sequence[Event], options: Options) -> None:
        cores = [event for event in events if "RECURRENCE-ID" not in event]
        self.uid = uid
        self.core = max(cores or events, key=_sequence)
        self.name = name_from(_text(self.core, "SUMMARY"))
        self.unrelated_events = sum(_sequence(core) == _sequence(self.core) for core in cores if core is not self.core)
        """Number of other events with the same UID that are not part of the series."""
        self._changes = [event for event in events if event is not self.core and "RECURRENCE-ID" in event]
        self._options = options

    @property
    def is_cancelled(self) -> bool:
        """True if the whole series is cancelled."""
        return "RECURRENCE-ID" not in self.core and _is_cancelled(self.core)

    def windows(self) -> Iterator[ImportedWindow | SkippedEvent]:
        """Yield the windows of the series, and what is left out of it.

        Raise UnusableError, and the errors of the libraries for malformed input.
        """
        start, end = span_of(self.core)
        zone = EventZone(self._options, self._zone_name(start))
        self._check()
        usual = zone.shape(start, end)[1]
        rule = self._rule(start, zone)
        if rule is not None:
            yield from self._by_rule(rule, start, usual, zone)
            return
        by_shape = yield from self._days_by_shape(self._all_occurrences(start, end), zone)
        yield from self._lists(by_shape, usual, zone, cut=self._goes_on)

    def _rule(self, start: Moment, zone: EventZone) -> Recurrence | None:
        """Return the recurrence of the rule, of whose days `start` need not be one.

        None if there is no rule, if no recurrence expresses it, or if an instance takes all later ones along.
        """
        rule: Any = self.core.get("RRULE")
        changed: list[Any] = [event["RECURRENCE-ID"] for event in self._changes]
        if rule is None or any("RANGE" in moment.params for moment in changed):
            return None
        begins = zone.local_time(start)
        if isinstance(begins, datetime):
            return translate(rule, begins.date(), begins.time(), zone.info)
        return translate(rule, begins, None, zone.info)

    def _by_rule(
        self, rule: Recurrence, start: Moment, usual: Window, zone: EventZone
    ) -> Iterator[ImportedWindow | SkippedEvent]:
        """Yield the windows of a rule as a recurrence, and those of other days or times as lists.

        All are one list if the rule has an end and other days have the same times, or if no recurrence expresses it.
        Lists beside a rule that goes on are left out when they are over.
        """
        shift = start - first_day(self._options, start) if not isinstance(start, datetime) else timedelta()
        by_shape = yield from self._days_by_shape(self._beside_rule(rule, start, zone), zone)
        alike = {day + shift for day in by_shape.pop(usual, ())}
        left_out = _days_of(rule, self._excepted(start, zone)) - alike
        extra = alike - _days_of(rule, alike)
        recurrences = self._recurrences(rule, left_out, usual, shift)
        ends = next(days(rule, self._expanded_to.date() + _DAY, LATEST), None) is None
        if not recurrences or (extra and ends):
            listing = extra | self._days_in_expanded_years(rule, usual) - left_out
            if not recurrences or len(listing) <= MAX_DATES:
                by_shape[usual] = {day - shift for day in listing}
                yield from self._lists(by_shape, usual, zone, cut=not ends)
                return
        parts = zip(recurrences, ("", END_OF_MONTH), strict=False)
        rules = [self._window(recurrence, usual, zone, part) for recurrence, part in parts]
        yield from rules
        if extra:
            by_shape[usual] = {day - shift for day in extra}
        for shape in sorted(by_shape, key=part_of):
            others, cut = list_days(by_shape[shape])
            window = self._window(others, shape, zone, part_of(shape), cut=cut)
            if not window.past or all(found.past for found in rules):
                yield window

    def _days_in_expanded_years(self, rule: Recurrence, window: Window) -> set[date]:
        """Return the days of a rule whose windows end after the start of the expanded years and start within them."""
        found = days(rule, self._expanded_from.date() - timedelta(days=window.days), self._expanded_to.date())
        return {day for day in found if window.on(day)[1] > self._expanded_from}

    def _beside_rule(self, rule: Recurrence, start: Moment, zone: EventZone) -> Iterator[tuple[Moment, Moment]]:
        """Yield the occurrences that do not follow from the rule, and those of its days whose times are not changed."""
        begins = zone.local_time(start)
        first = begins.date() if isinstance(begins, datetime) else begins
        if not self._changes and "RDATE" not in self.core and _days_of(rule, {first}):
            return
        core = self.core.copy()
        del core["RRULE"]
        yield from self._occurrences(core, _FAR)

    def _excepted(self, start: Moment, zone: EventZone) -> set[date]:
        """Return the days of instances that are removed or changed."""
        removed: Any = self.core.get("EXDATE", [])
        changed: list[Any] = [event["RECURRENCE-ID"] for event in self._changes]
        lists = removed if isinstance(removed, list) else [removed]
        moments = [moment.dt for moment in [*(moment for found in lists for moment in found.dts), *changed]]
        return {day for moment in moments if (day := zone.day_of_instance(moment, start)) is not None}

    def _recurrences(
        self, rule: Recurrence, left_out: set[date], usual: Window, shift: timedelta
    ) -> Sequence[Recurrence]:
        """Return the recurrences of schedules that have the days of a rule but some; none if there are no such ones."""
        if len(left_out) > MAX_EXCEPT_DATES:
            oldest = self._expanded_from.date() - timedelta(days=usual.days + 1)
            left_out = {day for day in left_out if day >= oldest}
        if len(left_out) > MAX_EXCEPT_DATES:
            return []
        restricted = replace(rule, except_dates=tuple(sorted(left_out)))
        moved = one_day_earlier(restricted) if shift else [restricted]
        usable = [found for one in moved if (found := from_earliest(one)) is not None]
        return [one for one in usable if next(days(one, one.start_date, LATEST), None)]

    def _days_by_shape(
        self, occurrences: Iterable[tuple[Moment, Moment]], zone: EventZone
    ) -> Generator[SkippedEvent, None, dict[Window, set[date]]]:
        """Return the days of occurrences by their times; yield those without a length."""
        found: dict[Window, set[date]] = {}
        for begins, over in occurrences:
            if begins == over:
                when = f"{zone.local_time(begins):%Y-%m-%d}"
                yield SkippedEvent(self.uid, self.name, "no_length", f"ends when it starts on {when}")
                continue
            day, shape = zone.shape(begins, over)
            if EARLIEST <= day < LATEST:
                found.setdefault(shape, set()).add(day)
        return found

    def _lists(
        self, by_shape: Mapping[Window, set[date]], usual: Window, zone: EventZone, *, cut: bool
    ) -> Iterator[ImportedWindow]:
        """Yield windows that list their days; `cut` says that there are later days, at the times of the last one."""
        found = {shape: listing for shape, listing in by_shape.items() if listing}
        if not found:
            raise UnusableError(
                "past", f"does not take place from {self._expanded_from.date()} to {self._expanded_to.date()}"
            )
        first, last = _usual(found, usual), max(found, key=lambda shape: max(found[shape]))
        for shape in sorted(found, key=lambda shape: (shape != first, part_of(shape))):
            recurrence, is_too_long = list_days(found[shape])
            part = "" if shape == first else part_of(shape)
            yield self._window(recurrence, shape, zone, part, cut=is_too_long or (cut and shape == last))

    def _check(self) -> None:
        """Raise UnusableError for what would take long to expand, or what the library interprets differently."""
        rule: Any = self.core.get("RRULE")
        if isinstance(rule, list) or any("EXRULE" in event for event in (self.core, *self._changes)):
            raise UnusableError("unsupported_recurrence", "has several rules")
        if any("RRULE" in event for event in self._changes):
            raise UnusableError("unsupported_recurrence", "has a rule in the change of a single instance")
        if sum(_count_listed(self.core.get(name)) for name in ("EXDATE", "RDATE")) > MAX_EXCEPTIONS:
            raise UnusableError("unsupported_recurrence", f"lists more than {MAX_EXCEPTIONS} days")
        for event in self._changes:
            span_of(event)

    def _all_occurrences(self, start: Moment, end: Moment) -> Iterator[tuple[Moment, Moment]]:
        """Yield start and end of all occurrences in the expanded years; all of them if there is no rule."""
        if "RRULE" in self.core:
            yield from self._occurrences(self.core, self._expanded_to)
        elif self._changes or "RDATE" in self.core:
            yield from self._occurrences(self.core, _FAR)
        else:
            yield start, end

    def _occurrences(self, core: Event, until: datetime) -> Iterator[tuple[Moment, Moment]]:
        """Yield start and end of the occurrences of an event, with its changes, from the start of this year on."""
        calendar = Calendar()
        calendar.subcomponents = [core, *self._changes]
        for series in recurring_ical_events.of(calendar).series:
            for occurrence in islice(series.between(self._expanded_from, until), MAX_OCCURRENCES):
                shown = occurrence.as_component(keep_recurrence_attributes=False) if self._changes else None
                if not _is_cancelled(shown):
                    yield occurrence.start, occurrence.end

    @property
    def _goes_on(self) -> bool:
        """True if the rule has no end, or has occurrences in the years after the expanded ones."""
        rule: Any = self.core.get("RRULE")
        if rule is None:
            return False
        if "COUNT" not in rule and "UNTIL" not in rule:
            return True
        later = self._expanded_to.replace(year=self._expanded_to.year + YEARS_AHEAD)
        return any(begins.year > self._expanded_to.year for begins, _over in self._occurrences(self.core, later))

    @property
    def _expanded_from(self) -> datetime:
        """The start of the expanded years."""
        return datetime(self._options.now.year, 1, 1)  # noqa: DTZ001 - gets the zone of the compared value

    @property
    def _expanded_to(self) -> datetime:
        """The end of the expanded years."""
        return datetime(self._options.now.year + YEARS_AHEAD, 12, 31, 23, 59)  # noqa: DTZ001 - gets the zone of the compared value

    def _zone_name(self, start: Moment) -> str:
        """Return the event's zone. A single event in UTC has an instant, not a local time."""
        zone = getattr(start, "tzinfo", None)
        if zone is None or (zone.key == "UTC" and "RRULE" not in self.core and "RDATE" not in self.core):
            return self._options.timezone
        return str(zone.key)

    def _window(
        self, recurrence: Recurrence, window: Window, zone: EventZone, part: str = "", *, cut: bool = False
    ) -> ImportedWindow:
        return ImportedWindow(
            self.uid,
            part,
            name_from(self.name, suffix=f" ({part})" if part else ""),
            zone.name,
            stored_recurrence(recurrence),
            stored_window(window),
            past=zone.is_past(recurrence, window),
            cut=cut,
        )


def _usual(by_shape: Mapping[Window, set[date]], of_core: Window) -> Window:
    return of_core if of_core in by_shape else max(by_shape, key=lambda shape: len(by_shape[shape]))


def _days_of(rule: Recurrence, wanted: set[date]) -> set[date]:
    """Return those of some days that a rule has."""
    return wanted.intersection(days(rule, min(wanted), max(wanted))) if wanted else set()


def _sequence(event: Event) -> int:
    found = event.get("SEQUENCE", 0)
    return found if isinstance(found, int) else 0


def _is_cancelled(event: object) -> bool:
    return isinstance(event, Event) and _text(event, "STATUS").upper() == "CANCELLED"


def _text(event: Event, name: str) -> str:
    found = event.get(name, "")
    return str(found[0] if isinstance(found, list) else found)


def _count_listed(found: object) -> int:
    parts = found if isinstance(found, list) else [found]
    return sum(len(getattr(part, "dts", ())) for part in parts)
