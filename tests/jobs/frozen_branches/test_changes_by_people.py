"""People change the ruleset of frozen branches: it is put right while branches are frozen."""

from collections.abc import Callable

import pytest

from rules.rulesets.frozen_branches import NAME
from tests.harness.github_harness import Harness
from tests.jobs.frozen_branches.requests import deletes, named, ours, scope, settle
from tests.jobs.probes.requests import look
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset


def change(harness: Harness, **changes: object) -> None:
    [ruleset] = ours(harness)
    harness.act(update_ruleset, ruleset, changes)


def disable(harness: Harness) -> None:
    change(harness, enforcement="disabled")


def exempt(harness: Harness) -> None:
    change(harness, bypass_actors=[{"actor_type": "OrganizationAdmin", "actor_id": 1}])


def leave_out(harness: Harness) -> None:
    change(harness, conditions={"ref_name": {"include": ["refs/heads/main"], "exclude": []}})


def without_deletion(harness: Harness) -> None:
    change(harness, rules=[{"type": "creation"}])


def remove(harness: Harness) -> None:
    [ruleset] = ours(harness)
    harness.act(delete_ruleset, ruleset)


LOOSEN = [disable, exempt, leave_out, without_deletion, remove]


@pytest.mark.parametrize("loosen", LOOSEN, ids=lambda each: each.__name__)
def test_loosened_ruleset_is_put_right_after_the_next_probe(web: Harness, loosen: Callable[[Harness], None]) -> None:
    web.freeze(scope(web, "next"))
    settle(web)
    loosen(web)
    look(web)
    settle(web)
    assert named(web) == ["next"]
    [ruleset] = ours(web)
    assert ruleset.bypass_actors == []
    assert deletes(web, "next") == 422


def test_what_people_add_stays(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    change(web, name="Ours", rules=[{"type": "deletion"}, {"type": "creation"}, {"type": "non_fast_forward"}])
    web.lift(freeze)
    settle(web)
    [ruleset] = [each for each in web.fake_github.world.rulesets.values() if each.name == "Ours"]
    assert ruleset.rules[-1] == {"type": "non_fast_forward"}
    assert (ruleset.enforcement, ruleset.conditions["ref_name"]["include"]) == ("disabled", [])


def test_ruleset_that_was_deleted_after_the_freeze_stays_deleted(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    web.lift(freeze)
    settle(web)
    remove(web)
    look(web)
    settle(web)
    assert ours(web) == []
    web.freeze(scope(web, "next"))
    settle(web)
    assert named(web) == ["next"]


def test_ruleset_of_others_with_the_same_name_is_left_alone(web: Harness) -> None:
    rules = [{"type": "creation"}, {"type": "deletion"}]
    conditions: dict[str, object] = {"ref_name": {"include": [], "exclude": []}}
    theirs = {"name": NAME, "enforcement": "disabled", "conditions": conditions, "rules": rules}
    web.fake_github.organization("acme").repository("web").ruleset(**theirs)
    web.freeze()
    settle(web)
    assert sorted((each.name, each.enforcement) for each in ours(web)) == [
        (NAME, "disabled"),
        (f"{NAME} (2)", "active"),
    ]


def test_our_own_change_is_not_taken_for_one_of_people(web: Harness) -> None:
    web.freeze()
    settle(web)
    [ruleset] = ours(web)
    changed_at, entries = ruleset.updated_at, len(web.sql("SELECT id FROM audit_entries"))
    for _ in range(2):
        look(web)
        settle(web)
    assert ruleset.updated_at == changed_at
    assert len(web.sql("SELECT id FROM audit_entries")) == entries
