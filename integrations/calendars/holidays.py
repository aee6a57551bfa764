"""Public holidays of a country, or of a part of it, computed by the `holidays` package.

A holiday is identified by country, subdivision and name, so that its days in other years belong to the same schedule. A
day in lieu of a weekend ("observed") is a day of that holiday. Days that are not a general day off (categories such as
`bank`, `optional`, `unofficial`) are observances, and are included only on request; an observance on a public holiday
adds nothing. If holidays are combined, consecutive days are one window regardless of their names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Literal

import holidays

from integrations.calendars.content import (
    ImportedWindow,
    Options,
    ParsedCalendar,
    SkippedEvent,
    first_day,
    listed,
    name_from,
    shape_of_days,
    stored_recurrence,
    stored_window,
)
from integrations.calendars.rules import UnusableError
from integrations.calendars.shapes import Clocks, require_length
from rules.time.recurrence import EARLIEST

Kind = Literal["public", "observance"]

OBSERVANCES = frozenset({"bank", "de_facto", "government", "half_day", "optional", "optional_women", "unofficial"})
LANGUAGE = "en_US"
"""If the package has it for a country; otherwise the country's own language."""
_ALL: dict[Kind, str] = {"public": "Public holidays", "observance": "Observances"}
_INSTEAD = re.compile(r"\s*\((observed|estimated|substitut)[^()]*\)$", re.IGNORECASE)


class UnknownPlaceError(Exception):
    """A country or subdivision without known holidays: the invalid field and a message."""

    def __init__(self, field: Literal["country", "subdivision"], message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def read(
    country: str,
    subdivision: str | None,
    years: Sequence[int],
    options: Options,
    *,
    observances: bool = False,
    together: bool = False,
) -> ParsedCalendar:
    """Return the holidays of the given years. Raise UnknownPlaceError.

    A country with several codes, such as `GB` and `UK`, is one place.
    """
    known = holidays.list_supported_countries()
    if country not in known:
        raise UnknownPlaceError("country", f"the holidays of {country} are not known")
    country = holidays.country_holidays(country).country
    try:
        public = _days(country, subdivision, years, ("public",))
    except NotImplementedError:
        message = f"is not a subdivision of {country}; known ones: {', '.join(known[country]) or 'none'}"
        raise UnknownPlaceError("subdivision", message) from None
    by_kind: dict[Kind, dict[date, list[str]]] = {"public": public}
    if observances:
        others = _days(country, subdivision, years, _other_categories(country))
        by_kind["observance"] = {day: names for day, names in others.items() if day not in public}
    place = f"{country}-{subdivision}" if subdivision else country
    items: list[ImportedWindow | SkippedEvent] = []
    for kind, days in by_kind.items():
        named = {day: [f"{_ALL[kind]} ({place})"] for day in days} if together else days
        items += _windows(f"{country}/{subdivision or ''}/{kind}/", named, options)
    return ParsedCalendar(
        [item for item in items if isinstance(item, ImportedWindow)],
        [item for item in items if isinstance(item, SkippedEvent)],
    )


def subdivisions_of(country: str) -> list[str]:
    """Return the subdivisions of a country that may have holidays of their own; none if the country is not known."""
    return list(holidays.list_supported_countries().get(country, ()))


def _other_categories(country: str) -> tuple[str, ...]:
    supported = holidays.country_holidays(country).supported_categories
    return tuple(sorted(OBSERVANCES.intersection(supported)))


def _days(
    country: str, subdivision: str | None, years: Iterable[int], categories: tuple[str, ...]
) -> dict[date, list[str]]:
    """Return the names of holidays by day."""
    if not categories:
        return {}
    found = holidays.country_holidays(
        country, subdiv=subdivision, years=years, language=LANGUAGE, categories=categories
    )
    return {day: found.get_list(day) for day in sorted(found)}


def _windows(
    prefix: str, days: Mapping[date, Sequence[str]], options: Options
) -> Iterator[ImportedWindow | SkippedEvent]:
    """Yield the windows of each holiday: consecutive days with the same name are one window.

    A holiday that is too long is skipped, and so are days before the first date of schedules.
    """
    by_name: dict[str, dict[int, list[date]]] = {}
    for name, start, length in _runs(days):
        first = first_day(options, start)
        if first >= EARLIEST:
            by_name.setdefault(_INSTEAD.sub("", name), {}).setdefault(length, []).append(first)
    for name, by_length in by_name.items():
        for length, starts in by_length.items():
            shown = name_from(name, suffix=f" ({length} days)" if length > 1 else "")
            try:
                yield _window(prefix + name, shown, length, starts, options)
            except UnusableError as error:
                yield SkippedEvent(prefix + name, shown, error.code, error.message)


def _window(uid: str, name: str, length: int, starts: Iterable[date], options: Options) -> ImportedWindow:
    """Return the window of a holiday of `length` days. Raise UnusableError if it is too long."""
    window = shape_of_days(options, length)
    require_length(window)
    recurrence, cut = listed(starts)
    return ImportedWindow(
        uid,
        f"{length} days" if length > 1 else "",
        name,
        options.timezone,
        stored_recurrence(recurrence),
        stored_window(window),
        past=Clocks(options, options.timezone).is_past(recurrence, window),
        cut=cut,
    )


def _runs(days: Mapping[date, Sequence[str]]) -> Iterator[tuple[str, date, int]]:
    """Yield name, first day and number of days of consecutive days with the same name."""
    for day, names in days.items():
        for name in dict.fromkeys(names):
            if name in days.get(day - timedelta(days=1), ()):
                continue
            length = 1
            while name in days.get(day + timedelta(days=length), ()):
                length += 1
            yield name, day, length
