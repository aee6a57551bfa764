"""The events of one UID as windows: by their rule where a schedule can say it, and else day by day.

RFC 5545: all events of a UID are one recurring thing, the one without RECURRENCE-ID its core, the others changes of
single instances (3.8.4.4); EXDATE and RDATE take away and add (3.8.5); a core that is cancelled takes everything along
(3.8.1.11). recurring-ical-events puts these together.

Times are read from the clocks of the event's own zone, where that is one of IANA's; those of a zone that the calendar
defines itself, and of no zone, from the clocks of the schedules' zone. Days that are expanded lie between the beginning
of this year and the end of the fifth after it, so that reading the same calendar again in the same year finds the same.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import islice
from typing import Any

import recurring_ical_events
from icalendar import Calendar, Event

from integrations.calendars.found import Found, Options, listed, name_from, part_of, stored_recurrence, stored_window
from integrations.calendars.rules import UnusableError, translate
from integrations.calendars.shapes import Clocks
from integrations.calendars.spans import End, span_of
from rules.time.recurrence import EARLIEST, LATEST, Recurrence
from rules.time.wall_clock import Window
from rules.time.zones import zone_names

MOST_OCCURRENCES = 5_000
"""Of one event, within the years that are expanded."""
MOST_EXCEPTIONS = 5_000
YEARS_AHEAD = 5


class Series:
    """The events of one UID."""

    def __init__(self, uid: str, events: Sequence[Event], options: Options) -> None:
        cores = [event for event in events if "RECURRENCE-ID" not in event]
        self.uid = uid
        self.core = max(cores or events, key=_sequence)
        self.name = name_from(_text(self.core, "SUMMARY"))
        self.left_behind = sum(_sequence(core) == _sequence(self.core) for core in cores[1:])
        """Events that have nothing but their UID in common with the core."""
        self._events = events
        self._options = options

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing of it happens."""
        return "RECURRENCE-ID" not in self.core and _is_cancelled(self.core)

    def windows(self) -> Iterator[Found]:
        """Yield its windows; raises UnusableError, and whatever the libraries raise about what they cannot read."""
        start, end = span_of(self.core)
        own_zone = self._zone_name(start)
        clocks = Clocks(self._options, own_zone or self._options.timezone)
        self._check()
        recurrence = self._recurrence(start, clocks)
        if recurrence is not None and own_zone and not self._is_changed:
            yield self._found(recurrence, clocks.shape(start, end)[1], clocks)
        else:
            yield from self._day_by_day(start, end, clocks)

    def _recurrence(self, start: End, clocks: Clocks) -> Recurrence | None:
        """Return what the rule says, if there is one and a schedule can say it; refuses what nobody should expand."""
        rule: Any = self.core.get("RRULE")
        if rule is None:
            return None
        begins = clocks.reading(start)
        if isinstance(begins, datetime):
            return translate(rule, begins.date(), begins.time(), clocks.zone)
        translated = translate(rule, begins, None, clocks.zone)
        return None if self._options.day_before else translated

    @property
    def _is_changed(self) -> bool:
        """Whether it is more than a rule, or less."""
        return len(self._events) > 1 or "RDATE" in self.core or "EXDATE" in self.core

    def _day_by_day(self, start: End, end: End, clocks: Clocks) -> Iterator[Found]:
        by_shape: dict[Window, list[date]] = {}
        for begins, over in self._occurrences(start, end):
            day, shape = clocks.shape(begins, over)
            if EARLIEST <= day < LATEST:
                by_shape.setdefault(shape, []).append(day)
        if not by_shape:
            raise UnusableError("past", f"does not happen from {self._from.date()} to {self._last.date()}")
        first = _usual(by_shape, clocks.shape(start, end)[1])
        for shape, found in sorted(by_shape.items(), key=lambda item: (item[0] != first, part_of(item[0]))):
            recurrence, cut = listed(found)
            yield self._found(recurrence, shape, clocks, "" if shape == first else part_of(shape), cut=cut)

    def _check(self) -> None:
        """Refuse what would take long, and what the library would take for something else."""
        rule: Any = self.core.get("RRULE")
        if isinstance(rule, list) or any("EXRULE" in event for event in self._events):
            raise UnusableError("unsupported_recurrence", "has several rules")
        if any("RRULE" in event for event in self._events if event is not self.core):
            raise UnusableError("unsupported_recurrence", "has a rule in the change of a single instance")
        if sum(_listed(self.core.get(name)) for name in ("EXDATE", "RDATE")) > MOST_EXCEPTIONS:
            raise UnusableError("unsupported_recurrence", f"lists more than {MOST_EXCEPTIONS} days")
        for event in self._events:
            span_of(event)

    def _occurrences(self, start: End, end: End) -> Iterator[tuple[End, End]]:
        if len(self._events) == 1 and "RRULE" not in self.core and "RDATE" not in self.core:
            yield start, end
            return
        calendar = Calendar()
        calendar.subcomponents = list(self._events)
        for series in recurring_ical_events.of(calendar).series:
            for occurrence in islice(series.between(self._from, self._last), MOST_OCCURRENCES):
                if len(self._events) == 1 or not _is_cancelled(
                    occurrence.as_component(keep_recurrence_attributes=False)
                ):
                    yield occurrence.start, occurrence.end

    @property
    def _from(self) -> datetime:
        return datetime(self._options.now.year, 1, 1)  # noqa: DTZ001 - takes the zone of what it is compared with

    @property
    def _last(self) -> datetime:
        return datetime(self._options.now.year + YEARS_AHEAD, 12, 31, 23, 59)  # noqa: DTZ001 - the same

    def _zone_name(self, start: End) -> str | None:
        """Return the zone whose clocks the event is read from; None for one that the calendar defines itself.

        What happens once and is written in UTC means an instant, not a clock.
        """
        if not isinstance(start, datetime) or start.tzinfo is None:
            return self._options.timezone
        key = getattr(start.tzinfo, "key", None)
        if key == "UTC" and "RRULE" not in self.core and "RDATE" not in self.core:
            return self._options.timezone
        return key if key in zone_names() else None

    def _found(
        self, recurrence: Recurrence, window: Window, clocks: Clocks, part: str = "", *, cut: bool = False
    ) -> Found:
        return Found(
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
