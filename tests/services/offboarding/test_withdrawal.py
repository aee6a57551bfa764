"""An organisation that leaves: no rule of ours is left to require a check that nobody writes."""

import pytest

from services.core.unit_of_work import Caller
from services.enforcement.withdrawing import withdraw
from tests.jobs.conftest import ADA, Builder, Town, build, fake_github, private_key, town

__all__ = ["build", "fake_github", "private_key", "town"]

RULESET = {
    "name": "Change freeze: main",
    "target": "branch",
    "enforcement": "active",
    "conditions": {"ref_name": {"include": ["refs/heads/main"], "exclude": []}},
    "rules": [],
}


@pytest.fixture
def written(town: Town, build: Builder) -> int:
    """The number of a ruleset of acme/web that we wrote, beside one that somebody else did."""
    build("web")
    town.host.organization("acme").repository("web").ruleset(**RULESET)
    [record] = [one for one in town.host.world.rulesets.values() if one.name == RULESET["name"]]
    town.sql(
        "INSERT INTO written_rulesets (level, ruleset_id, organization_id, installation_id, repository_id, "
        "check_name, written_at) SELECT 'repository', :id, organization_id, installation_id, id, "
        "'change-freeze/main', now() FROM repositories",
        id=record.id,
    )
    return record.id


def leave(town: Town) -> list[str]:
    return [f"{left.place}: {left.message}" for left in withdraw(town.jobs, town.github, caller(town))]


def caller(town: Town) -> Caller:
    return Caller(town.organization.id, ADA, "dashboard", "business")


def test_withdrawal_removes_own_rulesets_and_keeps_others(town: Town, written: int) -> None:
    others = set(town.host.world.rulesets) - {written}
    assert others
    assert leave(town) == []
    assert set(town.host.world.rulesets) == others
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == []
    assert town.sql("SELECT action FROM audit_entries WHERE action LIKE 'ruleset.%'") == [("ruleset.deleted",)]


def test_withdrawal_accepts_rulesets_already_removed(town: Town, written: int) -> None:
    town.person("DELETE", f"/repos/acme/web/rulesets/{written}").raise_for_status()
    assert leave(town) == []
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == []


def test_withdrawal_reports_and_retries_failed_removals(town: Town, written: int) -> None:
    fault = town.host.faults.add("error", "DELETE /repos/acme/web/rulesets", status=403, message="Not allowed")
    [message] = leave(town)
    assert message.startswith("acme/web: ")
    town.host.faults.clear(fault.id)
    assert leave(town) == []
    assert written not in town.host.world.rulesets


def test_withdrawal_does_not_treat_an_unreadable_repository_as_empty(town: Town, written: int) -> None:
    town.host.faults.add("error", "GET /repos/acme/web/rulesets", status=404, message="Not Found")
    assert len(leave(town)) == 1
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == [(written,)]


def test_withdrawal_keeps_rules_that_people_added_to_an_own_ruleset(town: Town, written: int) -> None:
    ruleset = town.host.world.rulesets[written]
    parameters = {"required_status_checks": [{"context": "change-freeze/main"}]}
    ruleset.rules = [{"type": "deletion"}, {"type": "required_status_checks", "parameters": parameters}]
    assert leave(town) == []
    assert town.host.world.rulesets[written].rules == [{"type": "deletion"}]
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == []
