"""Repositories without rules, a setup that is asked for and done, and what it leaves behind."""

from typing import Any

from services.core.unit_of_work import Caller
from services.enforcement.applying import apply_due
from services.enforcement.planning import set_up
from tests import factories
from tests.jobs.conftest import ADA, Town
from tools.fake_github import FakeGitHub
from tools.fake_github.model.records import Ruleset

ORGANIZATION = {"type": "organization"}
MAIN = "change-freeze/main"


def add(town: Town, *names: str, branches: tuple[str, ...] = ("main",), pulls: int = 1, **columns: Any) -> None:
    """Add repositories on both sides, with watched branches and no rules."""
    organization = town.host.organization("acme")
    built = [organization.repository(name, branches=tuple(set(branches) - {"main"})) for name in names]
    if not town.host.world.installed:
        installed = organization.installed()
        factories.installation(town.session, town.organization, "acme", id=installed.id)
    for name, repository in zip(names, built, strict=True):
        for branch in branches * pulls:
            repository.pull_request(base=branch)
        record = repository.record
        row = factories.repository(
            town.session,
            town.organization,
            f"acme/{name}",
            github_id=record.id,
            node_id=record.node_id,
            **columns,
        )
        for branch in branches:
            town.branches[f"acme/{name}:{branch}"] = factories.branch(town.session, row, branch)
    town.session.commit()


def ask(town: Town, mode: str = "apply", scope: dict[str, Any] | None = None) -> dict[str, Any]:
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        return set_up(uow, scope or ORGANIZATION, mode)


def work(town: Town) -> None:
    """Do everything that is due, the heads first."""
    for _ in range(20):
        town.settle()
        town.sql("UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL")
        if not apply_due(town.jobs, town.github):
            return
    raise AssertionError("the setup does not end")


def names(host: FakeGitHub) -> dict[str, list[str]]:
    """Return the rulesets at the code host: place → names."""
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


def audit(town: Town) -> list[str]:
    return [
        row[0]
        for row in town.sql("SELECT action FROM audit_entries WHERE action ~ 'ruleset|enforcement' ORDER BY at, id")
    ]


def abandoned_with_a_rule_of_others(town: Town) -> Ruleset:
    """Return the ruleset of a branch that is watched no more, to which people added a rule."""
    add(town, "web", branches=("main", "next"))
    ask(town)
    work(town)
    [ruleset] = [each for each in town.host.world.rulesets.values() if each.name.endswith("next")]
    ruleset.rules.append({"type": "deletion"})
    town.sql("UPDATE watched_branches SET unwatched_at = clock_timestamp() WHERE name = 'next'")
    return ruleset


def state(town: Town) -> tuple[str, int, str | None]:
    [row] = town.sql(
        "SELECT state, written, last_error_message FROM enforcement_setups ORDER BY created_at DESC LIMIT 1"
    )
    return tuple(row)


def permit(town: Town, **permissions: str) -> None:
    installation = next(iter(town.host.world.installations.values()))
    installation.permissions = {"metadata": "read", "checks": "write", **permissions}
