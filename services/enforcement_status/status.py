"""The enforcement status of branches: whether a freeze is known to block merges, as a light."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select

from models.enforcement import BranchEnforcement
from models.repositories import Repository, WatchedBranch
from rules.rulesets.findings import Light
from services.core.unit_of_work import UnitOfWork

LIGHTS: tuple[Light, ...] = ("green", "amber", "red")


@dataclass(frozen=True, slots=True)
class EnforcementStatus:
    """The light of a branch, and when its rules were last verified; None: never."""

    light: str
    last_verified_at: datetime | None


NEVER_VERIFIED = EnforcementStatus("amber", None)


def status_of(row: BranchEnforcement | None) -> EnforcementStatus:
    """Return the status of a branch by its row; a branch that was never verified is amber."""
    return (
        NEVER_VERIFIED
        if row is None or row.verified_at is None
        else EnforcementStatus(row.shown_light, row.verified_at)
    )


def statuses(uow: UnitOfWork, branch_ids: Collection[str]) -> Mapping[str, EnforcementStatus]:
    """Return the statuses of these branches; those that were never verified are missing."""
    if not branch_ids:
        return {}
    rows = uow.session.scalars(
        select(BranchEnforcement).where(
            BranchEnforcement.branch_id.in_(branch_ids), BranchEnforcement.verified_at.is_not(None)
        )
    )
    return {row.branch_id: status_of(row) for row in rows}


def count_unenforced(uow: UnitOfWork, branch_ids: Collection[str]) -> int:
    """Count the branches that a freeze is not known to block: red ones, and those that were never verified."""
    known = statuses(uow, branch_ids)
    return sum(known.get(branch_id, NEVER_VERIFIED).last_verified_at is None for branch_id in branch_ids) + sum(
        one.light == "red" for one in known.values()
    )


def count_by_light(uow: UnitOfWork) -> dict[Light, int]:
    """Return how many watched branches of the organisation's enabled repositories have each light."""
    query = (
        select(BranchEnforcement.shown_light, func.count())
        .select_from(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .outerjoin(BranchEnforcement, BranchEnforcement.branch_id == WatchedBranch.id)
        .where(*freezable(uow))
        .group_by(BranchEnforcement.shown_light)
    )
    found = {row[0]: row[1] for row in uow.session.execute(query)}
    return {light: found.get(light, 0) for light in LIGHTS}


def freezable(uow: UnitOfWork) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of what a freeze can reach: watched branches of enabled repositories that are covered."""
    return (
        WatchedBranch.organization_id == uow.organization,
        WatchedBranch.unwatched_at.is_(None),
        Repository.enabled.is_(True),
        Repository.removed_at.is_(None),
    )
