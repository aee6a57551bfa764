"""Snippets: texts that require a branch's check by other tools."""

from typing import Any

from services.references import get_branch
from services.unit import Unit


def snippets(unit: Unit, branch_id: str) -> dict[str, Any]:
    """Return the snippets of a watched branch; raises `branch_not_found`."""
    branch = get_branch(unit, branch_id)
    return {"branch_id": branch.id, "check_name": branch.check_name, "snippets": []}
