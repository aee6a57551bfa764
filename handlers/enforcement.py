"""Operations of the tag Enforcement."""

from typing import Any

from services.core.unit_of_work import Unit
from services.enforcement import planning, requests, snippets, views


def get_enforcement(unit: Unit, limit: int, cursor: str | None, **filters: Any) -> object:
    """Tell whether freezes really block, across the organisation and branch by branch."""
    return views.overview(unit, views.EnforcementFilters(**filters), cursor, limit)


def get_branch_enforcement(unit: Unit, branch_id: str) -> object:
    """Tell what is known of one branch's enforcement."""
    return views.show(unit, branch_id)


def get_enforcement_snippets(unit: Unit, branch_id: str) -> object:
    """Give texts that require a branch's check by other tools."""
    return snippets.snippets(unit, branch_id)


def verify_enforcement(unit: Unit, body: dict[str, Any]) -> object:
    """Have the code host's rules of a scope looked at anew."""
    return requests.verify(unit, body["scope"])


def setup_enforcement(unit: Unit, body: dict[str, Any]) -> object:
    """Plan the rulesets of a scope, or have them written."""
    return planning.set_up(unit, body["scope"], body["mode"])


def seed_check(unit: Unit, body: dict[str, Any]) -> object:
    """Have the present verdict written on every head of a scope."""
    return requests.seed(unit, body["scope"])
