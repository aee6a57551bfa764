"""What the end of a freeze would change: which of its branches other freezes keep frozen."""

from typing import Any

from sqlalchemy import func, select

from models.freezes import Freeze, FreezeTarget
from models.repositories import WatchedBranch
from services.core.lookups import first_branches, get_freeze
from services.core.unit_of_work import UnitOfWork

MAX_LISTED = 10
"""Branches and freezes listed in a preview."""


def preview(uow: UnitOfWork, freeze_id: str) -> dict[str, Any]:
    """Return the contract's `LiftPreview`; changes nothing. Raise `freeze_not_found`."""
    freeze = get_freeze(uow, freeze_id)
    frozen = (
        select(FreezeTarget.branch_id, Freeze.id, Freeze.reason)
        .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
        .where(Freeze.is_in_force(uow.now), FreezeTarget.operation == "apply")
    )
    own = frozen.where(Freeze.id == freeze.id).with_only_columns(FreezeTarget.branch_id)
    others = frozen.where(Freeze.id != freeze.id, FreezeTarget.branch_id.in_(own)).subquery()
    count = func.count().label("branch_count")
    by_freeze = (
        select(others.c.id.label("freeze_id"), others.c.reason, count, func.count().over().label("freeze_count"))
        .group_by(others.c.id, others.c.reason)
        .order_by(count.desc(), others.c.id)
        .limit(MAX_LISTED)
    )
    freezes = uow.session.execute(by_freeze).mappings().all()
    staying, branches = first_branches(uow, WatchedBranch.id.in_(select(others.c.branch_id)), MAX_LISTED)
    covered = uow.session.scalar(select(func.count()).select_from(own.subquery())) or 0
    return {
        "released_branch_count": covered - staying,
        "frozen_branch_count": staying,
        "frozen_branches": branches,
        "freeze_count": freezes[0]["freeze_count"] if freezes else 0,
        "freezes": freezes,
    }
