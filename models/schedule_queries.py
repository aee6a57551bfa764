"""Queries that several services share: occurrences with their freezes, planned ones, and the next one of a schedule."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import ColumnElement, Select, and_, func, select, text
from sqlalchemy.orm import Session, aliased, load_only

from models.freezes import Freeze
from models.predicates import TEXT_NOW, as_text
from models.schedules import RUNNING, Occurrence, Schedule
from rules.freezes.scope import FreezableBranch
from rules.time.planned_windows import NamedBranch, PlannedWindow, windows_by_branch

ONLY_INSTANTS = load_only(Freeze.started_at, Freeze.ends_at, Freeze.ended_at)
"""What the state of an occurrence follows from, of its freeze: half of a row would be its scope and its people."""

_PLANNED = aliased(Occurrence, name="p")
COMING: LiteralString = as_text(and_(_PLANNED.is_unsettled, _PLANNED.starts_at > TEXT_NOW))
"""Whether an occurrence begins later, for statements written as text: of the table `occurrences` as `p`, at `:now`."""
NEXT_WINDOWS: LiteralString = f"""
    SELECT n.id, s.id AS schedule_id, s.scope, n.starts_at, n.ends_at
    FROM schedules s CROSS JOIN LATERAL (
        SELECT p.id, p.starts_at, p.ends_at FROM occurrences p
        WHERE p.schedule_id = s.id AND {COMING} ORDER BY p.starts_at LIMIT 1
    ) n
    WHERE s.organization_id = :organization AND {RUNNING}
"""  # noqa: S608 - a constant
"""The window that begins next of each enabled schedule of `:organization`, as a statement written as text."""
REFERENCES: LiteralString = """
    ARRAY[r.id, r.full_name_key] || ARRAY(
        SELECT former FROM unnest(r.former_names) former WHERE NOT EXISTS (
            SELECT FROM repositories other
            WHERE other.organization_id = r.organization_id AND other.id <> r.id AND other.removed_at IS NULL
                AND other.full_name_key = former
        ) AND NOT EXISTS (
            SELECT FROM repositories other
            WHERE other.organization_id = r.organization_id AND other.renamed AND other.removed_at IS NULL
                AND former = ANY(other.former_names) AND (other.created_at, other.id) > (r.created_at, r.id)
        )
    )
"""
"""What scopes may name the repository `r` by, as an expression written as text: its id, its name, its former names."""

MAX_PLANNED = 1000
"""Planned windows that are read to find out until when branches stay frozen."""
_BRANCHES: LiteralString = f"""
    SELECT b.organization_id, b.id, r.id, r.owner || '/' || r.name, b.name, {REFERENCES}
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE b.id = ANY(:ids) AND EXISTS (
        SELECT FROM schedules s WHERE s.organization_id = b.organization_id AND {RUNNING})
"""  # noqa: S608 - a constant
PLANNED_WINDOWS: LiteralString = f"""
    SELECT p.id, s.id AS schedule_id, s.scope, p.starts_at, p.ends_at
    FROM schedules s JOIN occurrences p ON p.schedule_id = s.id
    WHERE s.id = ANY(:schedules) AND {COMING} ORDER BY p.starts_at LIMIT :limit
"""  # noqa: S608 - a constant
"""The windows that schedules have planned, as a statement written as text, the earliest first."""


def planned_windows(
    session: Session, branch_ids: Collection[str], now: datetime
) -> Mapping[str, Sequence[PlannedWindow]]:
    """Return the planned windows that cover each of the branches, by its id, earliest first.

    Three statements: the branches, the next window of each schedule, and all windows of the schedules that cover any.
    Where no schedule is enabled there are no branches, and the first is the only one.
    """
    if not branch_ids:
        return {}
    by_organization: dict[str, list[NamedBranch]] = defaultdict(list)
    for organization_id, *facts, references in session.execute(text(_BRANCHES), {"ids": list(branch_ids)}):
        by_organization[organization_id].append(NamedBranch(FreezableBranch(*facts), references))
    found: dict[str, Sequence[PlannedWindow]] = {}
    for organization_id, branches in by_organization.items():
        rows = session.execute(text(NEXT_WINDOWS), {"organization": organization_id, "now": now})
        first = windows_by_branch(branches, [PlannedWindow(*row) for row in rows])
        covering = {window.schedule_id for windows in first.values() for window in windows}
        if covering:
            values = {"schedules": list(covering), "now": now, "limit": MAX_PLANNED}
            rows = session.execute(text(PLANNED_WINDOWS), values)
            found |= windows_by_branch(branches, [PlannedWindow(*row) for row in rows])
    return found


def with_freezes() -> Select[Occurrence, Freeze | None]:
    """Return the query of all occurrences, each with the freeze that it started, or None; to be read only."""
    query = select(Occurrence, Freeze).outerjoin(Freeze, Freeze.id == Occurrence.freeze_id)
    return query.options(ONLY_INSTANTS)


def next_planned(schedule_id: Any, now: datetime) -> Select[Occurrence]:
    """Return the query of the planned occurrence of a schedule (an id, or a column) that begins first."""
    query = select(Occurrence).where(Occurrence.schedule_id == schedule_id, Occurrence.is_planned(now))
    return query.order_by(Occurrence.starts_at).limit(1)


def existing(organization_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a schedule is the organisation's, and not deleted."""
    return and_(Schedule.organization_id == organization_id, Schedule.deleted_at.is_(None))


def next_start(now: datetime) -> ColumnElement[datetime]:
    """Return when the next occurrence of the schedule of a row begins, as an expression; NULL when none is planned."""
    first = select(func.min(Occurrence.starts_at)).where(
        Occurrence.schedule_id == Schedule.id, Occurrence.is_planned(now)
    )
    return first.correlate(Schedule).scalar_subquery()
