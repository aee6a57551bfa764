"""An organisation that leaves: no branch stays undeletable because it was frozen once."""

import pytest

from models.organizations import Organization
from rules.access.permissions import SYSTEM
from rules.rulesets.frozen_branches import NAME
from services.core.unit_of_work import Caller
from services.enforcement.frozen_branches import write_due
from services.enforcement.ruleset_removal import Remaining, withdraw
from services.offboarding.deletion import end_all
from tests.harness.github_harness import Harness
from tests.jobs.conftest import enter_scene, fake_github, harness, scenes
from tests.jobs.frozen_branches.conftest import web
from tests.jobs.frozen_branches.requests import creates, deletes, ours, settle

__all__ = ["enter_scene", "fake_github", "harness", "scenes", "web"]


@pytest.fixture
def frozen(web: Harness) -> Harness:
    """Return a harness whose branches are frozen, and their ruleset written."""
    web.freeze()
    settle(web)
    return web


def leave(harness: Harness) -> list[Remaining]:
    """End the freezes as a deletion does, and remove the rulesets."""
    caller = Caller(harness.organization.id, SYSTEM, "system")
    with harness.jobs.open(caller) as uow:
        end_all(uow, uow.session.get_one(Organization, harness.organization.id))
    return withdraw(harness.jobs, harness.github, caller)


def removals(harness: Harness) -> list[str]:
    query = "SELECT action FROM audit_entries WHERE target ->> 'name' = :name AND action <> 'ruleset.created'"
    return [row.action for row in harness.sql(query, name=NAME)]


def test_ruleset_of_frozen_branches_is_removed(frozen: Harness) -> None:
    assert leave(frozen) == []
    assert ours(frozen) == []
    assert removals(frozen) == ["ruleset.deleted"]
    assert (deletes(frozen, "next"), creates(frozen, "next")) == (204, 201)
    assert not write_due(frozen.jobs, frozen.github)


def test_rules_that_people_added_to_it_stay(frozen: Harness) -> None:
    [ruleset] = ours(frozen)
    ruleset.rules.append({"type": "non_fast_forward"})
    assert leave(frozen) == []
    assert ours(frozen)[0].rules == [{"type": "non_fast_forward"}]
    assert removals(frozen) == ["ruleset.updated"]
    assert frozen.sql("SELECT * FROM frozen_branch_rulesets") == []


def test_ruleset_whose_creation_was_not_answered_is_removed(web: Harness) -> None:
    web.freeze()
    web.fake_github.faults.add("disconnect", "POST /repos/acme/web/rulesets", after=True, count=1)
    assert write_due(web.jobs, web.github)
    assert len(ours(web)) == 1
    assert leave(web) == []
    assert ours(web) == []


def test_ruleset_that_people_removed_counts_as_removed(frozen: Harness) -> None:
    frozen.person("DELETE", f"/repos/acme/web/rulesets/{ours(frozen)[0].id}").raise_for_status()
    assert leave(frozen) == []
    assert frozen.sql("SELECT * FROM frozen_branch_rulesets") == []


def test_ruleset_that_cannot_be_removed_is_reported(frozen: Harness) -> None:
    [ruleset] = ours(frozen)
    frozen.fake_github.faults.add("error", f"DELETE /repos/acme/web/rulesets/{ruleset.id}", status=403)
    [left] = leave(frozen)
    assert (left.place, left.ruleset_id, left.check_name, left.transient) == ("acme/web", ruleset.id, None, False)
    assert frozen.sql("SELECT ruleset_id FROM frozen_branch_rulesets") == [(ruleset.id,)]
