"""An organisation that leaves: no rule of ours is left that requires a check which is no longer written."""

import pytest

from services.core.unit_of_work import Caller
from services.enforcement.ruleset_removal import withdraw
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Builder, Harness
from tests.jobs.conftest import build, fake_github, harness

__all__ = ["build", "fake_github", "harness"]

RULESET = {
    "name": "Change freeze: main",
    "target": "branch",
    "enforcement": "active",
    "conditions": {"ref_name": {"include": ["refs/heads/main"], "exclude": []}},
    "rules": [],
}


@pytest.fixture
def written(harness: Harness, build: Builder) -> int:
    """The number of a ruleset of acme/web that we wrote, next to one that another person wrote."""
    build("web")
    harness.fake_github.organization("acme").repository("web").ruleset(**RULESET)
    [record] = [one for one in harness.fake_github.world.rulesets.values() if one.name == RULESET["name"]]
    harness.sql(
        "INSERT INTO written_rulesets (level, ruleset_id, organization_id, installation_id, repository_id, "
        "check_name, written_at) SELECT 'repository', :id, organization_id, installation_id, id, "
        "'change-freeze/main', now() FROM repositories",
        id=record.id,
    )
    return record.id


def leave(harness: Harness) -> list[str]:
    return [f"{left.place}: {left.message}" for left in withdraw(harness.jobs, harness.github, caller(harness))]


def caller(harness: Harness) -> Caller:
    return Caller(harness.organization.id, ADA, "dashboard", BUSINESS)


def test_withdrawal_removes_own_rulesets_and_keeps_others(harness: Harness, written: int) -> None:
    others = set(harness.fake_github.world.rulesets) - {written}
    assert others
    assert leave(harness) == []
    assert set(harness.fake_github.world.rulesets) == others
    assert harness.sql("SELECT ruleset_id FROM written_rulesets") == []
    assert harness.sql("SELECT action FROM audit_entries WHERE action LIKE 'ruleset.%'") == [("ruleset.deleted",)]


def test_withdrawal_accepts_rulesets_already_removed(harness: Harness, written: int) -> None:
    harness.person("DELETE", f"/repos/acme/web/rulesets/{written}").raise_for_status()
    assert leave(harness) == []
    assert harness.sql("SELECT ruleset_id FROM written_rulesets") == []


def test_withdrawal_is_retried_while_github_refuses_the_app_key(harness: Harness, written: int) -> None:
    fault = harness.fake_github.faults.add("error", "/access_tokens", status=401, message="Bad credentials")
    [remaining] = withdraw(harness.jobs, harness.github, caller(harness))
    assert remaining.transient
    harness.fake_github.faults.clear(fault.id)
    assert leave(harness) == []
    assert written not in harness.fake_github.world.rulesets


def test_withdrawal_does_not_treat_an_unreadable_repository_as_empty(harness: Harness, written: int) -> None:
    harness.fake_github.faults.add("error", "GET /repos/acme/web/rulesets", status=404, message="Not Found")
    assert len(leave(harness)) == 1
    assert harness.sql("SELECT ruleset_id FROM written_rulesets") == [(written,)]


def test_withdrawal_keeps_rules_that_people_added_to_an_own_ruleset(harness: Harness, written: int) -> None:
    ruleset = harness.fake_github.world.rulesets[written]
    parameters = {"required_status_checks": [{"context": "change-freeze/main"}]}
    ruleset.rules = [{"type": "deletion"}, {"type": "required_status_checks", "parameters": parameters}]
    assert leave(harness) == []
    assert harness.fake_github.world.rulesets[written].rules == [{"type": "deletion"}]
    assert harness.sql("SELECT ruleset_id FROM written_rulesets") == []
