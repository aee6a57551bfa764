"""Requests about schedules in tests, and how responses and the audit log are read."""

from datetime import date, timedelta
from typing import Any

from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from models.schedules import Schedule
from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered

EVERYTHING = {"type": "organization"}
REASON = "No release team at night"
SOON = (factories.now() + timedelta(days=2)).date()
DAILY = {"frequency": "daily", "startDate": SOON.isoformat()}
NOON = {"startTime": "12:00", "endTime": "13:00"}
NIGHT = {"startTime": "22:00", "endTime": "06:00", "days": 1}
FIRST = {
    "name": "Nights",
    "scope": EVERYTHING,
    "timezone": "UTC",
    "recurrence": DAILY,
    "window": NIGHT,
    "reason": REASON,
}
UNKNOWN = "sch_00000000000000000000000000"
FIELDS = set(load_contract().document["components"]["schemas"]["Schedule"]["required"])


def starts(day: date, hour: int) -> str:
    return f"{day.isoformat()}T{hour:02}:00:00Z"


def created(caller: Caller, **changes: Any) -> dict[str, Any]:
    return answered(caller.post("/v1/schedules", {**FIRST, **changes}), 201)


def rows(error: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["path"], row["code"]) for row in error["details"]]


def details(session: Session, action: str) -> dict[str, Any]:
    """Return the details of the only entry of an action."""
    [entry] = factories.audit_entries(session, action)
    return entry.details


def running(session: Session, acme: Tenant, web: WatchedBranch, schedule_id: str) -> str:
    """Have a window of a schedule open, and return its freeze."""
    now = factories.now()
    ends_at = now + timedelta(hours=1)
    freeze = factories.freeze(
        session, acme.organization, [web], source="schedule", schedule_id=schedule_id, ends_at=ends_at
    )
    schedule = session.get_one(Schedule, schedule_id)
    started = {"started_at": freeze.started_at, "freeze_id": freeze.id}
    factories.occurrence(session, schedule, starts_at=freeze.started_at, ends_at=ends_at, **started)
    return freeze.id
