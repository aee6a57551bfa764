"""Onboarding: how far an organisation has come, read from what there is."""

from typing import Any

from sqlalchemy import exists, func, or_, select

from models.enforcement import BranchEnforcement
from models.freezes import Freeze
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from rules.access.onboarding import Facts, steps
from services.core.unit_of_work import Unit
from services.enforcement_status.lights import reached
from services.installations.views import status


def show(unit: Unit) -> dict[str, Any]:
    """Return every step, each done or what to do next; for somebody without an organisation all are to be done."""
    found = steps(_facts(unit))
    following = next((step.name for step in found if not step.done), None)
    return {"complete": following is None, "next_step": following, "steps": found}


def _facts(unit: Unit) -> Facts | None:
    if unit.caller.organization_id is None:
        return None
    organization = unit.session.get(Organization, unit.organization)
    if organization is None or organization.deleted_at is not None:
        return None
    installation = status(unit, None)
    shown = installation["installation"] or {}
    covered, enabled = _repositories(unit)
    watched, unenforced = _branches(unit)
    frozen = select(exists().where(Freeze.organization_id == unit.organization))
    return Facts(
        organization=organization.name,
        installation=installation["state"],
        account=shown.get("account", ""),
        missing_permissions=shown.get("missing_permissions", ()),
        covered=covered,
        enabled=enabled,
        watched=watched,
        unenforced=unenforced,
        frozen_once=bool(unit.session.scalar(frozen)),
    )


def _repositories(unit: Unit) -> tuple[int, int]:
    query = select(func.count(), func.count().filter(Repository.enabled)).where(
        Repository.organization_id == unit.organization, Repository.removed_at.is_(None)
    )
    covered, enabled = unit.session.execute(query).one()
    return covered, enabled


def _branches(unit: Unit) -> tuple[int, int]:
    """Count what a freeze can reach, and what of it is red or was never looked at."""
    unknown = or_(BranchEnforcement.verified_at.is_(None), BranchEnforcement.light == "red")
    query = (
        select(func.count(), func.count().filter(unknown))
        .select_from(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .outerjoin(BranchEnforcement, BranchEnforcement.branch_id == WatchedBranch.id)
        .where(*reached(unit))
    )
    watched, unenforced = unit.session.execute(query).one()
    return watched, unenforced
