"""The terms of schedules in words."""

from typing import Any

import pytest

from rules.freezes.scope_words import describe_scope
from web.dashboard.planning.words import describe_days, describe_terms, describe_window

START = {"startDate": "2026-11-06"}
DAYS: list[tuple[dict[str, Any], str]] = [
    ({"frequency": "once"}, "On 6 November 2026"),
    ({"frequency": "daily"}, "Every day"),
    ({"frequency": "daily", "interval": 3}, "Every 3 days"),
    ({"frequency": "daily", "byDay": ["MO", "TU", "WE", "TH", "FR"]}, "Every working day"),
    ({"frequency": "daily", "interval": 2, "byDay": ["SA"]}, "Every 2 days that is a Saturday"),
    ({"frequency": "daily", "byMonth": [12], "byMonthDay": [24]}, "Every day, on the 24th of the month in December"),
    ({"frequency": "weekly"}, "Every Friday"),
    ({"frequency": "weekly", "byDay": ["SU", "SA"]}, "Every Saturday and Sunday"),
    (
        {"frequency": "weekly", "interval": 2, "byDay": ["FR"], "weekStart": "SU"},
        "Every 2 weeks on Friday (weeks begin on Sunday)",
    ),
    (
        {"frequency": "weekly", "byDay": ["MO", "WE"], "bySetPosition": [-1]},
        "On the last Monday or Wednesday of every week",
    ),
    ({"frequency": "monthly"}, "On the 6th of every month"),
    ({"frequency": "monthly", "byMonthDay": [-1, 1, 15]}, "On the 1st, the 15th and the last day of every month"),
    ({"frequency": "monthly", "byMonthDay": [-2]}, "On the 2nd last day of every month"),
    ({"frequency": "monthly", "byDay": ["1MO", "-1FR"]}, "On the first Monday and last Friday of every month"),
    ({"frequency": "monthly", "byDay": ["FR"], "byMonthDay": [13]}, "On Friday on the 13th of every month"),
    ({"frequency": "monthly", "byDay": ["FR"]}, "Every Friday of every month"),
    (
        {"frequency": "monthly", "byDay": ["MO", "TU", "WE", "TH", "FR"], "bySetPosition": [-1]},
        "On the last working day of every month",
    ),
    (
        {"frequency": "monthly", "interval": 3, "byMonthDay": [1], "byMonth": [3, 12]},
        "On the 1st of every 3 months in March and December",
    ),
    ({"frequency": "yearly"}, "On the 6th of November every year"),
    ({"frequency": "yearly", "byMonth": [12], "byMonthDay": [24]}, "On the 24th of December every year"),
    ({"frequency": "yearly", "byMonth": [11], "byDay": ["4TH"]}, "On the fourth Thursday of November every year"),
    ({"frequency": "dates", "dates": ["2026-12-24", "2026-12-31"]}, "On 24 December 2026 and 31 December 2026"),
    (
        {"frequency": "dates", "dates": [f"2026-12-0{day}" for day in range(1, 10)]},
        "On 1 December 2026, 2 December 2026, 3 December 2026 and 6 more",
    ),
]


@pytest.mark.parametrize(("recurrence", "words"), DAYS)
def test_recurrence_is_described_by_its_days(recurrence: dict[str, Any], words: str) -> None:
    assert describe_days({**START, **recurrence}) == words


@pytest.mark.parametrize(
    ("start", "end", "days", "words"),
    [
        ("09:00", "17:00", 0, "from 09:00 to 17:00"),
        ("22:00", "06:00", 1, "from 22:00 to 06:00 on the next day"),
        ("18:00", "08:00", 3, "from 18:00 to 08:00 3 days later"),
        ("00:00", "00:00", 1, "the whole day"),
        ("00:00", "00:00", 14, "14 whole days"),
    ],
)
def test_window_is_described_by_its_hours(start: str, end: str, days: int, words: str) -> None:
    assert describe_window({"startTime": start, "endTime": end, "days": days}) == words


def test_terms_are_described_with_zone_and_limits() -> None:
    recurrence = {"frequency": "weekly", **START, "until": "2027-01-31", "exceptDates": ["2026-12-25"]}
    window = {"startTime": "18:00", "endTime": "08:00", "days": 3}
    assert describe_terms({"recurrence": recurrence, "window": window, "timezone": "Europe/London"}) == (
        "Every Friday, from 18:00 to 08:00 3 days later (Europe/London), from 6 November 2026 on, "
        "until 31 January 2027, except on 25 December 2026"
    )
    counted = {"frequency": "weekly", **START, "count": 4}
    assert describe_terms({"recurrence": counted, "window": window, "timezone": "UTC"}).endswith("4 times in all")


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ({"type": "organization"}, "The whole organisation"),
        ({"type": "organization", "branches": ["main", "release/*"]},
         "The whole organisation (branches main and release/*)"),
        ({"type": "glob", "patterns": ["acme/*"]}, "Repositories matching acme/*"),
        ({"type": "glob", "patterns": ["acme/*", "!acme/docs-*", "!acme/old", "acme/docs-api"]},
         "Repositories matching acme/* but not acme/docs-* and acme/old but also acme/docs-api"),
        ({"type": "organization", "branches": ["*", "!next"]}, "The whole organisation (branches * but not next)"),
        ({"type": "repositories", "repositories": ["a/b", "a/c"]}, "a/b and a/c"),
        ({"type": "branch", "repository": "acme/web", "branch": "main"}, "acme/web:main"),
        ({"type": "branch", "branchId": "wbr_1"}, "One branch"),
    ],
)  # fmt: skip
def test_scope_is_described_by_what_it_covers(scope: dict[str, Any], words: str) -> None:
    assert describe_scope(scope) == words
