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


def test_what_we_wrote_is_removed_and_what_others_wrote_stays(town: Town, written: int) -> None:
    others = set(town.host.world.rulesets) - {written}
    assert others
    assert leave(town) == []
    assert set(town.host.world.rulesets) == others
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == []
    assert town.sql("SELECT action FROM audit_entries WHERE action LIKE 'ruleset.%'") == [("ruleset.deleted",)]


def test_what_somebody_has_removed_already_counts_as_removed(town: Town, written: int) -> None:
    town.person("DELETE", f"/repos/acme/web/rulesets/{written}").raise_for_status()
    assert leave(town) == []
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == []


def test_what_cannot_be_removed_is_told_and_tried_again(town: Town, written: int) -> None:
    fault = town.host.faults.add("error", "DELETE /repos/acme/web/rulesets", status=403, message="Not allowed")
    [told] = leave(town)
    assert told.startswith("acme/web: ")
    town.host.faults.clear(fault.id)
    assert leave(town) == []
    assert written not in town.host.world.rulesets


def test_a_place_that_is_not_shown_to_us_is_not_taken_for_empty(town: Town, written: int) -> None:
    town.host.faults.add("error", "GET /repos/acme/web/rulesets", status=404, message="Not Found")
    assert len(leave(town)) == 1
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == [(written,)]


def test_what_people_added_to_a_ruleset_of_ours_stays_without_our_check(town: Town, written: int) -> None:
    ruleset = town.host.world.rulesets[written]
    parameters = {"required_status_checks": [{"context": "change-freeze/main"}]}
    ruleset.rules = [{"type": "deletion"}, {"type": "required_status_checks", "parameters": parameters}]
    assert leave(town) == []
    assert town.host.world.rulesets[written].rules == [{"type": "deletion"}]
    assert town.sql("SELECT ruleset_id FROM written_rulesets") == []
