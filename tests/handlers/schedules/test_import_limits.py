"""Imports at the edges: what is too long, what is over, and what says the same in other words."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from integrations.calendars.prevalidation import MAX_EVENTS
from services.schedules.imports import MAX_SCHEDULES
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.import_requests import (
    IMPORT,
    NEXT_YEAR,
    NO_COUNTS,
    SOON,
    TODAY,
    actions,
    event,
    imported,
    kept,
    of_country,
    of_file,
    only,
)

pytestmark = pytest.mark.usefixtures("calendars_read_in_process")
EVENING = {"startTime": "17:00", "endTime": "08:00"}
LONG_AGO = TODAY - timedelta(days=400)


def test_holidays_with_windows_that_are_too_long_are_rejected(member: Caller, session: Session) -> None:
    body = of_country(window={"startTime": "17:00", "endTime": "08:00", "days": 366}, dayBefore=True)
    error = refusal(member.post(IMPORT, body), 422, "invalid_parameter")
    assert {row["path"] for row in error["details"]} == {"/window"}
    assert "takes 367 days; a window can take at most 366" in error["message"]
    assert kept(session) == []


def test_past_events_do_not_count_towards_the_limit_of_an_import(member: Caller, session: Session) -> None:
    over = [event(f"{number}", day=LONG_AGO) for number in range(MAX_SCHEDULES + 1)]
    assert len(over) < MAX_EVENTS
    shown = imported(member, of_file(*over, event("next", day=SOON)))
    assert shown["counts"] == {**NO_COUNTS, "created": 1, "skipped": len(over)}
    assert len(kept(session)) == 1


def test_equivalent_import_is_unchanged_and_not_audited(member: Caller, acme: Tenant, session: Session) -> None:
    made = only(imported(member, of_file(event("1"), reason=" Stock is taken  ")))
    assert actions(imported(member, of_file(event("1"), reason="Stock is taken"))) == {"1": "unchanged"}
    later = SOON + timedelta(days=1)
    by_hand = {"recurrence": {"frequency": "once", "startDate": later.isoformat()}}
    member.patch(f"/v1/schedules/{made['scheduleId']}", by_hand)
    audited, updated_at = acme.audit(), kept(session)[0].updated_at
    moved = of_file(event("1", day=later), reason="Stock is taken")
    assert actions(imported(member, moved)) == {"1": "unchanged"}
    assert (acme.audit(), kept(session)[0].updated_at) == (audited, updated_at)


class TestImportOfOtherYears:
    def test_import_of_other_years_keeps_a_window_changed_by_hand(self, member: Caller, session: Session) -> None:
        both = of_country(together=True, years=[NEXT_YEAR, NEXT_YEAR + 1])
        imported(member, both)
        for row in kept(session):
            member.patch(f"/v1/schedules/{row.id}", {"window": {**EVENING, "days": row.window["days"]}})
        before = [(row.recurrence, row.window) for row in kept(session)]
        again = imported(member, of_country(together=True))
        assert {row["action"] for row in again["data"]} == {"unchanged"}
        assert [(row.recurrence, row.window) for row in kept(session)] == before

    def test_import_warns_when_another_window_removes_other_years(self, member: Caller) -> None:
        imported(member, of_country(years=[NEXT_YEAR, NEXT_YEAR + 1]))
        shown = imported(member, of_country(dayBefore=True))
        [row] = [row for row in shown["data"] if row["name"] == "Good Friday"]
        assert (row["action"], row["code"]) == ("updated", "cut")
        assert (
            row["message"]
            == f"no longer has days of {NEXT_YEAR + 1}, which had another window; request those years too"
        )
        all_years = of_country(years=[NEXT_YEAR, NEXT_YEAR + 1], dayBefore=True)
        assert {row["code"] for row in imported(member, all_years)["data"]} == {None}
