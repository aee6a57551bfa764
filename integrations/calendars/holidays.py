"""Public holidays of a country, or of a part of it, computed by the `holidays` package.

A holiday is known by its country, subdivision and name, so that other years of it are days of the same schedule. A day
that is given instead of one at a weekend ("observed") is a day of that holiday. What is no day off for everybody
(categories such as `bank`, `optional`, `unofficial`) is an observance, and comes only where it is asked for; an
observance that falls on a public holiday adds nothing. Where all are taken together, days that follow each other are
one window whatever they are called.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Literal

import holidays

from integrations.calendars.found import (
    Found,
    LeftOut,
    Options,
    Reading,
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
"""Where the package has it for a country; else the country's own."""
_ALL: dict[Kind, str] = {"public": "Public holidays", "observance": "Observances"}
_INSTEAD = re.compile(r"\s*\((observed|estimated|substitut)[^()]*\)$", re.IGNORECASE)


class UnknownPlaceError(Exception):
    """A country, or a subdivision of it, whose holidays are not known: which field is wrong, and why."""

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
) -> Reading:
    """Return the holidays of some years; raises UnknownPlaceError."""
    known = holidays.list_supported_countries()
    if country not in known:
        raise UnknownPlaceError("country", f"{country} is no country whose holidays are known")
    try:
        public = _days(country, subdivision, years, ("public",))
    except NotImplementedError:
        message = f"is none of those of {country}: {', '.join(known[country]) or 'it has none'}"
        raise UnknownPlaceError("subdivision", message) from None
    by_kind: dict[Kind, dict[date, list[str]]] = {"public": public}
    if observances:
        others = _days(country, subdivision, years, _other_categories(country))
        by_kind["observance"] = {day: names for day, names in others.items() if day not in public}
    place = f"{country}-{subdivision}" if subdivision else country
    items: list[Found | LeftOut] = []
    for kind, days in by_kind.items():
        named = {day: [f"{_ALL[kind]} ({place})"] for day in days} if together else days
        items += _windows(f"{country}/{subdivision or ''}/{kind}/", named, options)
    return Reading(
        [item for item in items if isinstance(item, Found)], [item for item in items if isinstance(item, LeftOut)]
    )


def _other_categories(country: str) -> tuple[str, ...]:
    supported = holidays.country_holidays(country).supported_categories
    return tuple(sorted(OBSERVANCES.intersection(supported)))


def _days(
    country: str, subdivision: str | None, years: Iterable[int], categories: tuple[str, ...]
) -> dict[date, list[str]]:
    """Return the names of each day that has some."""
    if not categories:
        return {}
    found = holidays.country_holidays(
        country, subdiv=subdivision, years=years, language=LANGUAGE, categories=categories
    )
    return {day: found.get_list(day) for day in sorted(found)}


def _windows(prefix: str, days: Mapping[date, Sequence[str]], options: Options) -> Iterator[Found | LeftOut]:
    """Yield the windows of each holiday: days that follow each other under one name are one window.

    What is too long for one is left out, and so are days before those on which a schedule may begin.
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
                yield LeftOut(prefix + name, shown, error.code, error.message)


def _window(uid: str, name: str, length: int, starts: Iterable[date], options: Options) -> Found:
    """Return the window of a holiday that takes so many days; raises UnusableError."""
    window = shape_of_days(options, length)
    require_length(window)
    recurrence, cut = listed(starts)
    return Found(
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
    """Yield name, first day and number of days of what goes on from one day to the next."""
    for day, names in days.items():
        for name in dict.fromkeys(names):
            if name in days.get(day - timedelta(days=1), ()):
                continue
            length = 1
            while name in days.get(day + timedelta(days=length), ()):
                length += 1
            yield name, day, length
