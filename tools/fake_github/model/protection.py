"""What stands in the way of a change to a branch, in GitHub's own words.

The words were read from answers that people published: one check is named with its state; several of one state are
counted ("2 of 2 required status checks are expected."); mixed ones are counted by category.
"""

from collections.abc import Iterable

from tools.fake_github.model.bypass import bypasses
from tools.fake_github.model.classic import binding_protection, classic_checks
from tools.fake_github.model.enforcement import rules_in_force
from tools.fake_github.model.records import BranchProtection, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.rulesets import Applied
from tools.fake_github.model.world import Actor, World

SATISFYING = {"success", "skipped", "neutral"}
HEADLINE = "Repository rule violations found"
LOCKED = "Cannot change this locked branch"
UPDATE_RESTRICTED = "Cannot update this protected ref."
PULLS = "https://docs.github.com/rest/pulls/pulls#merge-a-pull-request"


def check_state(world: World, repository: Repository, sha: str, context: str, app_id: int | None) -> str | None:
    """Return why a required check does not pass: expected, queued, in progress or failing; None when it does."""
    run = world.newest_run(repository.id, sha, context, app_id)
    if run is None:
        return "expected"
    if run.status != "completed":
        return run.status.replace("_", " ")
    return None if run.conclusion in SATISFYING else "failing"


Required = dict[tuple[str, int | None], None]


def required_checks(rules: Iterable[Applied], classic: BranchProtection | None = None) -> Required:
    """Return the distinct (context, App) pairs that the rules and classic protection require, in order."""
    found: Required = {
        (check["context"], check.get("integration_id")): None
        for _, rule in rules
        if rule["type"] == "required_status_checks"
        for check in rule["parameters"]["required_status_checks"]
    }
    return found | dict.fromkeys(classic_checks(classic))


def unmet_checks(world: World, repository: Repository, sha: str, required: Required) -> list[tuple[str, str]]:
    """List the required checks that do not pass on a commit, as (context, state)."""
    states = [(context, check_state(world, repository, sha, context, app_id)) for context, app_id in required]
    return [(context, state) for context, state in states if state is not None]


def describe_unmet(unmet: list[tuple[str, str]], total: int) -> str:
    """Say it as GitHub does."""
    if len(unmet) == 1:
        context, state = unmet[0]
        return f'Required status check "{context}" is {state}.'
    states = [state for _, state in unmet]
    kinds = list(dict.fromkeys(states))
    if len(kinds) == 1 and kinds[0] != "failing":
        return f"{len(unmet)} of {total} required status checks are {kinds[0]}."
    counted = " and ".join(f"{states.count(kind)} {kind}" for kind in kinds)
    return f"{len(unmet)} of {total} required status checks have not succeeded: {counted}."


def _binding(world: World, actor: Actor, repository: Repository, branch: str, *, merge: bool) -> list[Applied]:
    return [
        (ruleset, rule)
        for ruleset, rule in rules_in_force(world, repository, branch)
        if not bypasses(world, ruleset, actor, repository, through_pull_request=merge)
    ]


def merge_violations(
    world: World,
    actor: Actor,
    repository: Repository,
    branch: str,
    sha: str,
    review: str | None,
    *,
    queued: bool = False,
) -> list[str]:
    """List what forbids merging a head commit into a branch; `queued` when the merge queue itself does it."""
    rules = _binding(world, actor, repository, branch, merge=True)
    classic = binding_protection(world, actor, repository, branch)
    required = required_checks(rules, classic)
    found = [LOCKED] if classic is not None and classic.locked else []
    if unmet := unmet_checks(world, repository, sha, required):
        found.append(describe_unmet(unmet, len(required)))
    for _, rule in rules:
        if rule["type"] == "merge_queue" and not queued:
            found.append("Changes must be made through the merge queue")
        if rule["type"] == "update":
            found.append(UPDATE_RESTRICTED)
        count = rule.get("parameters", {}).get("required_approving_review_count", 0)
        if rule["type"] == "pull_request" and count and review != "APPROVED":
            plural = "review is" if count == 1 else "reviews are"
            found.append(f"At least {count} approving {plural} required by reviewers with write access.")
    return found


def push_violations(
    world: World,
    actor: Actor,
    repository: Repository,
    branch: str,
    sha: str,
    *,
    creating: bool = False,
    forced: bool = False,
) -> list[str]:
    """List what forbids moving a branch to a commit directly."""
    rules = _binding(world, actor, repository, branch, merge=False)
    classic = binding_protection(world, actor, repository, branch)
    found = [LOCKED] if classic is not None and classic.locked else []
    for _, rule in rules:
        if rule["type"] == "pull_request" and not creating:
            found.append("Changes must be made through a pull request.")
        elif rule["type"] == "merge_queue" and not creating:
            found.append("Changes must be made through the merge queue")
        elif rule["type"] == "creation" and creating:
            found.append("Cannot create ref due to creations being restricted.")
        elif rule["type"] == "update" and not creating:
            found.append(UPDATE_RESTRICTED)
        elif rule["type"] == "non_fast_forward" and forced:
            found.append("Cannot force-push to this branch")
    checked = [
        (ruleset, rule)
        for ruleset, rule in rules
        if not (creating and rule.get("parameters", {}).get("do_not_enforce_on_create"))
    ]
    required = required_checks(checked, classic)
    if unmet := unmet_checks(world, repository, sha, required):
        found.append(describe_unmet(unmet, len(required)))
    return found


def deletion_violations(world: World, actor: Actor, repository: Repository, branch: str) -> list[str]:
    """List what forbids deleting a branch."""
    rules = _binding(world, actor, repository, branch, merge=False)
    return ["Cannot delete this branch" for _, rule in rules if rule["type"] == "deletion"]


def refuse(violations: list[str], status: int, documentation: str) -> None:
    """Raise the refusal that names the violations, if there are any."""
    if violations:
        text = "".join(f"\n\n{violation}" for violation in violations)
        raise Refusal(status, f"{HEADLINE}{text}\n\n", documentation=documentation)
