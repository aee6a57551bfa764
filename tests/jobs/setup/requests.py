"""Repositories without rules, a setup that is requested and run, and its results."""

from typing import Any

from services.enforcement.setup_plans import set_up
from services.enforcement.setup_runs import apply_due
from tests import factories
from tests.harness.github_harness import Harness
from tools.fake_github import FakeGitHub
from tools.fake_github.model.records import Ruleset

ORGANIZATION = {"type": "organization"}
MAIN = "change-freeze/main"


AUTHORIZED = {"rulesets_authorized_by": "root", "rulesets_authorized_at": factories.now()}
"""Columns of a repository whose rulesets an administrator has authorised."""


def add(harness: Harness, *names: str, branches: tuple[str, ...] = ("main",), pulls: int = 1, **columns: Any) -> None:
    """Add repositories on both sides, with watched branches and no rules; their rulesets are authorised."""
    organization = harness.fake_github.organization("acme")
    built = [organization.repository(name, branches=tuple(set(branches) - {"main"})) for name in names]
    if not harness.fake_github.world.installed:
        installed = organization.installed()
        factories.installation(harness.session, harness.organization, "acme", id=installed.id)
    for name, repository in zip(names, built, strict=True):
        for branch in branches * pulls:
            repository.pull_request(base=branch)
        record = repository.record
        row = factories.repository(
            harness.session,
            harness.organization,
            f"acme/{name}",
            github_id=record.id,
            node_id=record.node_id,
            **{**AUTHORIZED, **columns},
        )
        for branch in branches:
            harness.branches[f"acme/{name}:{branch}"] = factories.branch(harness.session, row, branch)
    harness.session.commit()


def ask(harness: Harness, mode: str = "apply", scope: dict[str, Any] | None = None) -> dict[str, Any]:
    with harness.unit() as uow:
        return set_up(uow, scope or ORGANIZATION, mode)


def work(harness: Harness) -> None:
    """Do everything that is due, the heads first."""
    for _ in range(20):
        harness.run_until_idle()
        harness.sql(
            "UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL"
        )
        if not apply_due(harness.jobs, harness.github):
            return
    raise AssertionError("the setup does not end")


def asked(harness: Harness, *names: str, **given: Any) -> None:
    """Add repositories, and ask for the rules of all; their heads have verdicts, and nothing is written yet."""
    add(harness, *names, **given)
    ask(harness)
    harness.run_until_idle()


def done(harness: Harness, *names: str, **given: Any) -> None:
    """Add repositories, and have the rules of all written."""
    add(harness, *names, **given)
    ask(harness)
    work(harness)


def names(host: FakeGitHub) -> dict[str, list[str]]:
    """Return the rulesets at GitHub: place → names."""
    found: dict[str, list[str]] = {}
    for ruleset in host.world.rulesets.values():
        above = ruleset.source_type == "Organization"
        place = (
            host.world.accounts[ruleset.source_id].login if above else host.world.repositories[ruleset.source_id].name
        )
        found.setdefault(place, []).append(ruleset.name)
    return found


def actions(view: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(change["action"], change["level"], change["repository"]) for change in view["changes"]]


def audit(harness: Harness) -> list[str]:
    return [
        row[0]
        for row in harness.sql("SELECT action FROM audit_entries WHERE action ~ 'ruleset|enforcement' ORDER BY at, id")
    ]


def abandoned_with_a_rule_of_others(harness: Harness) -> Ruleset:
    """Return the ruleset of a branch that is watched no more, to which people added a rule."""
    done(harness, "web", branches=("main", "next"))
    [ruleset] = [each for each in harness.fake_github.world.rulesets.values() if each.name.endswith("next")]
    ruleset.rules.append({"type": "deletion"})
    harness.sql("UPDATE watched_branches SET unwatched_at = clock_timestamp() WHERE name = 'next'")
    return ruleset


def state(harness: Harness) -> tuple[str, int, str | None]:
    [row] = harness.sql(
        "SELECT state, written, last_error_message FROM enforcement_setups ORDER BY created_at DESC LIMIT 1"
    )
    return tuple(row)


def permit(harness: Harness, **permissions: str) -> None:
    installation = harness.installed
    installation.permissions = {"metadata": "read", "checks": "write", **permissions}
