"""One branch as clients of the classic service see it: one query, by the same facts as the freeze state.

Polled on the event loop, and shown after each change in the transaction that made it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString

from models.exceptions import ACTIVE
from rules.time.planned_windows import PlannedWindow, end_of_cover, windows_by_branch
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork
from services.freezes.state import (
    STARTS_LATER,
    WINDOWS_OF_SCHEDULES,
    lasting_refusals,
    lasts_until,
    named_branch,
    next_windows,
    of_schedules,
    require_branch,
    statements_of_branch,
    with_due,
)

Row = Mapping[str, Any]

_ACTIVE: LiteralString = ACTIVE.replace(":now", "%(now)s")
_MORE_COLUMNS: LiteralString = f""",
    {STARTS_LATER}, r.owner, f.claimed_by,
    coalesce((SELECT s.name FROM schedules s WHERE s.id = f.schedule_id), f.created_by ->> 'name') AS started_by, (
        SELECT array_agg(p.number)
        FROM exceptions e JOIN pull_requests p ON p.id = e.pull_request_id AND p.base_branch = b.name
        WHERE e.freeze_id = f.id AND e.branch_id = b.id AND {_ACTIVE}
          AND (NOT e.pin_to_head OR e.head_sha = p.head_sha)
    ) AS excepted
"""  # noqa: S608 - a constant
_BY_NAME, _BY_FORMER_NAME = statements_of_branch(_MORE_COLUMNS)


async def show(
    context: ReadContext, account: str, repository: str, branch: str
) -> tuple[dict[str, Any], datetime | None]:
    """Return a branch, and until when it stays so; None: at any time exceptions may change what a frozen one shows.

    Raise `repository_not_found` or `branch_not_found`.
    """
    values = _values(context.organization, account, repository, branch, context.now)
    rows = await context.fetch(_BY_NAME, values) or await context.fetch(_BY_FORMER_NAME, values)
    with lasting_refusals(context.now):
        require_branch(values["repo"], branch, rows)
    covering = _schedules_to_read(rows)
    planned = await context.fetch(WINDOWS_OF_SCHEDULES, of_schedules(covering, context.now)) if covering else ()
    view = _view(with_due(rows), planned, context.now)
    return view, None if view["frozen"] else lasts_until(context.now, rows, next_windows(rows))


def find(uow: UnitOfWork, account: str, repository: str, branch: str) -> Sequence[Row]:
    """Return the rows of a branch, as `view` shows them. Raise `repository_not_found` or `branch_not_found`."""
    values = _values(uow.organization, account, repository, branch, uow.now)
    rows = _fetch(uow, _BY_NAME, values) or _fetch(uow, _BY_FORMER_NAME, values)
    require_branch(values["repo"], branch, rows)
    return with_due(rows)


def view(uow: UnitOfWork, rows: Sequence[Row]) -> dict[str, Any]:
    """Return a branch by its rows."""
    covering = _schedules_to_read(rows)
    planned = _fetch(uow, WINDOWS_OF_SCHEDULES, of_schedules(covering, uow.now)) if covering else ()
    return _view(rows, planned, uow.now)


def let_through(rows: Sequence[Row]) -> set[int]:
    """Return the numbers of the pull requests that may pass every freeze of a branch."""
    excepted = [set(row["excepted"] or ()) for row in rows if row["id"] is not None]
    return set.intersection(*excepted) if excepted else set()


def seconds(instant: datetime | None) -> int | None:
    """Return an instant as seconds since the epoch."""
    return None if instant is None else int(instant.timestamp())


def next_changes(
    now: datetime, ends: Sequence[datetime | None], windows: Sequence[PlannedWindow]
) -> dict[str, int | None]:
    """Return when a branch is frozen next, and when it is next covered by nothing.

    `ends` are those of the freezes that cover it now, `windows` those that will, earliest first.
    """
    frozen_at = windows[0].starts_at if windows else None
    spans = [*((now, end) for end in ends), *((window.starts_at, window.ends_at) for window in windows)]
    since = now if ends else frozen_at
    return {
        "next_freeze_at": seconds(frozen_at),
        "next_unfreeze_at": None if since is None else seconds(end_of_cover(since, spans)),
    }


def _values(organization_id: str, account: str, repository: str, branch: str, now: datetime) -> dict[str, Any]:
    return {"organization": organization_id, "repo": f"{account}/{repository}", "branch": branch, "now": now}


def _fetch(uow: UnitOfWork, statement: LiteralString, values: dict[str, Any]) -> Sequence[Row]:
    return [dict(row) for row in uow.session.connection().exec_driver_sql(statement, values).mappings()]


def _schedules_to_read(rows: Sequence[Row]) -> set[str]:
    """Return the schedules of which all windows decide when nothing covers the branch: those that cover it."""
    return {window.schedule_id for window in _of_branch(rows, next_windows(rows))}


def _of_branch(rows: Sequence[Row], windows: Sequence[PlannedWindow]) -> Sequence[PlannedWindow]:
    if not windows:
        return []
    return windows_by_branch([named_branch(rows[0])], windows).get(rows[0]["branch_id"], [])


def _view(rows: Sequence[Row], planned: Iterable[Row], now: datetime) -> dict[str, Any]:
    first = rows[0]
    freezes = sorted(
        (row for row in rows if row["id"] is not None), key=lambda row: (row["started_at"], row["id"]), reverse=True
    )
    shown = next((row for row in freezes if row["claimed_by"] is not None), freezes[0] if freezes else None)
    windows = _of_branch(rows, [PlannedWindow(*row.values()) for row in planned])
    return {
        "branch": first["branch"],
        "repository": first["repository"],
        "organization": first["owner"],
        "frozen": shown is not None,
        "frozen_by": shown and (shown["claimed_by"] or shown["started_by"]),
        "note": shown and shown["reason"],
        "allow_deployments": shown is None,
        "unblocked_prs": sorted(let_through(rows)),
        **next_changes(now, [row["ends_at"] for row in freezes], windows),
        "last_updated": now,
    }
