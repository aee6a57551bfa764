"""What of a schedule needs attention: windows that passed, that reach nothing, or that would not block."""

from collections.abc import Sequence
from typing import Any

from models.schedules import Occurrence, Schedule
from services.alerts.alerts import Alert
from services.core.unit_of_work import UnitOfWork
from services.github_access.client import page

MISSED, WITHOUT_TARGETS, NOT_ENFORCED = "missed_window", "window_without_targets", "window_not_enforced"
"""Types of items."""
NAMED = 5
"""Branches that a message names."""


def subject(schedule: Schedule) -> tuple[str, str, str]:
    """Return a schedule as the subject of an item, and as the target of an audit entry."""
    return "schedule", schedule.id, schedule.name


def window(occurrence: Occurrence) -> dict[str, Any]:
    """Return what an audit entry tells of an occurrence."""
    return {"occurrenceId": occurrence.id, "startsAt": occurrence.starts_at, "endsAt": occurrence.ends_at}


def audit_skipped(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> None:
    """Record that an occurrence is left out, and why."""
    uow.audit(
        "occurrence.skipped",
        subject(schedule),
        before={"state": "planned", "skipReason": None},
        after={"state": "skipped", "skipReason": occurrence.skip_reason},
        **window(occurrence),
    )


def of_windows_past(schedule: Schedule) -> tuple[str, str]:
    """Return the keys of what was wrong with earlier windows of a schedule; one that begins makes it good."""
    return _key(MISSED, schedule), _key(WITHOUT_TARGETS, schedule)


def missed(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> Alert:
    """Return the item of a window that passed without a freeze; a later one takes the place of an earlier one."""
    told = (
        f"The window of {schedule.name} {_times(occurrence)} passed without a freeze: nothing could begin it. Look at "
        "what was merged then, and whether the sweeper runs."
    )
    return Alert(_key(MISSED, schedule), MISSED, "critical", subject(schedule), told, home(uow))


def without_targets(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> Alert:
    """Return the item of a window that was skipped since its scope reaches nothing."""
    told = (
        f"The window of {schedule.name} {_times(occurrence)} was skipped: its scope reaches no watched branch. Change "
        "the scope, or watch what it should reach."
    )
    return Alert(_key(WITHOUT_TARGETS, schedule), WITHOUT_TARGETS, "warning", subject(schedule), told, home(uow))


def not_enforced(
    uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence, unenforced: Sequence[tuple[str, str]], reached: int
) -> Alert:
    """Return the item of a window that would not block some of the branches it reaches: (`owner/name`, branch)."""
    named = ", ".join(f"{repository}:{branch}" for repository, branch in unenforced[:NAMED])
    more = f" and {len(unenforced) - NAMED} more" if len(unenforced) > NAMED else ""
    told = (
        f"The window of {schedule.name} {_times(occurrence)} is not known to block {len(unenforced)} of {reached} "
        f"branches: {named}{more}."
    )
    repository, branch = unenforced[0]
    rules = page(uow, *repository.split("/", 1), "rules", ref=f"refs/heads/{branch}")
    key = key_of_not_enforced(occurrence.id)
    return Alert(key, NOT_ENFORCED, "critical", subject(schedule), told, ("Open the branch's rules", rules))


def key_of_not_enforced(occurrence_id: str) -> str:
    """Return the key of the item of an occurrence that would not block; the id is its second word."""
    return f"{NOT_ENFORCED} {occurrence_id}"


def _key(kind: str, schedule: Schedule) -> str:
    return f"{kind} {schedule.id}"


def _times(occurrence: Occurrence) -> str:
    start, end = (f"{at:%Y-%m-%d %H:%M}" for at in (occurrence.starts_at, occurrence.ends_at))
    return f"from {start} to {end} UTC"


def home(uow: UnitOfWork) -> tuple[str, str]:
    """Return where something can be done about a schedule, as an item's action."""
    return "Open the schedules", f"{uow.dependencies.web_url}/"
