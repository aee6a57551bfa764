"""What GitHub's rules make of our check is found and reported, also who can bypass it."""

import pytest

from tests.harness.github_harness import Harness
from tests.jobs.probes.requests import (
    CHECK,
    TEAM,
    Change,
    above,
    change_ruleset,
    classic,
    found,
    hidden_above,
    hide,
    hide_queue,
    look,
    pin,
    remove,
    seen,
)
from tools.fake_github.builder import RepositoryBuilder


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda _harness, _web: None, ("green", []), id="required of us, without bypass actors"),
        pytest.param(above, ("green", []), id="by the organisation's ruleset"),
        pytest.param(remove, ("red", ["check_not_required"]), id="the rule was removed"),
        pytest.param(
            lambda harness, web: change_ruleset(harness, web, enforcement="disabled"),
            ("red", ["ruleset_disabled"]),
            id="the rule was disabled",
        ),
        pytest.param(
            lambda harness, web: change_ruleset(harness, web, enforcement="evaluate"),
            ("red", ["ruleset_disabled"]),
            id="the rule only evaluates",
        ),
        pytest.param(
            lambda harness, web: pin(harness, web, None), ("amber", ["not_pinned"]), id="anybody's check counts"
        ),
        pytest.param(
            lambda harness, web: pin(harness, web, 99),
            ("red", ["pinned_to_other_app"]),
            id="another App's check counts",
        ),
        pytest.param(
            lambda harness, web: change_ruleset(harness, web, bypass_actors=[TEAM]),
            ("amber", ["bypass_actors"]),
            id="a team can bypass",
        ),
        pytest.param(
            hide("administration"),
            ("amber", ["cannot_see_bypass_actors", "can_be_replaced", "cannot_see_classic_protection"]),
            id="who can bypass is not shown",
        ),
        pytest.param(
            hide("administration", "metadata"),
            ("amber", ["cannot_see_bypass_actors", "can_be_replaced", "cannot_see_classic_protection"]),
            id="what GraphQL shows needs no permission of REST",
        ),
        pytest.param(
            hidden_above,
            ("amber", ["cannot_see_bypass_actors"]),
            id="who can bypass the organisation's ruleset is not shown",
        ),
        pytest.param(lambda _harness, web: web.merge_queue(), ("green", []), id="a merge queue"),
        pytest.param(hide_queue, ("amber", ["merge_queue_not_visible"]), id="a merge queue that is not shown"),
        pytest.param(
            lambda harness, web: classic(harness, web, 99),
            ("red", ["classic_protection_conflict", "pinned_to_other_app"]),
            id="classic protection that we cannot satisfy",
        ),
        pytest.param(
            lambda harness, web: classic(harness, web, harness.fake_github.app_id),
            ("green", ["classic_protection_conflict"]),
            id="classic protection beside it",
        ),
        pytest.param(
            lambda _harness, web: web.record.branches.pop("main"),
            ("green", ["cannot_see_classic_protection", "branch_missing"]),
            id="a branch that does not exist is reported by REST",
        ),
        pytest.param(
            lambda _harness, web: setattr(web.record, "archived", True),
            ("green", ["repository_archived"]),
            id="an archived repository",
        ),
    ],
)
def test_findings_follow_from_what_github_shows(
    harness: Harness, web: RepositoryBuilder, change: Change, expected: tuple[str, list[str]]
) -> None:
    change(harness, web)
    look(harness)
    assert seen(harness) == expected


def test_enforced_branch_shows_its_ruleset(harness: Harness, web: RepositoryBuilder) -> None:
    web.merge_queue(strategy="HEADGREEN")
    look(harness)
    row = found(harness)
    number, ruleset = next(iter(harness.fake_github.world.rulesets.items()))
    assert row.ruleset == {
        "id": number,
        "name": f"Require {CHECK}",
        "enforcement": "active",
        "updated_at": ruleset.updated_at,
    }
    assert (row.required, row.integration_pinned, row.bypass_actors) == (True, True, [])
    assert row.merge_queue == {"groupingStrategy": "HEADGREEN", "reported": True}
    assert row.verified_at is not None
    assert row.due_at is None


def test_bypass_actors_are_named(harness: Harness, web: RepositoryBuilder) -> None:
    app = {"actor_id": harness.fake_github.app_id, "actor_type": "Integration", "bypass_mode": "always"}
    change_ruleset(harness, web, bypass_actors=[TEAM, app, {"actor_id": 7, "actor_type": "User"}])
    look(harness)
    assert found(harness).bypass_actors == [
        {"type": "Team", "id": 12, "name": "team-12", "mode": "pull_request"},
        {"type": "Integration", "id": harness.fake_github.app_id, "name": "Change Freeze", "mode": "always"},
        {"type": "Unknown", "id": None, "name": None, "mode": "always"},
    ]


def test_rule_of_a_future_branch_shows_bypass_actors(harness: Harness, web: RepositoryBuilder) -> None:
    change_ruleset(harness, web, bypass_actors=[TEAM])
    web.record.branches.pop("main")
    look(harness)
    assert seen(harness)[1][0] == "bypass_actors"
