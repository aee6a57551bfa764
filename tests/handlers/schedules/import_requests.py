"""Calendars that are imported as schedules, and what became of them."""

from datetime import date, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.schedules import Schedule
from tests import factories
from tests.handlers.callers import Caller, answered
from tests.handlers.schedules.requests import EVERYTHING
from tests.integrations.calendars.vectors import calendar

IMPORT = "/v1/schedules/import"
TODAY = factories.now().date()
SOON = TODAY + timedelta(days=20)
NEXT_YEAR = TODAY.year + 1
LINES = "\nDTSTART;VALUE=DATE:{:%Y%m%d}\nSUMMARY:{}"


def event(uid: str, *lines: str, name: str = "Inventory", day: date = SOON) -> str:
    return "\n".join([f"UID:{uid}{LINES.format(day, name)}", *lines])


def of_file(*events: str, **changes: Any) -> dict[str, Any]:
    return {"format": "ics", "content": calendar(*events), "scope": EVERYTHING, "timezone": "UTC", **changes}


def of_country(country: str = "GB", **changes: Any) -> dict[str, Any]:
    given = {"format": "holidays", "country": country, "years": [NEXT_YEAR], "scope": EVERYTHING, "timezone": "UTC"}
    return {**given, **changes}


NO_COUNTS = dict.fromkeys(("created", "updated", "unchanged", "removed", "missing", "skipped", "refused"), 0)
"""What an import that finds nothing reports."""


def imported(caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
    return answered(caller.post(IMPORT, body))


def actions(shown: dict[str, Any]) -> dict[str, str]:
    return {row["uid"]: row["action"] for row in shown["data"]}


def only(shown: dict[str, Any]) -> dict[str, Any]:
    (row,) = shown["data"]
    found: dict[str, Any] = row
    return found


def kept(session: Session) -> list[Schedule]:
    """Return the schedules that are not deleted, the oldest first."""
    session.expire_all()
    return list(session.scalars(select(Schedule).where(Schedule.deleted_at.is_(None)).order_by(Schedule.id)))
