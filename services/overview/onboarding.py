"""Onboarding progress of an organisation, derived from its current state."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import exists, func, select

from models.enforcement import BranchEnforcement
from models.freezes import Freeze
from models.organizations import Organization
from models.queries import freezable
from models.repositories import Repository, WatchedBranch
from rules.access.onboarding import OnboardingState, Step, steps
from rules.web_addresses import WebOrigin
from services.core.unit_of_work import UnitOfWork
from services.installations.views import status


def show(uow: UnitOfWork) -> dict[str, Any]:
    """Return all steps, each done or with its next action; without an organisation none is done."""
    progress = steps(_facts(uow))
    next_step = next((step.name for step in progress if not step.done), None)
    views = [_step_view(step, uow.ports[WebOrigin].url) for step in progress]
    return {"complete": next_step is None, "next_step": next_step, "steps": views}


def _step_view(step: Step, web_url: str) -> dict[str, Any]:
    view = asdict(step)
    if step.action is not None:
        view["action"]["url"] = web_url + view["action"].pop("page")
    return view


def _facts(uow: UnitOfWork) -> OnboardingState | None:
    """Return what the steps follow from; None without an organisation."""
    if uow.caller.organization_id is None:
        return None
    organization = uow.session.get(Organization, uow.organization)
    if organization is None or organization.deleted_at is not None:
        return None
    installation = status(uow, None)
    shown = installation["installation"] or {}
    covered, enabled = _repositories(uow)
    watched, unenforced = _branches(uow)
    frozen = select(exists().where(Freeze.organization_id == uow.organization))
    return OnboardingState(
        organization=organization.name,
        installation=installation["state"],
        account=shown.get("account", ""),
        missing_permissions=shown.get("missing_permissions", ()),
        covered=covered,
        enabled=enabled,
        watched=watched,
        unenforced=unenforced,
        frozen_once=bool(uow.session.scalar(frozen)),
    )


def _repositories(uow: UnitOfWork) -> tuple[int, int]:
    """Return the number of repositories that the installation covers, and of those that are enabled."""
    query = select(func.count(), func.count().filter(Repository.enabled)).where(
        Repository.organization_id == uow.organization, Repository.removed_at.is_(None)
    )
    covered, enabled = uow.session.execute(query).one()
    return covered, enabled


def _branches(uow: UnitOfWork) -> tuple[int, int]:
    """Return the number of branches that freezes can cover, and of those whose rules do not require our check."""
    query = (
        select(func.count(), func.count().filter(BranchEnforcement.decisive_check.is_(None)))
        .select_from(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .outerjoin(BranchEnforcement, BranchEnforcement.branch_id == WatchedBranch.id)
        .where(*freezable(uow.organization))
    )
    watched, unenforced = uow.session.execute(query).one()
    return watched, unenforced
