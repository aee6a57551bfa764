"""Due windows that no process has begun: which there are, and what they cover.

They are read by one indexed query, which finds nothing while windows begin in time. Whoever shows what is frozen adds
them to the freezes that are rows.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import ColumnElement, DateTime, Select, Text, and_, any_, bindparam, literal_column, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.installations import Installation
from models.organizations import Organization
from models.predicates import TEXT_NOW, as_text
from models.repositories import WatchedBranch
from models.schedule_queries import REFERENCES
from models.schedules import Occurrence, Schedule
from rules.freezes.scope import FreezableBranch
from rules.ids import has_prefix, id_of_occurrence
from rules.time.due_windows import DueWindow, covered_by_window, due_by_branch
from rules.time.planned_windows import NamedBranch


def uninstalled(organization_id: Any) -> ColumnElement[bool]:
    """Return the condition that an organisation (an id, or a column) had the App installed and has not any more."""
    of = select(Installation.id).where(Installation.organization_id == organization_id)
    return and_(of.exists(), ~of.where(Installation.state != "removed").exists())


def may_start(organization_id: Any) -> ColumnElement[bool]:
    """Return the condition that windows of an organisation (an id, or a column) begin.

    It is not deleted, and the App was not uninstalled.
    """
    existing = select(Organization.id).where(Organization.id == organization_id, Organization.deleted_at.is_(None))
    return and_(existing.exists(), ~uninstalled(organization_id))


def _select_due(now: Any, *conditions: ColumnElement[bool]) -> Select[Any]:
    """Return the query of due windows, in the order of the fields of `DueWindow`."""
    return (
        select(
            Occurrence.id,
            Occurrence.schedule_id,
            Schedule.scope,
            Occurrence.starts_at,
            Occurrence.ends_at,
            Schedule.name,
            Schedule.reason,
            Schedule.exceptions_allowed,
            Schedule.public_text,
            Schedule.exception_rules_allowed,
        )
        .join(Schedule, Schedule.id == Occurrence.schedule_id)
        .where(Occurrence.is_due(now, Schedule.is_running, may_start(Occurrence.organization_id)), *conditions)
    )


DUE_WINDOWS: LiteralString = as_text(
    _select_due(TEXT_NOW, Occurrence.organization_id == literal_column(":organization"))
)
"""The due windows of `:organization`, as a subquery written as text."""

# Every pass runs these, and many requests: they are made once.
_NOW: Any = bindparam("now", type_=DateTime(timezone=True))
_OF_ORGANIZATION = _select_due(_NOW, Occurrence.organization_id == bindparam("organization", type_=Text))
_ORGANIZATIONS = select(WatchedBranch.organization_id).where(
    WatchedBranch.id == any_(bindparam("branches", type_=ARRAY(Text)))
)
_NEAR_BRANCHES = _select_due(_NOW, Occurrence.organization_id.in_(_ORGANIZATIONS)).add_columns(
    Occurrence.organization_id
)
_BRANCHES: LiteralString = f"""
    SELECT b.organization_id, b.exceptions_allowed, b.id, r.id, r.owner || '/' || r.name, b.name, {REFERENCES}
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE b.unwatched_at IS NULL AND r.enabled AND r.removed_at IS NULL AND
"""  # noqa: S608 - a constant
_BY_ID = text(f"{_BRANCHES} b.id = ANY(:branches)")
_BY_ORGANIZATION = text(f"{_BRANCHES} b.organization_id = :organization")


def due_on_branches(session: Session, branch_ids: Collection[str], now: datetime) -> Mapping[str, Sequence[DueWindow]]:
    """Return the due windows that cover each of the branches, by its id, earliest first.

    They allow exceptions if their schedules and the branch do.
    """
    values = {"branches": list(branch_ids), "now": now}
    windows: dict[str, list[DueWindow]] = defaultdict(list)
    for *facts, organization_id in session.execute(_NEAR_BRANCHES, values):
        windows[organization_id].append(DueWindow(*facts))
    if not windows:
        return {}
    branches: dict[str, list[NamedBranch]] = defaultdict(list)
    without_exceptions = set()
    for organization_id, exceptions_allowed, *facts, references in session.execute(_BY_ID, values):
        branches[organization_id].append(NamedBranch(FreezableBranch(*facts), references))
        if not exceptions_allowed:
            without_exceptions.add(facts[0])
    found: dict[str, Sequence[DueWindow]] = {}
    for organization_id, of_organization in windows.items():
        found |= due_by_branch(branches[organization_id], of_organization)
    for branch_id in without_exceptions & found.keys():
        found[branch_id] = [replace(window, exceptions_allowed=False) for window in found[branch_id]]
    return found


def due_of_organization(session: Session, organization_id: str, now: datetime) -> list[tuple[DueWindow, list[str]]]:
    """Return the due windows of an organisation that freeze, each with the ids of the branches that it covers."""
    values = {"organization": organization_id, "now": now}
    windows = [DueWindow(*row) for row in session.execute(_OF_ORGANIZATION, values)]
    if not windows:
        return []
    rows = session.execute(_BY_ORGANIZATION, values)
    return covered_by_window((NamedBranch(FreezableBranch(*row[2:6]), row[6]) for row in rows), windows)


def branches_of_due(session: Session, organization_id: str, now: datetime) -> set[str]:
    """Return the ids of the branches of an organisation that due windows cover."""
    found = due_of_organization(session, organization_id, now)
    return {branch_id for _window, branch_ids in found for branch_id in branch_ids}


def find_due(
    session: Session, organization_id: str, freeze_id: str, now: datetime
) -> tuple[DueWindow, list[str]] | None:
    """Return the due window whose freeze has an id, with the branches that it covers; None if it is none."""
    if not has_prefix(freeze_id, "frz"):
        return None
    wanted, found = id_of_occurrence(freeze_id), due_of_organization(session, organization_id, now)
    return next((each for each in found if each[0].id == wanted), None)


def freeze_of(window: DueWindow, organization_id: str) -> Freeze:
    """Return the freeze of a due window, outside of any session: as it will be recorded, but since the start."""
    freeze = Freeze(
        id=window.freeze_id,
        organization_id=organization_id,
        reason=window.reason,
        public_text=window.public_text,
        scope=dict(window.scope),
        source="schedule",
        started_at=window.starts_at,
        ends_at=window.ends_at,
        exceptions_allowed=window.exceptions_allowed,
        exception_rules_allowed=window.exception_rules_allowed,
        impact_acknowledged=False,
        schedule_id=window.schedule_id,
        occurrence_id=window.id,
        created_by=window.actor.as_json(),
        unprotected_causes=[],
        targets_pending=False,
    )
    freeze.begun = False
    return freeze
