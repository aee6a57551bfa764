"""What the end of a freeze would change: which of its branches other freezes keep frozen."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from models.due_windows import find_due
from models.freezes import Freeze, FreezeTarget
from models.queries import any_of, covering_freezes
from models.repositories import WatchedBranch
from services.core.lookups import first_branches, get_freeze
from services.core.unit_of_work import UnitOfWork

MAX_LISTED = 10
"""Branches and freezes listed in a preview."""


def preview(uow: UnitOfWork, freeze_id: str) -> dict[str, Any]:
    """Return the contract's `LiftPreview`; changes nothing. Raise `freeze_not_found`."""
    freeze = get_freeze(uow, freeze_id)
    own = _covered(uow, freeze)
    covering = covering_freezes(uow.session, own, uow.now)
    others = {branch_id: [one for one in freezes if one.id != freeze.id] for branch_id, freezes in covering.items()}
    counts = Counter((one.id, one.reason) for freezes in others.values() for one in freezes)
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MAX_LISTED]
    staying = [branch_id for branch_id, freezes in others.items() if freezes]
    count, branches = first_branches(uow, WatchedBranch.id == any_of(staying), MAX_LISTED)
    return {
        "released_branch_count": len(own) - count,
        "frozen_branch_count": count,
        "frozen_branches": branches,
        "freeze_count": len(counts),
        "freezes": [
            {"freeze_id": freeze_id, "reason": reason, "branch_count": total} for (freeze_id, reason), total in most
        ],
    }


def _covered(uow: UnitOfWork, freeze: Freeze) -> Sequence[str]:
    """Return the ids of the branches that a freeze covers while it is in force."""
    if not freeze.begun:
        due = find_due(uow.session, uow.organization, freeze.id, uow.now)
        return due[1] if due else ()
    if not freeze.is_in_force(uow.now):
        return ()
    own = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id, FreezeTarget.operation == "apply")
    return uow.session.scalars(own).all()
