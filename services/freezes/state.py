"""The freeze state, which pipelines poll: one query each, on the event loop instead of worker threads.

Where a planned window follows what freezes now, a second one reads what follows that. Every state says until when it
stays so, if the version of the organisation's freezes does (`models.freezes.FreezeVersion`).

The queries read the same facts as the reconciler, by the same definition of a freeze in force (`Freeze.is_in_force`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, LiteralString

from models.due_windows import DUE_WINDOWS
from models.freezes import IN_FORCE
from models.schedule_queries import MAX_PLANNED, NEXT_WINDOWS, PLANNED_WINDOWS, REFERENCES
from rules.errors import Detail, ServiceError, field_error
from rules.freezes.blocking import BlockingFacts, blocking_of
from rules.freezes.scope import FreezableBranch
from rules.ids import has_prefix
from rules.time.due_windows import DueWindow, covered_by_window, due_by_branch
from rules.time.planned_windows import NamedBranch, PlannedWindow, end_of_cover, first_start, windows_by_branch
from services.core.read_context import ReadContext
from services.verdicts.blocking_facts import BEGUN_FROZEN_KEY, FACTS_UNTIL, FROM

MAX_FREEZES = 20
MAX_BRANCHES = 100
MAX_AGE = timedelta(minutes=5)
"""For how long a state may be remembered at most."""

_NOT_FOUND = ("repository_not_found", "branch_not_found")

Row = Mapping[str, Any]
State = tuple[dict[str, Any], datetime]
"""What is answered, and until when that stays so."""
Span = tuple[datetime, datetime | None]
"""From when until when; None: without a known end."""

_IN_FORCE: LiteralString = IN_FORCE.replace(":now", "%(now)s")
_COVERING: LiteralString = f"""
    LEFT JOIN (freeze_targets t JOIN freezes f ON f.id = t.freeze_id AND {_IN_FORCE})
    ON t.branch_id = b.id AND t.operation = 'apply'
"""
_ENFORCEMENT: LiteralString = """
    LEFT JOIN installations i ON i.id = r.installation_id LEFT JOIN branch_enforcement seen ON seen.branch_id = b.id
"""
_FACTS: LiteralString = BEGUN_FROZEN_KEY.replace(":now", "%(now)s")
_FACTS_UNTIL: LiteralString = FACTS_UNTIL.replace(":now", "%(now)s")
_NEXT_WINDOWS: LiteralString = NEXT_WINDOWS.replace(":now", "%(now)s").replace(":organization", "%(organization)s")
WINDOWS_OF_SCHEDULES: LiteralString = (
    PLANNED_WINDOWS.replace(":schedules", "%(schedules)s").replace(":now", "%(now)s").replace(":limit", "%(limit)s")
)
"""All planned windows of schedules; `of_schedules` gives its values."""
_PLANNED: LiteralString = f"""
    CASE WHEN row_number() OVER () = 1 THEN (
        SELECT jsonb_agg(jsonb_build_array(w.id, w.schedule_id, w.scope, w.starts_at, w.ends_at))
        FROM ({_NEXT_WINDOWS}) w
    ) END AS planned
