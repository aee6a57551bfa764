"""Public holidays of a country, or of a part of it, computed by the `holidays` package.

A holiday is identified by country, subdivision and name, so that its days in other years belong to the same schedule. A
day in lieu of a weekend ("observed") is a day of that holiday, and so is a day that is only estimated, because it
follows the moon. Days that are not a general day off (categories such as `bank`, `optional`, `unofficial`) are
observances, and are included only on request; an observance on a public holiday adds nothing. If holidays are combined,
consecutive days are one window regardless of their names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from inspect import signature
from typing import Any, Literal

import holidays
from holidays.registry import COUNTRIES

from integrations.calendars.content import (
    ImportedWindow,
    Options,
    ParsedCalendar,
    SkippedEvent,
    first_day,
    list_days,
    name_from,
    shape_of_days,
    stored_recurrence,
    stored_window,
)
from integrations.calendars.event_zones import EventZone, require_length
from integrations.calendars.rules import UnusableError
from rules.time.recurrence import EARLIEST

Kind = Literal["public", "observance"]

Days = Mapping[date, Mapping[str, bool]]
"""The names of holidays by day, and True for those that are only estimated to be on that day."""
OBSERVANCES = frozenset({"bank", "de_facto", "government", "half_day", "optional", "optional_women", "unofficial"})
LANGUAGE = "en_US"
"""If the package has it for a country; otherwise the country's own language."""
_COMBINED_NAMES: dict[Kind, str] = {"public": "Public holidays", "observance": "Observances"}
_ESTIMATED_SUFFIX = re.compile(r"\s*\(estimated\)$|, estimated(?=\)$)", re.IGNORECASE)
_OBSERVED_SUFFIX = re.compile(r"\s*\((observed|substitut)[^()]*\)$", re.IGNORECASE)
_NAMES = {
    "AX": "Åland Islands",
    "CD": "Democratic Republic of the Congo",
    "CI": "Côte d'Ivoire",
    "CW": "Curaçao",
    "GW": "Guinea-Bissau",
    "HK": "Hong Kong",
    "RE": "Réunion",
    "SY": "Syria",
    "TL": "Timor-Leste",
}
"""Names that do not follow from the package's own."""


@dataclass(frozen=True, slots=True)
class Subdivision:
    """A subdivision of a country: the part of its ISO 3166-2 code after the hyphen, and its name."""

    code: str
    name: str


@dataclass(frozen=True, slots=True)
class Country:
    """A country whose holidays are known, by its ISO 3166-1 code."""

    code: str
    name: str
    subdivisions: Sequence[Subdivision]


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
    by_kind: dict[Kind, Days] = {"public": public}
    if observances:
        others = _days(country, subdivision, years, _other_categories(country))
        by_kind["observance"] = {day: names for day, names in others.items() if day not in public}
    shown = f"{country}-{subdivision}" if subdivision else country
    uid_prefix = f"{country}/{subdivision or ''}/"
    items: list[ImportedWindow | SkippedEvent] = []
    for kind, days in by_kind.items():
        combined = f"{_COMBINED_NAMES[kind]} ({shown})"
        named: Days = {day: {combined: any(names.values())} for day, names in days.items()}
        items += _windows(f"{uid_prefix}{kind}/", named if together else days, options)
    return ParsedCalendar(
        [item for item in items if isinstance(item, ImportedWindow)],
        [item for item in items if isinstance(item, SkippedEvent)],
        uid_prefix=uid_prefix,
    )


@cache
def countries() -> Sequence[Country]:
    """Return the countries whose holidays are known, by code, with their subdivisions."""
    keys = {codes[1]: key for key, codes in COUNTRIES.items()}
    supported = holidays.list_supported_countries(include_aliases=False)
    return [Country(code, _name(code, keys[code]), _subdivisions(code)) for code in sorted(supported)]


def _name(code: str, key: str) -> str:
    """Return the name of a country, whose key is for example `isle_of_man`."""
    words = (word if word in {"and", "of", "the"} else word.capitalize() for word in key.split("_"))
    return _NAMES.get(code) or " ".join(words)


