"""The events of one UID as windows: by their rule if a schedule supports it, otherwise as a list of days.

RFC 5545: the events of a UID are one recurring event. The one without RECURRENCE-ID is its core, the others change
single instances (3.8.4.4); EXDATE and RDATE remove and add instances (3.8.5); a cancelled core cancels all of them
(3.8.1.11). The library recurring-ical-events combines them.

Times are local times of the event's zone, which is an IANA zone (`time_zones`); those without a zone are in the
schedules' zone. Expanded days lie between the start of this year and the end of the fifth year after it, so that
parsing the same calendar again in the same year has the same result.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import islice
from typing import Any

import recurring_ical_events
from icalendar import Calendar, Event

from integrations.calendars.content import (
    ImportedWindow,
    Options,
    SkippedEvent,
    listed,
    name_from,
    part_of,
    stored_recurrence,
    stored_window,
)
from integrations.calendars.rules import UnusableError, translate
from integrations.calendars.shapes import Clocks
from integrations.calendars.spans import End, span_of
from rules.time.recurrence import EARLIEST, LATEST, Recurrence
from rules.time.wall_clock import Window

MAX_OCCURRENCES = 5_000
"""Of one event, within the expanded years."""
MAX_EXCEPTIONS = 5_000
YEARS_AHEAD = 5


class Series:
    """The events of one UID."""

    def __init__(self, uid: str, events: Sequence[Event], options: Options) -> None:
        cores = [event for event in events if "RECURRENCE-ID" not in event]
        self.uid = uid
        self.core = max(cores or events, key=_sequence)
        self.name = name_from(_text(self.core, "SUMMARY"))
        self.unrelated_events = sum(_sequence(core) == _sequence(self.core) for core in cores if core is not self.core)
        """Number of other events with the same UID that are not part of the series."""
        self._events = [event for event in events if event is self.core or "RECURRENCE-ID" in event]
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
        clocks = Clocks(self._options, self._zone_name(start))
        self._check()
        recurrence = self._recurrence(start, clocks)
        if recurrence is not None and not self._is_changed:
            yield self._window(recurrence, clocks.shape(start, end)[1], clocks)
        else:
            yield from self._day_by_day(start, end, clocks)

    def _recurrence(self, start: End, clocks: Clocks) -> Recurrence | None:
        """Return the recurrence of the rule, or None if there is no rule or a schedule does not support it."""
        rule: Any = self.core.get("RRULE")
        if rule is None:
            return None
        begins = clocks.local_time(start)
        if isinstance(begins, datetime):
            return translate(rule, begins.date(), begins.time(), clocks.zone)
        translated = translate(rule, begins, None, clocks.zone)
        return None if self._options.day_before else translated

    @property
    def _is_changed(self) -> bool:
        """True if single instances are changed, added or removed."""
        return len(self._events) > 1 or "RDATE" in self.core or "EXDATE" in self.core

    def _day_by_day(self, start: End, end: End, clocks: Clocks) -> Iterator[ImportedWindow | SkippedEvent]:
        by_shape: dict[Window, list[date]] = {}
        usual = clocks.shape(start, end)[1]
        for begins, over in self._occurrences(start, end):
            if begins == over:
                when = f"{clocks.local_time(begins):%Y-%m-%d}"
                yield SkippedEvent(self.uid, self.name, "no_length", f"ends when it starts on {when}")
                continue
            day, shape = clocks.shape(begins, over)
            if EARLIEST <= day < LATEST:
                by_shape.setdefault(shape, []).append(day)
        if not by_shape:
            raise UnusableError("past", f"does not take place from {self._from.date()} to {self._last.date()}")
        first = _usual(by_shape, usual)
        for shape, found in sorted(by_shape.items(), key=lambda item: (item[0] != first, part_of(item[0]))):
            recurrence, cut = listed(found)
            yield self._window(recurrence, shape, clocks, "" if shape == first else part_of(shape), cut=cut)

    def _check(self) -> None:
        """Raise UnusableError for what would take long to expand, or what the library interprets differently."""
        rule: Any = self.core.get("RRULE")
        if isinstance(rule, list) or any("EXRULE" in event for event in self._events):
            raise UnusableError("unsupported_recurrence", "has several rules")
        if any("RRULE" in event for event in self._events if event is not self.core):
            raise UnusableError("unsupported_recurrence", "has a rule in the change of a single instance")
        if sum(_listed(self.core.get(name)) for name in ("EXDATE", "RDATE")) > MAX_EXCEPTIONS:
            raise UnusableError("unsupported_recurrence", f"lists more than {MAX_EXCEPTIONS} days")
        for event in self._events:
            span_of(event)

    def _occurrences(self, start: End, end: End) -> Iterator[tuple[End, End]]:
        if len(self._events) == 1 and "RRULE" not in self.core and "RDATE" not in self.core:
            yield start, end
            return
        calendar = Calendar()
        calendar.subcomponents = list(self._events)
        for series in recurring_ical_events.of(calendar).series:
            for occurrence in islice(series.between(self._from, self._last), MAX_OCCURRENCES):
                if len(self._events) == 1 or not _is_cancelled(
                    occurrence.as_component(keep_recurrence_attributes=False)
                ):
                    yield occurrence.start, occurrence.end

    @property
    def _from(self) -> datetime:
        return datetime(self._options.now.year, 1, 1)  # noqa: DTZ001 - gets the zone of the compared value

    @property
    def _last(self) -> datetime:
        return datetime(self._options.now.year + YEARS_AHEAD, 12, 31, 23, 59)  # noqa: DTZ001 - gets the zone of the compared value

    def _zone_name(self, start: End) -> str:
        """Return the event's zone. A single event in UTC has an instant, not a local time."""
        zone = getattr(start, "tzinfo", None)
        if zone is None or (zone.key == "UTC" and "RRULE" not in self.core and "RDATE" not in self.core):
            return self._options.timezone
        return str(zone.key)

    def _window(
        self, recurrence: Recurrence, window: Window, clocks: Clocks, part: str = "", *, cut: bool = False
    ) -> ImportedWindow:
        return ImportedWindow(
            self.uid,
            part,
            name_from(self.name, suffix=f" ({part})" if part else ""),
            clocks.zone_name,
            stored_recurrence(recurrence),
            stored_window(window),
            past=clocks.is_past(recurrence, window),
            cut=cut,
        )


def _usual(by_shape: dict[Window, list[date]], of_core: Window) -> Window:
    if of_core in by_shape:
        return of_core
    return Counter({shape: len(found) for shape, found in by_shape.items()}).most_common(1)[0][0]


def _sequence(event: Event) -> int:
    found = event.get("SEQUENCE", 0)
    return found if isinstance(found, int) else 0


def _is_cancelled(event: object) -> bool:
    return isinstance(event, Event) and _text(event, "STATUS").upper() == "CANCELLED"


def _text(event: Event, name: str) -> str:
    found = event.get(name, "")
    return str(found[0] if isinstance(found, list) else found)


def _listed(found: object) -> int:
    parts = found if isinstance(found, list) else [found]
    return sum(len(getattr(part, "dts", ())) for part in parts)