"""  # noqa: S608 - a constant
"""The next windows of the organisation's schedules, in one row only: they are the same for all."""
_DUE_WINDOWS: LiteralString = DUE_WINDOWS.replace(":now", "%(now)s").replace(":organization", "%(organization)s")
_DUE: LiteralString = f"""
    CASE WHEN row_number() OVER () = 1 THEN (
        SELECT jsonb_agg(jsonb_build_array(
            d.id, d.schedule_id, d.scope, d.starts_at, d.ends_at, d.name, d.reason, d.exceptions_allowed))
        FROM {_DUE_WINDOWS} d
    ) END AS due
"""  # noqa: S608 - a constant
"""The due windows of the organisation that have not begun, in one row only."""
STARTS_LATER: LiteralString = """
    CASE WHEN row_number() OVER () = 1 THEN (
        SELECT min(later.started_at) FROM freezes later
        WHERE later.organization_id = %(organization)s AND later.ended_at IS NULL AND later.started_at > %(now)s
    ) END AS starts_later
"""
"""When a freeze starts that is recorded already: after the clock was set back."""
_COLUMNS: LiteralString = f"""
    r.id AS repository_id, r.owner || '/' || r.name AS repository, r.enabled AND r.removed_at IS NULL AS enabled,
    b.id AS branch_id, b.name AS branch, f.id, f.reason, f.started_at, f.ends_at, f.exceptions_allowed,
    {REFERENCES} AS reference_names, {_PLANNED}, {_DUE}, CASE WHEN f.id IS NOT NULL THEN {_FACTS} END AS facts
"""
_BOUNDS: LiteralString = f", CASE WHEN f.id IS NOT NULL THEN {_FACTS_UNTIL} END AS facts_until, {STARTS_LATER} "
_REPOSITORY_ID: LiteralString = "r.id = %(repo)s"
_FULL_NAME: LiteralString = "r.full_name_key = lower(%(repo)s) AND r.removed_at IS NULL"
_FORMER_NAME: LiteralString = """
    r.id = (SELECT id FROM repositories
            WHERE organization_id = %(organization)s AND renamed AND former_names @> ARRAY[lower(%(repo)s)]
                AND removed_at IS NULL
            ORDER BY created_at DESC, id DESC LIMIT 1)
"""
_FROM_REPOSITORY: LiteralString = """
    FROM repositories r
    LEFT JOIN watched_branches b ON b.repository_id = r.id AND b.unwatched_at IS NULL
"""
_ORGANIZATION: LiteralString = f"""
    WITH watched AS (
        SELECT b.id, b.name AS branch, r.id AS repository_id, r.owner || '/' || r.name AS repository,
               {REFERENCES} AS reference_names
        FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
        WHERE b.organization_id = %(organization)s AND b.unwatched_at IS NULL AND r.enabled AND r.removed_at IS NULL
    ), frozen AS (
        SELECT t.branch_id, f.id
        FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id AND t.operation = 'apply'
        JOIN watched ON watched.id = t.branch_id
        WHERE f.organization_id = %(organization)s AND {_IN_FORCE}
    ), blocking AS (
        SELECT {_FACTS} AS facts, {_FACTS_UNTIL} AS until FROM {FROM} WHERE b.id IN (SELECT branch_id FROM frozen)
    )
    SELECT o.id AS organization_id, o.name AS organization, (SELECT count(*) FROM watched) AS watched_count,
           (SELECT count(DISTINCT branch_id) FROM frozen) AS frozen_count,
           (SELECT array_agg(DISTINCT facts) FROM blocking) AS all_facts,
           (SELECT min(until) FROM blocking) AS facts_until, {STARTS_LATER},
           f.id, f.reason, f.started_at, f.ends_at, f.exceptions_allowed, {_PLANNED}, {_DUE},
           CASE WHEN row_number() OVER () = 1 AND (EXISTS ({_NEXT_WINDOWS}) OR EXISTS {_DUE_WINDOWS}) THEN (
               SELECT jsonb_agg(jsonb_build_array(id, repository_id, repository, branch, reference_names)) FROM watched
           ) END AS watched,
           CASE WHEN row_number() OVER () = 1 AND EXISTS {_DUE_WINDOWS} THEN (
               SELECT jsonb_agg(DISTINCT branch_id) FROM frozen
           ) END AS frozen
    FROM organizations o LEFT JOIN freezes f ON f.id IN (SELECT id FROM frozen)
    WHERE o.id = %(organization)s
"""  # noqa: S608 - a constant


async def get_state(
    context: ReadContext, repo: str | None, branch: str | None, branch_id: str | None, organization: str | None
) -> State:
    """Return the state of a repository, of one branch, or of the organisation, and until when it stays so.

    Raise `missing_parameter` or `invalid_parameter` unless exactly one of these is given, and `repository_not_found` or
    `branch_not_found`, also while the repository is disabled or the branch is not watched.
    """
    _require_one_form(repo, branch, branch_id, organization)
    with lasting_refusals(context.now):
        if repo is not None:
            return await _of_repository(context, repo, branch)
        if branch_id is not None:
            return await _of_branch(context, branch_id)
        return await _of_organization(context)


