"""Operations of the tag Enforcement."""

from typing import Any

from services.core.unit_of_work import UnitOfWork
from services.enforcement import requests, setup_plans, snippets, views


def get_enforcement(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> object:
    """Return whether freezes are enforced, for the organisation and for each branch."""
    return views.overview(uow, views.EnforcementFilters(**filters), cursor, limit)


def get_branch_enforcement(uow: UnitOfWork, branch_id: str) -> object:
    """Return the enforcement details of one branch."""
    return views.show(uow, branch_id)


def get_enforcement_snippets(uow: UnitOfWork, branch_id: str) -> object:
    """Return snippets for other tools that require a branch's check."""
    return snippets.snippets(uow, branch_id)


def verify_enforcement(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Schedule probes of GitHub's rules for a scope."""
    return requests.verify(uow, body["scope"])


def setup_enforcement(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Plan the rulesets of a scope, or schedule writing them."""
    forbid_deletion = body.get("protect_from_deletion", False)
    return setup_plans.set_up(uow, body["scope"], body["mode"], forbid_deletion=forbid_deletion)


def seed_check(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Schedule writing the present verdict on all heads of a scope."""
    return requests.seed(uow, body["scope"])
