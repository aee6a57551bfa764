"""Recurring events that are imported: which stay rules, and which are listed and say so."""

from datetime import date

import pytest

from tests.handlers.callers import Caller
from tests.handlers.schedules.import_requests import NEXT_YEAR, event, imported, of_file, only

NEW_YEAR = date(NEXT_YEAR, 1, 1)


def test_endless_rule_with_an_excluded_day_is_imported_as_a_rule(member: Caller) -> None:
    rule = "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"
    start = date(2030, 1, 31)
    made = only(imported(member, of_file(event("1", rule, "EXDATE;VALUE=DATE:20300228", day=start))))
    assert (made["action"], made["code"]) == ("created", None)
    assert made["terms"]["recurrence"] == {
        "frequency": "monthly",
        "startDate": "2030-01-31",
        "byDay": ["MO", "TU", "WE", "TH", "FR"],
        "bySetPosition": [-1],
        "exceptDates": ["2030-02-28"],
    }
    shown = member.get(f"/v1/schedules/{made['scheduleId']}/preview", limit=3).json()
    assert [window["localStart"][:10] for window in shown["occurrences"]] == ["2030-01-31", "2030-03-29", "2030-04-30"]


@pytest.mark.parametrize(
    ("rule", "frequency"),
    [("FREQ=YEARLY;BYYEARDAY=1", "dates"), ("FREQ=YEARLY;INTERVAL=10;BYYEARDAY=1", "once")],
)
def test_endless_rule_that_must_be_listed_says_until_when(member: Caller, rule: str, frequency: str) -> None:
    made = only(imported(member, of_file(event("1", f"RRULE:{rule}", day=NEW_YEAR))))
    recurrence = made["terms"]["recurrence"]
    last = recurrence.get("dates", [recurrence["startDate"]])[-1]
    assert (made["action"], recurrence["frequency"], made["code"]) == ("created", frequency, "cut")
    assert made["message"] == f"has more days than a schedule can list; import it again before {last}"


def test_yearly_rule_that_starts_the_day_before_stays_endless(member: Caller) -> None:
    made = only(imported(member, of_file(event("1", "RRULE:FREQ=YEARLY", day=NEW_YEAR), dayBefore=True)))
    assert made["code"] is None
    assert made["terms"]["recurrence"] == {
        "frequency": "yearly",
        "startDate": f"{NEXT_YEAR - 1}-12-31",
        "byMonth": [12],
        "byMonthDay": [-1],
    }