@contextmanager
def lasting_refusals(now: datetime) -> Iterator[None]:
    """Say that a repository or branch that is not there stays so, unless the version of the freezes changes."""
    try:
        yield
    except ServiceError as error:
        if error.code in _NOT_FOUND:
            error.until = now + MAX_AGE
        raise


async def _of_branch(context: ReadContext, branch_id: str) -> State:
    rows = await context.fetch(
        "SELECT"
        + _COLUMNS
        + _BOUNDS
        + "FROM watched_branches b JOIN repositories r ON r.id = b.repository_id"
        + _ENFORCEMENT
        + _COVERING
        + "WHERE b.organization_id = %(organization)s AND b.id = %(branch)s AND b.unwatched_at IS NULL",
        {"organization": context.organization, "branch": branch_id, "now": context.now},
    )
    if not rows:
        raise ServiceError("branch_not_found", f"No watched branch of this organisation has the id {branch_id!r}.")
    _require_enabled(rows[0]["repository"], rows)
    return await _branch_state(context, with_due(rows))


async def _of_repository(context: ReadContext, repository: str, branch: str | None) -> State:
    if has_prefix(repository, "rep"):
        rows = await _rows(context, _REPOSITORY_ID, repository, branch)
    else:
        rows = await _rows(context, _FULL_NAME, repository, branch)
        rows = rows or await _rows(context, _FORMER_NAME, repository, branch)
    if branch is None:
        _require_enabled(repository, rows)
        return await _repository_state(context, with_due(rows))
    require_branch(repository, branch, rows)
    return await _branch_state(context, with_due(rows))


async def _rows(context: ReadContext, condition: LiteralString, repository: str, branch: str | None) -> Sequence[Row]:
    return await context.fetch(
        _of_repository_by(condition, of_branch=branch is not None, more_columns=_BOUNDS),
        {"organization": context.organization, "repo": repository, "branch": branch, "now": context.now},
    )


def _of_repository_by(condition: LiteralString, *, of_branch: bool, more_columns: LiteralString) -> LiteralString:
    narrowed: LiteralString = " AND b.name = %(branch)s" if of_branch else ""
    where: LiteralString = "WHERE r.organization_id = %(organization)s AND "
    return (
        "SELECT" + _COLUMNS + more_columns + _FROM_REPOSITORY + narrowed + _ENFORCEMENT + _COVERING + where + condition
    )


def statements_of_branch(more_columns: LiteralString) -> tuple[LiteralString, ...]:
    """Return the statements that find a branch with the freezes that cover it, and further columns, by `repo`.

    The first finds a repository by its name, the second by a former one.
    """
    conditions: tuple[LiteralString, ...] = (_FULL_NAME, _FORMER_NAME)
    return tuple(_of_repository_by(one, of_branch=True, more_columns=more_columns) for one in conditions)


def require_branch(repository: str, branch: str, rows: Sequence[Row]) -> None:
    """Raise `repository_not_found` or `branch_not_found` unless the rows are of a branch that can be frozen."""
    _require_enabled(repository, rows)
    if rows[0]["branch_id"] is None:
        raise ServiceError("branch_not_found", f"{repository} has no watched branch {branch!r}.")


def _require_enabled(repository: str, rows: Sequence[Row]) -> None:
    if not rows or not rows[0]["enabled"]:
        raise ServiceError("repository_not_found", f"No enabled repository of this organisation is {repository!r}.")


async def _of_organization(context: ReadContext) -> State:
    rows: Sequence[Row] = await context.fetch(_ORGANIZATION, {"organization": context.organization, "now": context.now})
    first = rows[0]
    subject = ("organization", first["organization_id"], first["organization"])
    branches = [NamedBranch(FreezableBranch(*facts), names) for *facts, names in first["watched"] or ()]
    due = [(window, covered) for window, covered in covered_by_window(branches, due_windows(rows)) if covered]
    newly = {branch_id for _, covered in due for branch_id in covered} - set(first["frozen"] or ())
    rows = [*rows, *(_row_of(first, window) for window, _ in due)]
    counts = first["watched_count"], first["frozen_count"] + len(newly)
    state, until = await _state(context, subject, counts, rows, branches)
    return {**state, "enforced": not due and _is_enforced(first["all_facts"] or ())}, until


