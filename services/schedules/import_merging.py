"""What a repeated import changes of a schedule: a three-way merge of its terms.

The three are the terms as the last import read them (`Schedule.imported`), as this one reads them, and as they are now.
What the calendar has changed since is taken; of everything else, what people have edited stays. The days of a holiday
are compared for each year, since an import may request some years only.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from integrations.calendars.content import list_days, stored_recurrence
from models.schedules import Schedule
from services.schedules.changes import NewSchedule, is_equal

Terms = Mapping[str, Any]
"""Terms of a schedule by the names of `NewSchedule`; recurrence and window as they are stored."""

IMPORTED = ("name", "timezone", "recurrence", "window", "reason", "exceptions_allowed", "allow_overlap")
"""The terms that an import sets. The scope belongs to the identity of an imported schedule."""
_LISTS_DAYS = frozenset({"once", "dates"})


@dataclass(frozen=True, slots=True)
class Years:
    """The years of an import of holidays, and how the year of a day is found."""

    requested: Collection[int]
    year_of: Callable[[date], int]

    def split(self, recurrence: Mapping[str, Any]) -> tuple[list[date], list[date]]:
        """Return the days of a stored recurrence in requested years, and those in others."""
        days = listed_days(recurrence)
        return (
            [day for day in days if self.year_of(day) in self.requested],
            [day for day in days if self.year_of(day) not in self.requested],
        )


def terms_of(schedule: Schedule | NewSchedule) -> dict[str, Any]:
    """Return the terms that an import sets, as they are."""
    return {name: getattr(schedule, name) for name in IMPORTED}


def changes(now: Terms, before: Terms | None, new: Terms, *, default_reason: bool) -> dict[str, Any]:
    """Return the terms that the calendar has changed since the last import, with their new values.

    Nothing is changed if it is not known what was imported. A default reason never replaces an edited one.
    """
    if before is None:
        return {}
    changed = {name: new[name] for name in IMPORTED if not is_equal(name, new[name], before.get(name))}
    if default_reason and now["reason"] != before.get("reason"):
        changed.pop("reason", None)
    return changed


def edited(now: Terms, new: Terms) -> list[str]:
    """Return the terms that differ from the calendar: people have edited them."""
    return [name for name in IMPORTED if not is_equal(name, now[name], new[name])]


def merged_days(
    now: Mapping[str, Any], before: Mapping[str, Any] | None, new: Mapping[str, Any], years: Years
) -> dict[str, Any]:
    """Return the stored recurrence with the days of a holiday: those of the calendar where it has changed a year.

    In all other years they are as they are now. If it is not known what was imported, a year without days has changed.
    """
    days = set(years.split(now)[1])
    for year in years.requested:
        of_year = Years([year], years.year_of)
        mine, given = of_year.split(now)[0], of_year.split(new)[0]
        base = of_year.split(before)[0] if before is not None else mine and given
        days |= set(mine if base == given else given)
    return with_days(new, days) if days else dict(now)


def with_days(recurrence: Mapping[str, Any], days: Iterable[date]) -> dict[str, Any]:
    """Return the stored recurrence that lists days; without any, the given one."""
    found = sorted(days)
    return stored_recurrence(list_days(found)[0]) if found else dict(recurrence)


def lists_days(recurrence: Mapping[str, Any]) -> bool:
    """True if a stored recurrence lists its days."""
    return recurrence["frequency"] in _LISTS_DAYS


def listed_days(recurrence: Mapping[str, Any]) -> list[date]:
    """Return the days of a stored recurrence that lists its days, in order."""
    texts = recurrence.get("dates") or ([recurrence["start_date"]] if recurrence["frequency"] == "once" else [])
    return sorted(map(date.fromisoformat, texts))
