"""The weeks of a calendar: days, and bars over the days that something lasts. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal, NamedTuple

LANES = 5
"""Bars that a week shows above each other; the rest is counted."""
_DAY = timedelta(days=1)
_WEEKEND = 5
"""Number of the first day of the weekend, in weeks that begin with Monday."""


class Entry(NamedTuple):
    """A freeze or a window, with its times in the zone of the calendar."""

    id: str
    kind: Literal["freeze", "window"]
    title: str
    starts_at: datetime
    ends_at: datetime | None
    """None: no end is known."""
    state: str
    """`planned`, `active`, `past` or `skipped`."""
    of: Any
    """What the operation answered."""

    def last_day(self, beyond: date) -> date:
        """Return the last day on which it lasts; `beyond`: of one without an end."""
        if self.ends_at is None:
            return beyond
        return max(self.starts_at, self.ends_at - timedelta(microseconds=1)).date()


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a calendar."""

    date: date
    here: bool
    """Whether it belongs to the month, and not to a neighbour."""
    today: bool

    @property
    def classes(self) -> str:
        """The classes of its cell."""
        names = (("weekend", self.date.weekday() >= _WEEKEND), ("other", not self.here), ("today", self.today))
        return " ".join(name for name, holds in names if holds)


class Bar(NamedTuple):
    """The part of an entry that lies in a week."""

    entry: Entry
    first: int
    """Number of its first day in the week, from 0."""
    days: int
    begins: bool
    ends: bool
    """Whether the entry begins and ends in this week."""


Cell = Bar | Day


@dataclass(slots=True)
class Week:
    """Seven days, and the lanes with their bars, between which cells are the days without one."""

    days: list[Day]
    lanes: list[list[Cell]]
    hidden: list[int]
    """How many more entries each day has."""


def weeks_of(month: date, today: date, entries: Iterable[Entry]) -> list[Week]:
    """Return the weeks of a month from Monday on, with the days of its neighbours that complete them."""
    first, end = bounds_of(month)
    lasting = [(each, each.starts_at.date(), each.last_day(end)) for each in entries]
    lasting.sort(key=lambda each: (each[0].starts_at, each[1] - each[2], each[0].id))
    weeks = []
    while first < end:
        days = [Day(day, day.month == month.month, day == today) for day in (first + n * _DAY for n in range(7))]
        weeks.append(_week(days, lasting))
        first += 7 * _DAY
    return weeks


def bounds_of(month: date) -> tuple[date, date]:
    """Return the first day that the calendar of a month shows, and the first one that it does not."""
    first = month - month.weekday() * _DAY
    after = (month + timedelta(days=31)).replace(day=1)
    return first, after + (-after.weekday() % 7) * _DAY


def _week(days: list[Day], lasting: Sequence[tuple[Entry, date, date]]) -> Week:
    """Return a week of entries with the first and the last day of each, in the order in which they get lanes."""
    first, last = days[0].date, days[-1].date
    lanes: list[list[Bar]] = []
    hidden = [0] * 7
    for entry, begins, ends in lasting:
        if begins > last or ends < first:
            continue
        start, stop = max(begins, first), min(ends, last)
        bar = Bar(entry, (start - first).days, (stop - start).days + 1, begins >= first, ends <= last)
        lane = next((each for each in lanes if each[-1].first + each[-1].days <= bar.first), None)
        if lane is not None:
            lane.append(bar)
        elif len(lanes) < LANES:
            lanes.append([bar])
        else:
            for number in range(bar.first, bar.first + bar.days):
                hidden[number] += 1
    return Week(days, [_cells(lane, days) for lane in lanes], hidden)


def _cells(bars: Sequence[Bar], days: Sequence[Day]) -> list[Cell]:
    cells: list[Cell] = []
    number = 0
    for bar in bars:
        cells += [*days[number : bar.first], bar]
        number = bar.first + bar.days
    return [*cells, *days[number:]]
