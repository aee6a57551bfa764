"""What a rule of exceptions has let in, by day. Pure."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from web.dashboard.planning.weeks import Day
from web.instants import instant_in_zone

WEEKS = 5
"""Weeks that the page of a rule shows, the present one among them."""

Uses = Mapping[date, list[Mapping[str, Any]]]
"""Exceptions of the API by the day on which they were granted."""


def uses_by_day(exceptions: Iterable[Mapping[str, Any]], timezone: str) -> Uses:
    """Return exceptions that a rule granted by their day in a zone, in the order in which they are given."""
    found: dict[date, list[Mapping[str, Any]]] = {}
    for each in exceptions:
        day = instant_in_zone(datetime.fromisoformat(each["decidedAt"]), timezone).date()
        found.setdefault(day, []).append(each)
    return found


def pulls_by_day(uses: Uses) -> dict[date, int]:
    """Return how many pull requests were let in on each day: one with exceptions from several freezes counts once."""
    return {day: len({each["pullRequest"]["id"] for each in listed}) for day, listed in uses.items()}


def last_weeks(today: date) -> list[list[Day]]:
    """Return the last weeks from Monday on; days that are still to come are not `here`."""
    first = today - timedelta(days=today.weekday(), weeks=WEEKS - 1)
    days = [first + timedelta(days=number) for number in range(7 * WEEKS)]
    shown = [Day(day, day <= today, day == today) for day in days]
    return [shown[start : start + 7] for start in range(0, len(shown), 7)]
