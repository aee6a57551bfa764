"""The local times of events, in the zone of each."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from integrations.calendars.content import MAX_DAYS, Options, first_day, shape_of_days
from integrations.calendars.rules import UnusableError
from integrations.calendars.spans import Moment
from rules.time.recurrence import Recurrence
from rules.time.wall_clock import Window
from rules.time.windows import are_over

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class EventZone:
    """The zone in whose local time an event repeats."""

    options: Options
    name: str

    @property
    def info(self) -> ZoneInfo:
        """The time zone."""
        return ZoneInfo(self.name)

    def local_time(self, moment: Moment) -> Moment:
        """Return the naive local time of an instant; days and times without a zone are returned unchanged."""
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            return moment
        if getattr(moment.tzinfo, "key", None) == self.name:
            return moment.replace(tzinfo=None, fold=0)
        return moment.astimezone(UTC).astimezone(self.info).replace(tzinfo=None, fold=0)

    def shape(self, start: Moment, end: Moment) -> tuple[date, Window]:
        """Return the first day of an occurrence, and its window in whole minutes of local time. Raise UnusableError."""
        begins, over = self.local_time(start), self.local_time(end)
        if begins == over:
            raise UnusableError("no_length", "ends when it starts")
        if isinstance(begins, datetime) and isinstance(over, datetime):
            begins, over = begins.replace(second=0, microsecond=0), _up_to_minute(over)
            day, window = begins.date(), Window(begins.time(), over.time(), (over.date() - begins.date()).days)
        else:
            day, window = first_day(self.options, begins), shape_of_days(self.options, (over - begins).days)
        if window.is_empty or window.days < 0:
            raise UnusableError("no_length", "ends when it starts")
        require_length(window)
        return day, window

    def day_of_instance(self, moment: Moment, start: Moment) -> date | None:
        """Return the day of the instance that starts at a moment; `start` is that of the series.

        None if no instance starts at that time of day. A day is that of its instance.
        """
        if not isinstance(moment, datetime):
            return moment
        if not isinstance(start, datetime):
            return moment.date() if moment.time() == time() else None
        shown, first = self.local_time(moment), self.local_time(start)
        if not isinstance(shown, datetime) or not isinstance(first, datetime):
            return None
        instance = datetime.combine(shown.date(), first.time(), self.info)
        is_same = shown.time() == first.time() or instance.astimezone(UTC) == moment.astimezone(UTC)
        return shown.date() if is_same else None

    def is_past(self, recurrence: Recurrence, window: Window) -> bool:
        """True if all windows of a recurrence have ended."""
        return are_over(recurrence, window, self.info, self.options.now)


def require_length(window: Window) -> None:
    """Raise UnusableError if a window is longer than schedules allow."""
    if window.days > MAX_DAYS:
        raise UnusableError("too_long", f"takes {window.days} days; a window can take at most {MAX_DAYS}")


def _up_to_minute(moment: datetime) -> datetime:
    whole = moment.replace(second=0, microsecond=0)
    return whole if whole == moment else whole + _MINUTE
