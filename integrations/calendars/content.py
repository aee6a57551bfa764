"""The content of a calendar: windows in the terms of schedules, and skipped events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any

from rules.plain_text import is_visible, without_invisible
from rules.time.recurrence import MAX_DATES, Recurrence
from rules.time.wall_clock import Window

MAX_NAME_LENGTH = 100
MAX_DAYS = 366
"""Calendar days that a window may end after the day on which it starts."""
UNNAMED = "Event without a name"
WHOLE_DAY = Window(time(), time(), 1)


class CalendarError(Exception):
    """A calendar that cannot be imported; the message completes "The calendar …"."""


@dataclass(frozen=True, slots=True)
class Options:
    """How days are converted to windows."""

    timezone: str
    """The zone of whole days, and of times without a zone."""
    now: datetime
    window: Window = WHOLE_DAY
    """Of one whole day; the window of a longer event ends later by its further days."""
    day_before: bool = False
    """True if windows of whole days start on the day before."""
    timezones: Mapping[str, str] = field(default_factory=dict)
    """The IANA zones of names of zones in the file."""


@dataclass(frozen=True, slots=True)
class ImportedWindow:
    """The windows of one event with the same local times; `part` identifies them if the event has several times."""

    uid: str
    part: str
    name: str
    timezone: str
    recurrence: dict[str, Any]
    window: dict[str, Any]
    """Both as schedules store them: the contract's objects in snake_case."""
    past: bool = False
    """True if its last window has ended."""
    cut: bool = False
    """True if there are more days than a schedule can list."""
    estimated: Sequence[str] = ()
    """The coming days, as dates, that are only known to be about right."""


@dataclass(frozen=True, slots=True)
class SkippedEvent:
    """An event without a window, with the reason: a code of the contract and a message."""

    uid: str
    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ParsedCalendar:
    """The content of a calendar."""

    found: Sequence[ImportedWindow]
    skipped: Sequence[SkippedEvent]
    name: str = ""
    """The name that a file gives to its calendar; empty if it gives none."""
    uid_prefix: str = ""
    """The beginning that the UIDs of all holidays of a country or subdivision have in common; empty for a file."""


def shape_of_days(options: Options, length: int) -> Window:
    """Return the window of `length` whole days."""
    extra = length - 1 + options.day_before
    return Window(options.window.start, options.window.end, options.window.days + extra)


def first_day(options: Options, day: date) -> date:
    """Return the day on which a window of whole days from `day` starts."""
    return day - timedelta(days=1) if options.day_before else day


def list_days(days: Iterable[date]) -> tuple[Recurrence, bool]:
    """Return the recurrence that lists days, and True if the latest days did not fit."""
    ordered = sorted(set(days))
    taken = tuple(ordered[:MAX_DATES])
    if len(ordered) == 1:
        return Recurrence("once", ordered[0]), False
    return Recurrence("dates", taken[0], dates=taken), len(taken) < len(ordered)


def stored_recurrence(recurrence: Recurrence) -> dict[str, Any]:
    """Return a recurrence as schedules store it: without default values, dates as strings."""
    plain = asdict(Recurrence("once", recurrence.start_date))
    return {
        name: _to_json(value)
        for name, value in asdict(recurrence).items()
        if name in {"frequency", "start_date"} or value != plain[name]
    }


def stored_window(window: Window) -> dict[str, Any]:
    """Return a window as schedules store it."""
    return {"start_time": f"{window.start:%H:%M}", "end_time": f"{window.end:%H:%M}", "days": window.days}


def part_of(window: Window) -> str:
    """Return a short name of a window's times, such as `09:00-17:00` or `17:00-08:00+3`."""
    return f"{window.start:%H:%M}-{window.end:%H:%M}" + (f"+{window.days}" if window.days else "")


def _to_json(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return [_to_json(item) for item in value] if isinstance(value, tuple | list) else value


def name_from(text: object, *, suffix: str = "") -> str:
    """Return the name of a schedule: one line of visible characters, truncated."""
    visible = "".join(
        " " if _is_control(character) else character for character in str(text or "")[: 10 * MAX_NAME_LENGTH]
    )
    name = " ".join(without_invisible(visible).split())
    name = name if is_visible(name) else UNNAMED
    limit = MAX_NAME_LENGTH - len(suffix)
    return (name if len(name) <= limit else name[: limit - 1].rstrip() + "…") + suffix


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"


def calendar_from_json(plain: Mapping[str, Any]) -> ParsedCalendar:
    """Return a parsed calendar from its JSON."""
    return ParsedCalendar(
        [ImportedWindow(**row) for row in plain["found"]],
        [SkippedEvent(**row) for row in plain["skipped"]],
        plain["name"],
    )
