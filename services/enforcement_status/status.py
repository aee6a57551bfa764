"""The enforcement status of branches: whether a freeze is known to block merges, as a light."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from models.enforcement import BranchEnforcement
from models.queries import freezable
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


def is_unenforced() -> ColumnElement[bool]:
    """Return the condition of a watched branch that a freeze is not known to block: red, or never verified."""
    known = select(BranchEnforcement.branch_id).where(
        BranchEnforcement.verified_at.is_not(None), BranchEnforcement.light != "red"
    )
    return WatchedBranch.id.not_in(known)


def count_by_light(uow: UnitOfWork) -> dict[Light, int]:
    """Return how many watched branches of the organisation's enabled repositories have each light."""
    found = {row[0]: row[1] for row in uow.session.execute(counts_by_light(uow.organization, func.count()))}
    return {light: found.get(light, 0) for light in LIGHTS}


def counts_by_light(organization: str | ColumnElement[str], *counts: ColumnElement[int]) -> Select[*tuple[Any, ...]]:
    """Return the query for counts of what a freeze can reach, with a row for each light."""
    return (
        select(BranchEnforcement.shown_light, *counts)
        .select_from(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .outerjoin(BranchEnforcement, BranchEnforcement.branch_id == WatchedBranch.id)
        .where(*freezable(organization))
        .group_by(BranchEnforcement.shown_light)
    )
