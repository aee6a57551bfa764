"""What is found in a calendar: windows in the terms of schedules, and what was left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from rules.time.recurrence import MAX_DATES, Recurrence
from rules.time.wall_clock import Window

LONGEST_NAME = 100
MOST_DAYS = 366
"""Calendar days that a window may end after the day on which it starts."""
UNNAMED = "Event without a name"
WHOLE_DAY = Window(time(), time(), 1)


class CalendarError(Exception):
    """A calendar that cannot be taken at all; the message completes "The calendar …"."""


@dataclass(frozen=True, slots=True)
class Options:
    """How days become windows."""

    timezone: str
    """Whose clocks read the days, and the times that belong to no zone."""
    now: datetime
    window: Window = WHOLE_DAY
    """Of whole days: a longer event ends as many days later as it has more."""
    day_before: bool = False
    """Whether whole days begin on the day before."""


@dataclass(frozen=True, slots=True)
class Found:
    """The windows of one event that have the same wall-clock times; `part` tells apart those that have others."""

    uid: str
    part: str
    name: str
    timezone: str
    recurrence: dict[str, Any]
    window: dict[str, Any]
    """Both as schedules store them: the contract's objects in snake_case."""
    past: bool = False
    """Whether its last window has ended."""
    cut: bool = False
    """Whether there are more days than a schedule lists."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An event that makes no window, and why: a code of the contract, and words."""

    uid: str
    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a calendar holds."""

    found: Sequence[Found]
    left_out: Sequence[LeftOut]


def shape_of_days(options: Options, length: int) -> Window:
    """Return the window of `length` whole days."""
    extra = length - 1 + options.day_before
    return Window(options.window.start, options.window.end, options.window.days + extra)


def first_day(options: Options, day: date) -> date:
    """Return the day on which the window of whole days from `day` begins."""
    return day - timedelta(days=1) if options.day_before else day


def listed(days: Iterable[date]) -> tuple[Recurrence, bool]:
    """Return the recurrence of some days, and whether it had to leave out late ones."""
    ordered = sorted(set(days))
    taken = tuple(ordered[:MAX_DATES])
    if len(ordered) == 1:
        return Recurrence("once", ordered[0]), False
    return Recurrence("dates", taken[0], dates=taken), len(taken) < len(ordered)


def stored_recurrence(recurrence: Recurrence) -> dict[str, Any]:
    """Return a recurrence as schedules store it: what says something, dates as texts."""
    plain = asdict(Recurrence("once", recurrence.start_date))
    return {
        name: _plain(value)
        for name, value in asdict(recurrence).items()
        if name in {"frequency", "start_date"} or value != plain[name]
    }


def stored_window(window: Window) -> dict[str, Any]:
    """Return a window as schedules store it."""
    return {"start_time": f"{window.start:%H:%M}", "end_time": f"{window.end:%H:%M}", "days": window.days}


def part_of(window: Window) -> str:
    """Return a short name of a window's times, such as `09:00-17:00` or `17:00-08:00+3`."""
    return f"{window.start:%H:%M}-{window.end:%H:%M}" + (f"+{window.days}" if window.days else "")


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def name_from(text: object, *, suffix: str = "") -> str:
    """Return the name of a schedule: one line of what is visible, short enough."""
    visible = "".join(
        " " if _is_control(character) else character for character in str(text or "")[: 10 * LONGEST_NAME]
    )
    name = " ".join(visible.split()) or UNNAMED
    room = LONGEST_NAME - len(suffix)
    return (name if len(name) <= room else name[: room - 1].rstrip() + "…") + suffix


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"


def reading_from(plain: Mapping[str, Any]) -> Reading:
    """Return a reading that was written as JSON."""
    return Reading([Found(**row) for row in plain["found"]], [LeftOut(**row) for row in plain["left_out"]])