def _require_one_form(repo: str | None, branch: str | None, branch_id: str | None, organization: str | None) -> None:
    """Raise unless exactly one form is given: `missing_parameter` for none, `invalid_parameter` for several."""
    given = [name for name, value in (("repo", repo), ("branchId", branch_id), ("organization", organization)) if value]
    if not given:
        message = "is required, or branchId, or organization=current"
        raise field_error("repo", message, message=f"Parameter repo {message}.", code="missing_parameter")
    extra = given[1:] + (["branch"] if branch is not None and "repo" not in given else [])
    if extra:
        details = tuple(Detail(name, f"cannot be combined with {given[0]}", "invalid_parameter") for name in extra)
        raise ServiceError(
            "invalid_parameter", "Give only one of a repository, a branch or the organisation.", details=details
        )


async def _branch_state(context: ReadContext, rows: Sequence[Row]) -> State:
    first = rows[0]
    subject = ("branch", first["branch_id"], f"{first['repository']}:{first['branch']}")
    frozen = int(any(row["id"] is not None for row in rows))
    return await _state(context, subject, (1, frozen), rows, [named_branch(first)])


async def _repository_state(context: ReadContext, rows: Sequence[Row]) -> State:
    first = rows[0]
    frozen: dict[str, bool] = {}
    watched: dict[str, NamedBranch] = {}
    for row in rows:
        if row["branch_id"] is not None:
            watched[row["branch_id"]] = named_branch(row)
            frozen[row["branch_id"]] = frozen.get(row["branch_id"], False) or row["id"] is not None
    subject = ("repository", first["repository_id"], first["repository"])
    counts = len(frozen), sum(frozen.values())
    state, until = await _state(context, subject, counts, rows, watched.values())
    listed = sorted((one.branch.branch, branch_id) for branch_id, one in watched.items())
    state["branches"] = [
        {"branch_id": branch_id, "name": name, "frozen": frozen[branch_id]} for name, branch_id in listed[:MAX_BRANCHES]
    ]
    state["branches_truncated"] = len(listed) > MAX_BRANCHES
    return state, until


def named_branch(row: Row) -> NamedBranch:
    """Return the branch of a row, with what scopes may name its repository by."""
    branch = FreezableBranch(row["branch_id"], row["repository_id"], row["repository"], row["branch"])
    return NamedBranch(branch, row["reference_names"])


async def _state(
    context: ReadContext,
    subject: tuple[str, str, str],
    counts: tuple[int, int],
    rows: Sequence[Row],
    branches: Collection[NamedBranch],
) -> State:
    """Return the state of a subject; `counts` are the numbers of its watched and of its frozen branches."""
    watched, frozen = counts
    freezes = {row["id"]: row for row in rows if row["id"] is not None}
    newest = sorted(freezes.values(), key=lambda row: (row["started_at"], row["id"]), reverse=True)
    spans: list[Span] = [(row["started_at"], row["ends_at"]) for row in newest]
    windows, ends = next_windows(rows), [end for _, end in spans if end is not None]
    state = {
        "frozen": frozen > 0,
        "enforced": all(row.get("begun", True) for row in rows)
        and _is_enforced({row["facts"] for row in rows if row.get("facts") is not None}),
        "coverage": "none" if frozen == 0 else "all" if frozen == watched else "some",
        "frozen_branch_count": frozen,
        "watched_branch_count": watched,
        "subject": {"type": subject[0], "id": subject[1], "name": subject[2]},
        "freezes": [
            {name: row[name] for name in ("id", "reason", "started_at", "ends_at", "exceptions_allowed")}
            for row in newest[:MAX_FREEZES]
        ],
        "freezes_truncated": len(newest) > MAX_FREEZES,
        "branches": [],
        "branches_truncated": False,
        "frozen_until": await _end_of_cover(context, spans, windows, branches) if spans else None,
        "next_change_at": min([*ends, *_next_start(windows, branches)], default=None),
    }
    return state, lasts_until(context.now, rows, windows, ends)


