"""Recurrence rules of calendars as recurrences of schedules, if these are exactly equivalent (RFC 5545, 3.3.10).

Parts that schedules do not support but libraries agree on (BYSETPOS, BYYEARDAY) are expanded into days. Rules that are
rejected for schedules, because libraries disagree, or because they are out of range, are rejected here as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from rules.errors import ServiceError
from rules.time.recurrence import EARLIEST, LATEST, Frequency, Recurrence, check, days

FREQUENCIES: dict[str, Frequency] = {"DAILY": "daily", "WEEKLY": "weekly", "MONTHLY": "monthly", "YEARLY": "yearly"}
PLAIN = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "WKST"})
EXPANDED = frozenset({"BYSETPOS", "BYYEARDAY", "BYWEEKNO"})

Rule = Mapping[str, Sequence[Any]]


class UnusableError(Exception):
    """An event without a window: a code of the contract and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def translate(rule: Rule, start: date, clock: time | None, zone: ZoneInfo) -> Recurrence | None:
    """Return the recurrence of an event that starts on `start`, or None if it must be expanded.

    `clock` is the local time at which it starts, None for whole days: an UNTIL before it excludes its day.
    Raise UnusableError.
    """
    written = _recurrence(rule, start, _until(rule, clock, zone))
    _check(replace(written, start_date=max(start, EARLIEST)))
    if set(rule) & EXPANDED or (_has_other_week_start(rule) and written.interval > 1):
        return None
    if start < EARLIEST:
        return _from_earliest(written)
    first = next(days(written, start, start), None)
    return written if first == start else None


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
    )


def _first(rule: Rule, name: str, otherwise: Any) -> Any:
    return next(iter(rule.get(name, ())), otherwise)


def _check(recurrence: Recurrence) -> None:
    try:
        check(recurrence)
    except ServiceError as error:
        why = error.message.removesuffix(".")
        raise UnusableError("unsupported_recurrence", f"has a rule that is not supported: {why}") from None


def _until(rule: Rule, clock: time | None, zone: ZoneInfo) -> date | None:
    until = _first(rule, "UNTIL", None)
    if until is None:
        return None
    if not isinstance(until, datetime):
        return until if isinstance(until, date) else None
    shown = until.astimezone(zone) if until.tzinfo is not None and clock is not None else until
    if clock is None or clock <= shown.time():
        return min(shown.date(), LATEST)
    return min(shown.date(), LATEST) - timedelta(days=1)


def _has_other_week_start(rule: Rule) -> bool:
    return str(_first(rule, "WKST", "MO")) != "MO" and _first(rule, "FREQ", "") in {"WEEKLY", "YEARLY"}


def _from_earliest(recurrence: Recurrence) -> Recurrence | None:
    """Return the same rule from its first day on which a schedule may start; intervals count from there."""
    if recurrence.count is not None or recurrence.start_date.year < 1900:
        return None
    first = next(days(recurrence, EARLIEST, LATEST), None)
    return None if first is None else replace(recurrence, start_date=first)
