"""Windows that were taken from the plan before they began: moved, or of a disabled or deleted schedule.

Calendars show them as cancelled, because some programs keep an event that is only gone. A window that is planned again
at the same time has the same id, and is a row of `occurrences` again.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from sqlalchemy import text

from models.schedules import Schedule
from services.core.unit_of_work import UnitOfWork

_RECORD = text("""
    INSERT INTO cancelled_windows (id, organization_id, schedule_id, starts_at, ends_at, cancelled_at)
    SELECT gone.id, :organization, :schedule, gone.starts_at, gone.ends_at, :now
    FROM unnest(CAST(:ids AS text[]), CAST(:starts AS timestamptz[]), CAST(:ends AS timestamptz[]))
        AS gone (id, starts_at, ends_at)
    ON CONFLICT (id) DO UPDATE SET ends_at = excluded.ends_at, cancelled_at = excluded.cancelled_at
""")


class WindowRow(Protocol):
    """A row of `occurrences`, or these columns of it."""

    id: str
    starts_at: datetime
    ends_at: datetime
    skip_reason: str | None


def record_cancelled(uow: UnitOfWork, schedule: Schedule, windows: Iterable[WindowRow]) -> None:
    """Record windows of a schedule that are being deleted; what is over, or was never shown by a clock, is left out."""
    shown = [one for one in windows if one.ends_at > uow.now and one.skip_reason != "no_such_time"]
    if shown:
        values = {
            "organization": schedule.organization_id,
            "schedule": schedule.id,
            "now": uow.now,
            "ids": [one.id for one in shown],
            "starts": [one.starts_at for one in shown],
            "ends": [one.ends_at for one in shown],
        }
        uow.session.execute(_RECORD, values)
