"""Asking what lies ahead: previews, occurrences of a range of time, a month's calendar."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from models.schedules import Occurrence, Schedule
from tests import factories
from tests.handlers.callers import Caller, answered
from tests.handlers.schedules.requests import DAILY, NIGHT

DRAFT = {"timezone": "UTC", "recurrence": DAILY, "window": NIGHT}
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def add(session: Session, of: Schedule, start: str, end: str, **columns: Any) -> Occurrence:
    """Add an occurrence between two instants, UTC."""
    return factories.occurrence(session, of, starts_at=at(start), ends_at=at(end), **columns)


def preview(caller: Caller, **changes: Any) -> dict[str, Any]:
    return answered(caller.post("/v1/schedules/preview", {**DRAFT, **changes}))


def listed(caller: Caller, **params: Any) -> list[str]:
    return [row["id"] for row in answered(caller.get("/v1/schedules/occurrences", **params))["data"]]


def month(caller: Caller, name: str, **params: Any) -> dict[str, list[str]]:
    """Return the occurrences of each day of a month that has any."""
    days = answered(caller.get("/v1/schedules/calendar", month=name, **params))["days"]
    assert all(day["count"] == len(day["occurrences"]) for day in days)
    return {day["date"]: [row["id"] for row in day["occurrences"]] for day in days if day["occurrences"]}
