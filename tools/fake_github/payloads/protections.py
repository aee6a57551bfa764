"""Classic branch protection, as its routes and its webhook show it."""

from tools.fake_github.model.records import BranchProtection, Repository
from tools.fake_github.payloads.view import Json, View


def _checks(url: str, protection: BranchProtection) -> Json:
    return {
        "url": f"{url}/required_status_checks",
        "strict": protection.strict,
        "contexts": [check["context"] for check in protection.checks],
        "contexts_url": f"{url}/required_status_checks/contexts",
        "checks": protection.checks,
    }


def protection_json(view: View, repository: Repository, protection: BranchProtection) -> Json:
    """Shape the protection of a branch."""
    url = f"{view.base}/repos/{view.world.full_name(repository)}/branches/{protection.branch}/protection"
    shape: Json = {
        "url": url,
        "enforce_admins": {"url": f"{url}/enforce_admins", "enabled": protection.enforce_admins},
        "lock_branch": {"enabled": protection.locked},
    }
    for name in ("required_linear_history", "allow_force_pushes", "allow_deletions", "block_creations"):
        shape[name] = {"enabled": False}
    if protection.requires_checks:
        shape["required_status_checks"] = _checks(url, protection)
    return shape


def _level(*, on: bool) -> str:
    return "non_admins" if on else "off"


def rule_json(protection: BranchProtection) -> Json:
    """Shape the rule inside webhook `branch_protection_rule`."""
    return {
        "id": protection.id,
        "repository_id": protection.repository_id,
        "name": protection.branch,
        "created_at": protection.created_at,
        "updated_at": protection.updated_at,
        "admin_enforced": protection.enforce_admins,
        "allow_deletions_enforcement_level": "off",
        "allow_force_pushes_enforcement_level": "off",
        "authorized_actor_names": [],
        "authorized_actors_only": False,
        "authorized_dismissal_actors_only": False,
        "dismiss_stale_reviews_on_push": False,
        "ignore_approvals_from_contributors": False,
        "linear_history_requirement_enforcement_level": "off",
        "lock_branch_enforcement_level": _level(on=protection.locked),
        "merge_queue_enforcement_level": "off",
        "pull_request_reviews_enforcement_level": "off",
        "require_code_owner_review": False,
        "required_approving_review_count": 0,
        "required_conversation_resolution_level": "off",
        "required_deployments_enforcement_level": "off",
        "required_status_checks": [check["context"] for check in protection.checks],
        "required_status_checks_enforcement_level": _level(on=protection.requires_checks),
        "signature_requirement_enforcement_level": "off",
        "strict_required_status_checks_policy": protection.strict,
    }
