"""Rulesets of repositories and organisations, and the rules of a branch."""

from tools.fake_github.answers import paged
from tools.fake_github.model import rulesets
from tools.fake_github.model.records import Account, Ruleset
from tools.fake_github.model.refusals import not_found
from tools.fake_github.model.rulesets import rulesets_over
from tools.fake_github.payloads.rulesets import branch_rule_json, ruleset_json
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer


def _organization(call: Call) -> Account:
    account = call.world.logins.get(call.params["org"].lower())
    installation = call.caller.installation
    if account is None or (installation and installation.account_id != account.id):
        raise not_found()
    if installation is None and call.github.oauth.role(call.caller.account, account.login) != "admin":
        raise not_found()  # to who is no owner, as the API does with what they may not see
    return account


def _ruleset(call: Call, source_type: str, source_id: int) -> Ruleset:
    found = call.world.rules_of[source_type, source_id].get(call.number("ruleset_id"))
    if found is None:
        raise not_found()
    return found


def _source(call: Call) -> tuple[str, int]:
    if "org" in call.params:
        return "Organization", _organization(call).id
    return "Repository", call.repository.id


def _shown(call: Call, ruleset: Ruleset) -> Answer:
    """Show a ruleset whole; who can bypass it is left out for those who may not change it."""
    return Answer(200, ruleset_json(call.view, ruleset, actors=call.caller.sees_bypass_of(ruleset)))


@route("GET", "/repos/{owner}/{repo}/rulesets", "metadata:read")
def list_repository_rulesets(call: Call) -> Answer:
    """List a repository's rulesets, those of its organisation included unless `includes_parents=false`."""
    parents = call.query.get("includes_parents", "true") != "false"
    found = [
        ruleset
        for ruleset in rulesets_over(call.world, call.repository)
        if parents or ruleset.source_type == "Repository"
    ]
    return paged(call.url, call.query, found, lambda ruleset: ruleset_json(call.view, ruleset, whole=False))


@route("GET", "/orgs/{org}/rulesets", "organization_administration:write")
def list_organization_rulesets(call: Call) -> Answer:
    """List an organisation's rulesets, which takes the permission to change them."""
    found = call.world.rules_of["Organization", _organization(call).id].values()
    return paged(call.url, call.query, found, lambda ruleset: ruleset_json(call.view, ruleset, whole=False))


@route("GET", "/repos/{owner}/{repo}/rulesets/{ruleset_id}", "metadata:read")
def get_repository_ruleset(call: Call) -> Answer:
    """Show a ruleset that applies to a repository, from whatever level."""
    number = call.number("ruleset_id")
    found = next((ruleset for ruleset in rulesets_over(call.world, call.repository) if ruleset.id == number), None)
    if found is None:
        raise not_found()
    return _shown(call, found)


@route("GET", "/orgs/{org}/rulesets/{ruleset_id}", "organization_administration:write")
def get_organization_ruleset(call: Call) -> Answer:
    """Show a ruleset of an organisation."""
    return _shown(call, _ruleset(call, *_source(call)))


@route("POST", "/repos/{owner}/{repo}/rulesets", "administration:write")
@route("POST", "/orgs/{org}/rulesets", "organization_administration:write")
def create_ruleset(call: Call) -> Answer:
    """Create a ruleset."""
    made = rulesets.create_ruleset(call.world, call.actor, *_source(call), call.body)
    return Answer(201, ruleset_json(call.view, made))


@route("PUT", "/repos/{owner}/{repo}/rulesets/{ruleset_id}", "administration:write")
@route("PUT", "/orgs/{org}/rulesets/{ruleset_id}", "organization_administration:write")
def update_ruleset(call: Call) -> Answer:
    """Replace the given parts of a ruleset."""
    found = _ruleset(call, *_source(call))
    rulesets.update_ruleset(call.world, call.actor, found, call.body)
    return Answer(200, ruleset_json(call.view, found))


@route("DELETE", "/repos/{owner}/{repo}/rulesets/{ruleset_id}", "administration:write")
@route("DELETE", "/orgs/{org}/rulesets/{ruleset_id}", "organization_administration:write")
def delete_ruleset(call: Call) -> Answer:
    """Remove a ruleset."""
    rulesets.delete_ruleset(call.world, call.actor, _ruleset(call, *_source(call)))
    return Answer(204)


@route("GET", "/repos/{owner}/{repo}/rules/branches/{branch*}", "metadata:read")
def list_branch_rules(call: Call) -> Answer:
    """List the active rules from every level that apply to a branch, which need not exist."""
    found = rulesets.rules_for_branch(call.world, call.repository, call.params["branch"])
    return paged(call.url, call.query, found, lambda applied: branch_rule_json(call.view, applied))
