"""The alerts about earlier windows of a schedule, which its next window resolves, and the one about a late begin."""

from datetime import timedelta

from models.schedules import Occurrence, Schedule
from rules.web_addresses import SCHEDULE, WebOrigin
from services.alerts.alerts import Alert, open_alert
from services.core.unit_of_work import UnitOfWork

MISSED, WITHOUT_TARGETS, LATE = "missed_window", "window_without_targets", "late_window"
"""Types of alerts."""
ALERT_AFTER = timedelta(seconds=60)
"""A window that begins this much after its time, or more, has an alert."""


def key_of_past_window(kind: str, schedule_id: str) -> str:
    """Return the key of the alert of a type; a schedule has one for all its windows."""
    return f"{kind} {schedule_id}"


def keys_of_past_windows(schedule_id: str) -> tuple[str, ...]:
    """Return the keys of alerts about earlier windows of a schedule; the next window that starts resolves them."""
    return tuple(key_of_past_window(kind, schedule_id) for kind in (MISSED, WITHOUT_TARGETS, LATE))


def report_late(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence, late_by: timedelta) -> None:
    """Open the alert for a window that began much later than it should have."""
    if late_by < ALERT_AFTER:
        return
    minutes = late_by // timedelta(minutes=1)
    message = (
        f"The window of {schedule.name} that should have begun at {occurrence.starts_at:%Y-%m-%d %H:%M} UTC began "
        f"{minutes} minute{'' if minutes == 1 else 's'} late. Check what was merged before, and whether workers are "
        "running."
    )
    action = ("Open the schedule", f"{uow.ports[WebOrigin].url}{SCHEDULE.format(id=schedule.id)}")
    subject = ("schedule", schedule.id, schedule.name)
    open_alert(uow, Alert(key_of_past_window(LATE, schedule.id), LATE, "warning", subject, message, action))
