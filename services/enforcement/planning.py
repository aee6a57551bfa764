"""Planning: which rulesets a scope needs at the code host, and what has to be changed for that."""

from typing import Any

from services.scopes import resolve_targets
from services.unit import Unit


def set_up(unit: Unit, scope: dict[str, Any], mode: str) -> dict[str, Any]:
    """Plan the rulesets of a scope, or have them written; raises what `resolve_targets` raises."""
    resolve_targets(unit, scope)
    return {"mode": mode, "state": "planned", "level": "repository", "changes": []}
