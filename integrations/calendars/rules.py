"""Recurrence rules of calendars as recurrences of schedules, if these are exactly equivalent (RFC 5545, 3.3.10).

Parts that schedules do not support but libraries agree on (BYYEARDAY) are expanded into days. Rules that are rejected
for schedules, because libraries disagree, or because they are out of range, are rejected here as well.

One rule can be written in several ways. The recurrence is the plainest: an ordinal instead of a position (`-1FR`), and
positions and a start of the week only where they matter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from rules.errors import ServiceError
from rules.time.recurrence import EARLIEST, LATEST, WEEKDAYS, Frequency, Recurrence, check, days

FREQUENCIES: dict[str, Frequency] = {"DAILY": "daily", "WEEKLY": "weekly", "MONTHLY": "monthly", "YEARLY": "yearly"}
PLAIN = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "WKST"})
EXPANDED = frozenset({"BYYEARDAY", "BYWEEKNO"})
MAX_ORDINAL = 5
"""The most that a month has of one weekday."""

Rule = Mapping[str, Sequence[Any]]


class UnusableError(Exception):
    """An event without a window: a code of the contract and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def translate(rule: Rule, start: date, clock: time | None, zone: ZoneInfo) -> Recurrence | None:
    """Return the recurrence of an event that starts on `start`, or None if it must be expanded.

    It has the days of the rule, of which `start` need not be one. `clock` is the local time at which the event starts,
    None for whole days: an UNTIL before it excludes its day, but for the start. Raise UnusableError.
    """
    written = _plainest(_recurrence(rule, start, _until(rule, start, clock, zone)))
    by_day = () if "BYWEEKNO" in rule else written.by_day
    _check(replace(written, start_date=max(start, EARLIEST), by_day=by_day))
    return None if set(rule) & EXPANDED else written


def from_earliest(recurrence: Recurrence) -> Recurrence | None:
    """Return the same days from the first on which a schedule may start; None if they cannot be counted from there."""
    if recurrence.start_date >= EARLIEST:
        return recurrence
    first = None if recurrence.count else next(days(recurrence, EARLIEST, LATEST), None)
    return None if first is None else replace(recurrence, start_date=first)


def _recurrence(rule: Rule, start: date, until: date | None) -> Recurrence:
    frequency = FREQUENCIES.get(_first(rule, "FREQ", ""))
    if frequency is None:
        raise UnusableError("unsupported_recurrence", "recurs more often than daily, or has no frequency")
    if unknown := sorted(set(rule) - PLAIN - EXPANDED):
        raise UnusableError("unsupported_recurrence", f"has a rule with {unknown[0][:20]}, which is not supported")
    if "BYWEEKNO" in rule and "BYDAY" not in rule:
        raise UnusableError("unsupported_recurrence", "counts weeks without weekdays, which is ambiguous")
    return Recurrence(
        frequency,
        start,
        _first(rule, "INTERVAL", 1),
        tuple(dict.fromkeys(str(day).upper() for day in rule.get("BYDAY", ()))),
        tuple(dict.fromkeys(int(day) for day in rule.get("BYMONTHDAY", ()))),
        tuple(dict.fromkeys(int(month) for month in rule.get("BYMONTH", ()))),
        until,
        _first(rule, "COUNT", None),
        by_set_position=tuple(dict.fromkeys(int(position) for position in rule.get("BYSETPOS", ()))),
        week_start=str(_first(rule, "WKST", "MO")).upper(),
    )


def _plainest(recurrence: Recurrence) -> Recurrence:
    """Return a recurrence with the same days, without positions and a start of the week where these can be left out."""
    positions = recurrence.by_set_position
    if positions and recurrence.frequency == "daily":
        return replace(recurrence, by_set_position=()) if not {1, -1}.isdisjoint(positions) else recurrence
    if positions:
        recurrence = _with_days(recurrence)
    if positions and recurrence.frequency == "weekly" and not recurrence.by_month:
        recurrence = _with_picked_weekdays(recurrence)
    elif positions and recurrence.frequency != "weekly":
        recurrence = _with_ordinals(recurrence)
    return without_week_start(recurrence)


def _with_days(recurrence: Recurrence) -> Recurrence:
    """Return a recurrence that says which days its positions count."""
    if recurrence.by_day or recurrence.by_month_day:
        return recurrence
    start = recurrence.start_date
    if recurrence.frequency == "weekly":
        return replace(recurrence, by_day=(WEEKDAYS[start.weekday()],))
    by_month = recurrence.by_month or ((start.month,) if recurrence.frequency == "yearly" else ())
    return replace(recurrence, by_month_day=(start.day,), by_month=by_month)


def _with_picked_weekdays(recurrence: Recurrence) -> Recurrence:
    """Return a weekly recurrence with those of its weekdays that have the positions, which all weeks have in common."""
    in_order = sorted(recurrence.by_day, key=_order_in_week(recurrence.week_start))
    picked = [
        day
        for place, day in enumerate(in_order)
        if not {place + 1, place - len(in_order)}.isdisjoint(recurrence.by_set_position)
    ]
    return replace(recurrence, by_day=tuple(picked), by_set_position=()) if picked else recurrence


def _with_ordinals(recurrence: Recurrence) -> Recurrence:
    """Return a recurrence with an ordinal in place of positions of one weekday in one month."""
    months = 1 if recurrence.frequency == "monthly" else len(recurrence.by_month)
    is_weekday = len(recurrence.by_day) == 1 and recurrence.by_day[0] in WEEKDAYS and not recurrence.by_month_day
    ordinals = [position for position in recurrence.by_set_position if abs(position) <= MAX_ORDINAL]
    if months != 1 or not is_weekday or not ordinals:
        return recurrence
    by_day = tuple(f"{ordinal}{recurrence.by_day[0]}" for ordinal in ordinals)
    return replace(recurrence, by_day=by_day, by_set_position=())


def without_week_start(recurrence: Recurrence) -> Recurrence:
    """Return a recurrence whose weeks start on Monday if this changes nothing."""
    if recurrence.frequency == "weekly":
        own = WEEKDAYS[recurrence.start_date.weekday()]
        given, usual = _order_in_week(recurrence.week_start), _order_in_week("MO")
        moves = any(given(name) - given(own) != usual(name) - usual(own) for name in recurrence.by_day)
        if recurrence.by_set_position or (moves and recurrence.interval > 1):
            return recurrence
    return replace(recurrence, week_start="MO")


def _order_in_week(week_start: str) -> Callable[[str], int]:
    """Return the function that numbers the weekdays of a week."""
    return lambda name: (WEEKDAYS.index(name[-2:]) - WEEKDAYS.index(week_start)) % 7


def _first(rule: Rule, name: str, otherwise: Any) -> Any:
    return next(iter(rule.get(name, ())), otherwise)


def _check(recurrence: Recurrence) -> None:
    try:
        check(recurrence)
    except ServiceError as error:
        why = error.message.removesuffix(".")
        raise UnusableError("unsupported_recurrence", f"has a rule that is not supported: {why}") from None


def _until(rule: Rule, start: date, clock: time | None, zone: ZoneInfo) -> date | None:
    until = _first(rule, "UNTIL", None)
    if until is None:
        return None
    if not isinstance(until, datetime):
        return until if isinstance(until, date) else None
    shown = until.astimezone(zone) if until.tzinfo is not None and clock is not None else until
    day = min(shown.date(), LATEST)
    is_excluded = clock is not None and shown.time() < clock and day != start
    return day - timedelta(days=1) if is_excluded else day
