"""Planned freezes of one branch: schedules with one window, in UTC."""

from datetime import UTC, datetime
from typing import Any

from rules.errors import ServiceError
from services.compatibility import branches
from services.core.unit_of_work import UnitOfWork
from services.schedules import changes, manual_runs

MAX_DAYS = 366
"""Of one window."""
MAX_NAME_LENGTH = 100


def create(uow: UnitOfWork, account: str, repository: str, branch: str, starts_at: int, ends_at: int) -> dict[str, Any]:
    """Plan a freeze from one time until another, in seconds since the epoch; one that began in the past begins now.

    Raise `repository_not_found`, `branch_not_found`, `invalid_parameter` for times that make no window ahead, and the
    errors of creating a schedule.
    """
    first = branches.find(uow, account, repository, branch)[0]
    start, end = max(_minute(starts_at), _minute(int(uow.now.timestamp()))), _minute(ends_at)
    if end <= start or end <= uow.now:
        raise ServiceError(
            "invalid_parameter", "one_off_unfreeze_at must be in the future, and later than one_off_freeze_at."
        )
    days = (end.date() - start.date()).days
    if days > MAX_DAYS:
        raise ServiceError(
            "invalid_parameter", f"one_off_unfreeze_at must be within {MAX_DAYS} days of one_off_freeze_at."
        )
    name = f"One-off freeze of {first['repository']} {first['branch']}"
    wanted = changes.NewSchedule(
        name=name[:MAX_NAME_LENGTH],
        scope={"type": "branch", "branchId": first["branch_id"]},
        recurrence={"frequency": "once", "start_date": start.date().isoformat()},
        window={"start_time": f"{start:%H:%M}", "end_time": f"{end:%H:%M}", "days": days},
        reason=name,
        timezone="UTC",
        allow_overlap=True,
    )
    schedule = changes.create(uow, wanted)
    if start <= uow.now:
        manual_runs.apply(uow, schedule, None)
    owner, _, repository_name = first["repository"].partition("/")
    return {
        "id": schedule.id,
        "account": owner,
        "repository": repository_name,
        "branch": first["branch"],
        "one_off_freeze_at": int(start.timestamp()),
        "one_off_unfreeze_at": int(end.timestamp()),
    }


def _minute(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds - seconds % 60, UTC)