def lasts_until(
    now: datetime, rows: Sequence[Row], windows: Iterable[PlannedWindow], ends: Iterable[datetime] = ()
) -> datetime:
    """Return until when what these rows say stays so: at most until a freeze ends, or one of the windows starts."""
    found = (row.get(name) for row in rows for name in ("facts_until", "starts_later"))
    bounds: list[datetime] = [bound for bound in found if bound is not None]
    return min([now + MAX_AGE, *ends, *(window.starts_at for window in windows), *bounds])


async def _end_of_cover(
    context: ReadContext, spans: Sequence[Span], windows: Sequence[PlannedWindow], branches: Iterable[NamedBranch]
) -> datetime | None:
    """Return until when freezes and the windows that follow them cover any of the branches; None if no end is known.

    `windows` are the next ones of each schedule. Only if one follows are the later ones read.
    """
    end = end_of_cover(context.now, spans)
    if end is None or not any(window.starts_at <= end for window in windows):
        return end
    covering = {one.schedule_id for found in windows_by_branch(branches, windows).values() for one in found}
    planned = await context.fetch(WINDOWS_OF_SCHEDULES, of_schedules(covering, context.now)) if covering else ()
    return end_of_cover(context.now, [*spans, *((row["starts_at"], row["ends_at"]) for row in planned)])


def of_schedules(schedules: Iterable[str], now: datetime) -> dict[str, Any]:
    """Return the values of `WINDOWS_OF_SCHEDULES`."""
    return {"schedules": list(schedules), "now": now, "limit": MAX_PLANNED}


def _is_enforced(found: Collection[str]) -> bool:
    """True if branches are frozen, and GitHub refuses merges into all of them; `found` are the facts of each."""
    return bool(found) and all(blocking_of(BlockingFacts.of_key(facts)).is_enforced for facts in found)


def due_windows(rows: Sequence[Row]) -> list[DueWindow]:
    """Return the due windows that have not begun, of rows that have them."""
    due = next((row["due"] for row in rows if row["due"]), ())
    return [
        DueWindow(key, schedule_id, scope, datetime.fromisoformat(start), datetime.fromisoformat(end), *more)
        for key, schedule_id, scope, start, end, *more in due
    ]


def with_due(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of branches and the freezes that cover them, with more rows for due windows that cover them."""
    windows = due_windows(rows)
    if not windows:
        return rows
    first = {row["branch_id"]: row for row in reversed(rows) if row["branch_id"] is not None}
    covering = due_by_branch([named_branch(row) for row in first.values()], windows)
    return [*rows, *(_row_of(first[branch_id], window) for branch_id, due in covering.items() for window in due)]


_OF_BRANCH = ("owner", "repository_id", "repository", "enabled", "branch_id", "branch", "reference_names")
"""Columns that are not of the freeze of a row."""


def _row_of(branch: Row, window: DueWindow) -> Row:
    """Return the row of a branch, or of the organisation, with the freeze of a due window that is no row yet."""
    kept = {name: branch[name] for name in _OF_BRANCH if name in branch}
    freeze = {
        "id": window.freeze_id,
        "reason": window.reason,
        "started_at": window.starts_at,
        "ends_at": window.ends_at,
        "exceptions_allowed": window.exceptions_allowed,
        "started_by": window.schedule_name,
        "begun": False,
    }
    return {**dict.fromkeys(branch), **kept, **freeze}


def next_windows(rows: Sequence[Row]) -> list[PlannedWindow]:
    """Return the next window of each schedule, of rows that have them."""
    planned = next((row["planned"] for row in rows if row["planned"]), ())
    return [
        PlannedWindow(key, schedule_id, scope, datetime.fromisoformat(start), datetime.fromisoformat(end))
        for key, schedule_id, scope, start, end in planned
    ]


def _next_start(windows: Sequence[PlannedWindow], branches: Iterable[NamedBranch]) -> list[datetime]:
    """Return when the next planned window begins that covers one of the branches, if there is one."""
    start = first_start(branches, windows) if windows else None
    return [] if start is None else [start]
