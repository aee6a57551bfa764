"""Recording that exceptions have ended by their time, or with their freeze: who reads them knew it already."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from models.exceptions import PullRequestException
from rules.permissions import SYSTEM
from services.unit import Unit


def record_end(unit: Unit, subject: tuple[str, str, str], row: PullRequestException, ended_at: datetime) -> None:
    """Write down the end of a locked row that is over; the audit names the service, whoever happens to notice."""
    row.expired_at = ended_at
    caller = unit.caller
    unit.caller = replace(caller, actor=SYSTEM, source="system")
    unit.audit(
        "exception.expired",
        subject,
        rows=[{"id": row.id, "freezeId": row.freeze_id, "endedAt": ended_at.isoformat()}],
    )
    unit.caller = caller


def lapsed(rows: Sequence[PullRequestException], now: datetime) -> list[PullRequestException]:
    """Return those of the rows whose own time has passed."""
    return [row for row in rows if row.expires_at is not None and row.expires_at <= now]
