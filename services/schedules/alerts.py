"""Alerts and audit data of schedules: windows that were missed, have no targets, or would not be enforced."""

from collections.abc import Sequence
from typing import Any

from models.schedules import Occurrence, Schedule
from rules.web_addresses import SCHEDULE, WebOrigin
from services.alerts.alerts import Alert
from services.alerts.past_windows import MISSED, WITHOUT_TARGETS, key_of_past_window
from services.core.unit_of_work import UnitOfWork
from services.github_access.client import page

NOT_ENFORCED = "window_not_enforced"
"""The type of the alert about a window that would not block."""
MAX_LISTED = 5
"""Branches that a message lists."""


def subject(schedule: Schedule) -> tuple[str, str, str]:
    """Return a schedule as the subject of an alert and the target of an audit entry."""
    return "schedule", schedule.id, schedule.name


def window(occurrence: Occurrence) -> dict[str, Any]:
    """Return an occurrence for an audit entry."""
    return {"occurrenceId": occurrence.id, "startsAt": occurrence.starts_at, "endsAt": occurrence.ends_at}


def audit_skipped(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> None:
    """Audit that an occurrence is skipped, and why."""
    uow.audit(
        "occurrence.skipped",
        subject(schedule),
        before={"state": "planned", "skipReason": None},
        after={"state": "skipped", "skipReason": occurrence.skip_reason},
        **window(occurrence),
    )


def audit_unskipped(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> None:
    """Audit that an occurrence that a person has skipped is planned again."""
    uow.audit(
        "occurrence.unskipped",
        subject(schedule),
        before={"state": "skipped", "skipReason": occurrence.skip_reason},
        after={"state": "planned", "skipReason": None},
        **window(occurrence),
    )


def missed(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> Alert:
    """Return the alert for a missed window; a later one replaces an earlier one."""
    message = (
        f"The window of {schedule.name} {_times(occurrence)} passed without a freeze because nothing started it. "
        "Check what was merged in that time, and whether workers are running."
    )
    key = key_of_past_window(MISSED, schedule.id)
    return Alert(key, MISSED, "critical", subject(schedule), message, action_of(uow, schedule))


def without_targets(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> Alert:
    """Return the alert for a window that was skipped because its scope covers no branch."""
    message = (
        f"The window of {schedule.name} {_times(occurrence)} was skipped: its scope covers no watched branch. Change "
        "the scope, or watch the branches that it should cover."
    )
    return Alert(
        key_of_past_window(WITHOUT_TARGETS, schedule.id),
        WITHOUT_TARGETS,
        "warning",
        subject(schedule),
        message,
        action_of(uow, schedule),
    )


def not_enforced(
    uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence, unenforced: Sequence[tuple[str, str]], reached: int
) -> Alert:
    """Return the alert for a window that would not block some of its branches, given as (`owner/name`, branch)."""
    named = ", ".join(f"{repository}:{branch}" for repository, branch in unenforced[:MAX_LISTED])
    more = f" and {len(unenforced) - MAX_LISTED} more" if len(unenforced) > MAX_LISTED else ""
    message = (
        f"The window of {schedule.name} {_times(occurrence)} is not known to block {len(unenforced)} of {reached} "
        f"branches: {named}{more}."
    )
    repository, branch = unenforced[0]
    rules = page(uow, *repository.split("/", 1), "rules", ref=f"refs/heads/{branch}")
    key = key_of_not_enforced(occurrence.id)
    return Alert(key, NOT_ENFORCED, "critical", subject(schedule), message, ("Open the branch's rules", rules))


def key_of_not_enforced(occurrence_id: str) -> str:
    """Return the key of the alert; the second word is the occurrence's id."""
    return f"{NOT_ENFORCED} {occurrence_id}"


def _times(occurrence: Occurrence) -> str:
    start, end = (f"{at:%Y-%m-%d %H:%M}" for at in (occurrence.starts_at, occurrence.ends_at))
    return f"from {start} to {end} UTC"


def action_of(uow: UnitOfWork, schedule: Schedule) -> tuple[str, str]:
    """Return the action of an alert that concerns a schedule as a whole: its page."""
    return "Open the schedule", f"{uow.ports[WebOrigin].url}{SCHEDULE.format(id=schedule.id)}"
