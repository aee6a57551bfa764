"""The terms of a schedule in words: when its windows take place."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from rules.freezes.scope_words import join_words, shortened
from web.instants import MONTHS

WEEKDAYS = {
    "MO": "Monday",
    "TU": "Tuesday",
    "WE": "Wednesday",
    "TH": "Thursday",
    "FR": "Friday",
    "SA": "Saturday",
    "SU": "Sunday",
}
"""Names of weekdays by their codes in a recurrence, from Monday on."""
_UNITS = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}
_WORKING_DAYS = {"MO", "TU", "WE", "TH", "FR"}
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}

Terms = Mapping[str, Any]


def describe_terms(terms: Terms) -> str:
    """Return a sentence of when the windows of a schedule take place; `terms` is a schedule of the API."""
    recurrence = terms["recurrence"]
    parts = [f"{describe_days(recurrence)}, {describe_window(terms['window'])} ({terms['timezone']})"]
    parts += _limits(recurrence)
    return ", ".join(parts)


def describe_days(recurrence: Terms) -> str:
    """Return the days on which windows begin: `Every Friday`, `On the last working day of every month`."""
    frequency = recurrence["frequency"]
    start = date.fromisoformat(recurrence["startDate"])
    if frequency == "once":
        return f"On {format_day(start)}"
    if frequency == "dates":
        days = [format_day(date.fromisoformat(day)) for day in sorted(recurrence["dates"])]
        return f"On {shortened(days)}"
    every = _every(_UNITS[frequency], recurrence.get("interval", 1))
    names, months = recurrence.get("byDay", ()), recurrence.get("byMonth", ())
    within = f" in {join_words([MONTHS[month - 1] for month in sorted(months)])}" if months else ""
    if frequency == "daily":
        return _daily(recurrence, every) + within
    if frequency == "weekly":
        return _weekly(recurrence, every, names or [list(WEEKDAYS)[start.weekday()]]) + within
    return _in_months(recurrence, every, start, within)


def describe_window(window: Terms) -> str:
    """Return the hours of a window: `from 18:00 to 08:00 three days later`."""
    start, end, days = window["startTime"], window["endTime"], window.get("days", 0)
    if start == end == "00:00" and days:
        return "the whole day" if days == 1 else f"{days} whole days"
    later = {0: "", 1: " on the next day"}.get(days, f" {days} days later")
    return f"from {start} to {end}{later}"


def format_day(day: date) -> str:
    """Return a day as `24 December 2026`."""
    return f"{day:%-d %B %Y}"


def _every(unit: str, interval: int) -> str:
    return f"every {unit}" if interval == 1 else f"every {interval} {unit}s"


def _daily(recurrence: Terms, every: str) -> str:
    named = _weekday_names(recurrence.get("byDay", ()))
    text = _capitalized(every)
    if named:
        text = f"Every {named}" if every == "every day" else f"{text} that is a {named}"
    if recurrence.get("byMonthDay"):
        text += f", on {_month_days(recurrence['byMonthDay'])} of the month"
    return text


def _weekly(recurrence: Terms, every: str, names: Sequence[str]) -> str:
    if positions := recurrence.get("bySetPosition"):
        return f"On the {_positions(positions)} {_weekday_names(names, 'or')} of {every}"
    if every == "every week":
        return f"Every {_weekday_names(names)}"
    first = recurrence.get("weekStart", "MO")
    begins = "" if first == "MO" else f" (weeks begin on {WEEKDAYS[first]})"
    return f"{_capitalized(every)} on {_weekday_names(names)}{begins}"


def _in_months(recurrence: Terms, every: str, start: date, within: str) -> str:
    """Return the days of a monthly or yearly rule."""
    names, month_days = recurrence.get("byDay", ()), recurrence.get("byMonthDay", ())
    positions = recurrence.get("bySetPosition")
    yearly = recurrence["frequency"] == "yearly"
    if yearly and not within:
        within = f" in {MONTHS[start.month - 1]}"
    period = f"{every}{within}" if not yearly else f"{within.removeprefix(' in ')} {every}"
    if not names:
        days = month_days or [start.day]
        if positions:
            return f"On the {_positions(positions)} of {_month_days(days)} of {period}"
        return f"On {_month_days(days)} of {period}"
    if month_days:
        picked = f"the {_positions(positions)} of " if positions else ""
        return f"On {picked}{_weekday_names(names, 'or')} on {_month_days(month_days)} of {period}"
    if positions:
        return f"On the {_positions(positions)} {_weekday_names(names, 'or')} of {period}"
    if names[0][-2:] != names[0]:
        counted = [f"{_ordinal(int(name[:-2]))} {WEEKDAYS[name[-2:]]}" for name in names]
        return f"On the {join_words(counted)} of {period}"
    return f"Every {_weekday_names(names)} of {period}"


def _weekday_names(names: Sequence[str], last: str = "and") -> str:
    """Return weekdays in the order of the week; Monday to Friday are a working day."""
    if set(names) == _WORKING_DAYS:
        return "working day"
    return join_words([name for code, name in WEEKDAYS.items() if code in names]).replace(" and ", f" {last} ")


def _month_days(days: Sequence[int]) -> str:
    counted = sorted(day for day in days if day > 0) + sorted((day for day in days if day < 0), reverse=True)
    return join_words(["the last day" if day == -1 else f"the {_number(day)}" for day in counted])


def _positions(positions: Sequence[int]) -> str:
    return join_words([_ordinal(position) for position in positions])


def _ordinal(number: int) -> str:
    """Return `first`, `last`, `second last`, or `12th`."""
    if number == -1:
        return "last"
    word = _ORDINALS.get(abs(number)) or _number(abs(number))
    return word if number > 0 else f"{word} last"


def _number(day: int) -> str:
    """Return `1st`, `12th`, or `2nd last day`."""
    count = abs(day)
    suffix = "th" if 10 < count % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{suffix}" + (" last day" if day < 0 else "")


def _limits(recurrence: Terms) -> list[str]:
    """Return from when, until when, and except when it recurs."""
    if recurrence["frequency"] in {"once", "dates"}:
        return []
    parts = [f"from {format_day(date.fromisoformat(recurrence['startDate']))} on"]
    if until := recurrence.get("until"):
        parts.append(f"until {format_day(date.fromisoformat(until))}")
    if count := recurrence.get("count"):
        parts.append("once in all" if count == 1 else f"{count} times in all")
    if except_dates := recurrence.get("exceptDates"):
        days = [format_day(date.fromisoformat(day)) for day in sorted(except_dates)]
        parts.append(f"except on {shortened(days)}")
    return parts


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
