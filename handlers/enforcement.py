"""Operations of the tag Enforcement."""

from typing import Any

from services.core.unit_of_work import UnitOfWork
from services.enforcement import planning, requests, snippets, views


def get_enforcement(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> object:
    """Tell whether freezes really block, across the organisation and branch by branch."""
    return views.overview(uow, views.EnforcementFilters(**filters), cursor, limit)


def get_branch_enforcement(uow: UnitOfWork, branch_id: str) -> object:
    """Tell what is known of one branch's enforcement."""
    return views.show(uow, branch_id)


def get_enforcement_snippets(uow: UnitOfWork, branch_id: str) -> object:
    """Give texts that require a branch's check by other tools."""
    return snippets.snippets(uow, branch_id)


def verify_enforcement(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Have the code host's rules of a scope looked at anew."""
    return requests.verify(uow, body["scope"])


def setup_enforcement(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Plan the rulesets of a scope, or have them written."""
    return planning.set_up(uow, body["scope"], body["mode"])


def seed_check(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Have the present verdict written on every head of a scope."""
    return requests.seed(uow, body["scope"])
