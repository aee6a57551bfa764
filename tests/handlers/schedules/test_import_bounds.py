"""Imports at the edges: what is too long, what is over, and what says the same in other words."""

from datetime import timedelta

from sqlalchemy.orm import Session

from integrations.calendars.gate import MOST_EVENTS
from services.schedules.importing import MOST_SCHEDULES
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.importing import (
    IMPORT,
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

LONG_AGO = TODAY - timedelta(days=400)


def test_holidays_whose_windows_would_be_too_long_are_refused_and_told(member: Caller, session: Session) -> None:
    body = of_country(window={"startTime": "17:00", "endTime": "08:00", "days": 366}, dayBefore=True)
    error = refusal(member.post(IMPORT, body), 422, "invalid_parameter")
    assert {row["path"] for row in error["details"]} == {"/window"}
    assert "takes 367 days; a window takes 366" in error["message"]
    assert kept(session) == []


def test_what_is_over_takes_no_room(member: Caller, session: Session) -> None:
    over = [event(f"{number}", day=LONG_AGO) for number in range(MOST_SCHEDULES + 1)]
    assert len(over) < MOST_EVENTS
    told = imported(member, of_file(*over, event("next", day=SOON)))
    assert told["counts"] == {"created": 1, "updated": 0, "unchanged": 0, "removed": 0, "skipped": len(over)}
    assert len(kept(session)) == 1
