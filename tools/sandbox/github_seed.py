"""What the simulated GitHub starts with: the tenants' repositories and pull requests, and the rules over them."""

from typing import Any

from tools.sandbox.clients import Client
from tools.sandbox.tenants import APP_ID, NEWCOMER, TENANTS, Repository, Tenant, required_checks


def seed_fake_github(client: Client) -> None:
    """Fill GitHub, unless it still knows who was there from an earlier start."""
    newcomer, repositories = NEWCOMER
    wanted = {tenant.slug: organization(tenant) for tenant in TENANTS}
    wanted[newcomer] = {"login": newcomer, "repositories": [repository(each) for each in repositories]}
    missing = [given for login, given in wanted.items() if not client.answers(f"/orgs/{login}")]
    if missing:
        client.call("POST", "/_control/seed", {"organizations": missing})


def organization(tenant: Tenant) -> dict[str, Any]:
    """Return a tenant as GitHub's seed document has it."""
    required = required_checks(tenant) if tenant.has_rulesets else {}
    return {
        "login": tenant.slug,
        "installation": {"id": tenant.installation_id},
        "rulesets": [ruleset(pattern, check) for pattern, check in required.items()],
        "repositories": [repository(each) for each in tenant.repositories],
    }


def repository(given: Repository) -> dict[str, Any]:
    """Return a repository as the seed document has it."""
    pulls = [{"title": pull.title, "head": pull.head, "base": pull.base} for pull in given.pulls]
    return {"name": given.name, "branches": list(given.branches[1:]), "pullRequests": pulls}


def ruleset(pattern: str, check: str) -> dict[str, Any]:
    """Return the organisation's rule that branches of a pattern require a check which only the App can write.

    A branch may be created before its check is there: otherwise releases would be impossible.
    """
    parameters = {
        "required_status_checks": [{"context": check, "integration_id": APP_ID}],
        "strict_required_status_checks_policy": False,
        "do_not_enforce_on_create": True,
    }
    return {
        "name": f"Require {check}",
        "target": "branch",
        "enforcement": "active",
        "conditions": {
            "ref_name": {"include": [pattern], "exclude": []},
            "repository_name": {"include": ["~ALL"], "exclude": []},
        },
        "rules": [{"type": "required_status_checks", "parameters": parameters}],
    }
