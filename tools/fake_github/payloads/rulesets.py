"""Rulesets and the rules of a branch."""

from tools.fake_github.model.records import Ruleset
from tools.fake_github.model.rulesets import Applied
from tools.fake_github.payloads.view import Json, View


def source_name(view: View, ruleset: Ruleset) -> str:
    """Return the name of the repository or organisation a ruleset belongs to."""
    if ruleset.source_type == "Repository":
        return view.world.full_name(view.world.repositories[ruleset.source_id])
    return view.world.accounts[ruleset.source_id].login


def ruleset_json(view: View, ruleset: Ruleset, *, whole: bool = True, actors: bool = True) -> Json:
    """Shape a ruleset; lists leave conditions, rules and bypass actors out, and the last are not for everybody."""
    source = source_name(view, ruleset)
    owned_by_repository = ruleset.source_type == "Repository"
    path = f"repos/{source}" if owned_by_repository else f"orgs/{source}"
    page = (
        f"{view.base}/{source}/rules" if owned_by_repository else f"{view.base}/organizations/{source}/settings/rules"
    )
    shape: Json = {
        "id": ruleset.id,
        "name": ruleset.name,
        "target": ruleset.target,
        "source_type": ruleset.source_type,
        "source": source,
        "enforcement": ruleset.enforcement,
        "node_id": ruleset.node_id,
        "created_at": ruleset.created_at,
        "updated_at": ruleset.updated_at,
        "_links": {
            "self": {"href": f"{view.base}/{path}/rulesets/{ruleset.id}"},
            "html": {"href": f"{page}/{ruleset.id}"},
        },
    }
    if whole:
        shape |= {
            "conditions": ruleset.conditions,
            "rules": ruleset.rules,
            "current_user_can_bypass": "never",
        }
        if actors:
            shape["bypass_actors"] = ruleset.bypass_actors
    return shape


def branch_rule_json(view: View, applied: Applied) -> Json:
    """Shape one rule that applies to a branch."""
    ruleset, rule = applied
    source = {
        "ruleset_source_type": ruleset.source_type,
        "ruleset_source": source_name(view, ruleset),
        "ruleset_id": ruleset.id,
    }
    return {**rule, **source}