def _subdivisions(country: str) -> list[Subdivision]:
    """Return the subdivisions of a country; of several names the first that is no abbreviation."""
    calendar = holidays.country_holidays(country)
    names: dict[str, str] = {}
    for name, code in calendar.subdivisions_aliases.items():
        if not name.isupper():
            names.setdefault(code, name)
    return [Subdivision(code, names.get(code, code)) for code in calendar.subdivisions]


def subdivisions_of(country: str) -> list[str]:
    """Return the subdivisions of a country that may have holidays of their own; none if the country is not known."""
    return list(holidays.list_supported_countries().get(country, ()))


def _other_categories(country: str) -> tuple[str, ...]:
    supported = holidays.country_holidays(country).supported_categories
    return tuple(sorted(OBSERVANCES.intersection(supported)))


def _days(country: str, subdivision: str | None, years: Iterable[int], categories: tuple[str, ...]) -> Days:
    """Return the names of holidays by day. All days of a holiday are estimated in a year in which one is.

    Raise NotImplementedError if the country has no such subdivision.
    """
    if not categories:
        return {}
    kind = type(holidays.country_holidays(country))
    shows = [name for name in signature(kind).parameters if name.endswith("_show_estimated")]
    options: dict[str, Any] = dict.fromkeys(shows, True)
    found = kind(subdiv=subdivision, years=years, language=LANGUAGE, categories=categories, **options)
    named = {day: [(name, _ESTIMATED_SUFFIX.sub("", name)) for name in found.get_list(day)] for day in sorted(found)}
    estimated = {
        (_OBSERVED_SUFFIX.sub("", name), day.year)
        for day, names in named.items()
        for given, name in names
        if given != name
    }
    return {
        day: {name: (_OBSERVED_SUFFIX.sub("", name), day.year) in estimated for _, name in names}
        for day, names in named.items()
    }


def _windows(prefix: str, days: Days, options: Options) -> Iterator[ImportedWindow | SkippedEvent]:
    """Yield the windows of each holiday: consecutive days with the same name are one window.

    A holiday that is too long is skipped, and so are days before the first date of schedules.
    """
    by_name: dict[str, dict[int, list[date]]] = {}
    for name, start, length in _runs(days):
        if first_day(options, start) >= EARLIEST:
            by_name.setdefault(_OBSERVED_SUFFIX.sub("", name), {}).setdefault(length, []).append(start)
    estimated = {(_OBSERVED_SUFFIX.sub("", name), day) for day, names in days.items() for name in names if names[name]}
    for name, by_length in by_name.items():
        for length, starts in by_length.items():
            shown = name_from(name, suffix=f" ({length} days)" if length > 1 else "")
            coming = [day for day in starts if day >= options.now.date()]
            try:
                window = _window(prefix + name, shown, length, starts, options)
                yield replace(window, estimated=[f"{day}" for day in coming if (name, day) in estimated])
            except UnusableError as error:
                yield SkippedEvent(prefix + name, shown, error.code, error.message)


def _window(uid: str, name: str, length: int, starts: Iterable[date], options: Options) -> ImportedWindow:
    """Return the window of a holiday of `length` days. Raise UnusableError if it is too long."""
    window = shape_of_days(options, length)
    require_length(window)
    recurrence, cut = list_days(first_day(options, start) for start in starts)
    return ImportedWindow(
        uid,
        f"{length} days" if length > 1 else "",
        name,
        options.timezone,
        stored_recurrence(recurrence),
        stored_window(window),
        past=EventZone(options, options.timezone).is_past(recurrence, window),
        cut=cut,
    )


def _runs(days: Days) -> Iterator[tuple[str, date, int]]:
    """Yield name, first day and number of days of consecutive days with the same name."""
    for day, names in days.items():
        for name in names:
            if name in days.get(day - timedelta(days=1), ()):
                continue
            length = 1
            while name in days.get(day + timedelta(days=length), ()):
                length += 1
            yield name, day, length
