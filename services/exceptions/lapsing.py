"""Recording that exceptions have ended by their time, or with their freeze: who reads them knew it already."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from models.exceptions import PullRequestException
from rules.permissions import SYSTEM
from services.unit import Unit


def record_end(unit: Unit, subject: tuple[str, str, str], row: PullRequestException, ended_at: datetime) -> None:
    """Write down the end of a locked row that is over; the audit names the service, whoever happens to notice."""
    row.expired_at = ended_at
    told = {
        "id": row.id,
        "freezeId": row.freeze_id,
        "before": {"state": row.decision or "pending"},
        "after": {"state": "expired", "endedAt": ended_at},
    }
    with as_service(unit):
        unit.audit("exception.expired", subject, rows=[told])


@contextmanager
def as_service(unit: Unit) -> Iterator[None]:
    """Do what would have been done without the unit's actor, as the service itself."""
    caller = unit.caller
    unit.caller = replace(caller, actor=SYSTEM, source="system")
    try:
        yield
    finally:
        unit.caller = caller
