"""Where the same branches are frozen in many repositories, one ruleset of their organisation has their stop."""

import pytest

from tests.harness.github_harness import Harness
from tests.harness.people import arm_auto_merge
from tests.harness.pipeline import let_pass
from tests.jobs.stops.requests import (
    FEW,
    MANY,
    above,
    on,
    open_repositories,
    required,
    required_above,
    settle,
    stop,
    times,
    ways,
)
from tests.jobs.stops.truths import assert_honest, come_right


def times_of(harness: Harness) -> list[bool]:
    """Return whether each freeze in force is blocked."""
    return [
        row.blocked
        for row in harness.sql("SELECT blocked_at IS NOT NULL AS blocked FROM freezes WHERE ended_at IS NULL")
    ]


def test_one_ruleset_stops_many_repositories_until_every_check_is_written(many: Harness) -> None:
    many.freeze()
    assert open_repositories(many) == list(MANY)
    stop(many)
    assert open_repositories(many) == []
    assert len(required_above(many)) == 1
    assert [required(many, name) for name in MANY] == [[]] * len(MANY)
    assert set(many.conclusions().values()) == {"success"}
    blocked_at, enforced_at = times(many)
    assert blocked_at is not None
    assert enforced_at is None
    settle(many)
    assert required_above(many) == []
    assert [each.enforcement for each in above(many)] == ["disabled"]
    assert open_repositories(many) == []
    blocked_at, enforced_at = times(many)
    assert blocked_at < enforced_at
    left = "SELECT stop_context, stop_ending_at, may_stop FROM organization_stops"
    assert many.sql(left) == [(None, None, False)]
    assert many.sql("SELECT FROM frozen_branch_rulesets WHERE organization_stop_id IS NOT NULL") == []
    assert [ways(many, "main", name) for name in MANY] == [set()] * len(MANY)


def test_lift_during_the_stop_of_the_organization_frees_every_branch(many: Harness) -> None:
    freeze = many.freeze()
    stop(many)
    many.lift(freeze)
    stop(many)
    assert required_above(many) == []
    come_right(many)


def test_branch_that_is_not_frozen_is_not_stopped_above(many: Harness) -> None:
    many.freeze(on("main"))
    stop(many)
    assert open_repositories(many) == []
    assert open_repositories(many, "next") == list(MANY)
    [ruleset] = above(many)
    assert ruleset.conditions["ref_name"] == {"include": ["refs/heads/main"], "exclude": []}


def test_second_freeze_of_the_same_repositories_makes_a_new_context(many: Harness) -> None:
    freezes = [many.freeze(on("main"))]
    stop(many)
    first = required_above(many)
    freezes.append(many.freeze(on("next")))
    stop(many)
    assert_honest(many)
    many.pass_time(seconds=6)
    stop(many)
    assert open_repositories(many) == open_repositories(many, "next") == []
    assert first
    for freeze in freezes:
        many.lift(freeze)
        stop(many)
        assert_honest(many)
    come_right(many)


def test_lift_of_one_of_two_freezes_frees_its_branch_alone(many: Harness) -> None:
    many.freeze(on("main"))
    second = many.freeze(on("next"))
    stop(many)
    many.lift(second)
    stop(many)
    assert open_repositories(many) == []
    assert open_repositories(many, "next") == list(MANY)
    assert len(required_above(many)) == 1
    assert times_of(many) == [True]
    come_right(many)


def test_few_repositories_have_stops_of_their_own(many: Harness) -> None:
    ids = [many.branches[f"acme/{name}:main"].repository_id for name in MANY[:FEW]]
    many.freeze({"type": "repositories", "repositories": ids})
    stop(many)
    assert required_above(many) == []
    assert [len(required(many, name)) for name in MANY] == [1] * FEW + [0, 0]
    come_right(many)


@pytest.mark.parametrize("before", [False, True])
def test_excepted_pull_request_passes_the_stop_of_its_organization(many: Harness, *, before: bool) -> None:
    many.freeze(on("main"))
    if not before:
        stop(many)
    let_pass(many, "acme/service-3#1")
    stop(many)
    assert many.merge("acme/service-3", 1).status_code == 200
    assert many.merge("acme/web", 1).status_code == 405
    assert open_repositories(many) == ["service-3"]  # to push what is merged changes nothing
    settle(many)
    assert required_above(many) == []


def test_auto_merge_goes_on_when_a_freeze_is_lifted_during_the_stop_above(many: Harness) -> None:
    freeze = many.freeze(on("main"))
    stop(many)
    pull = arm_auto_merge(many, "acme/service-4", 1)
    many.lift(freeze)
    settle(many)
    assert pull.merged_at is not None


def test_sixth_set_of_branches_is_stopped_in_its_repositories(many: Harness) -> None:
    """An organisation has five rulesets for stops, which are all taken by other branches here."""
    many.sql(
        "INSERT INTO organization_stops (id, organization_id, installation_id, branch_names, may_stop) "
        "SELECT 'ost_' || number, i.organization_id, i.id, ARRAY['release/' || number], true "
        "FROM installations i, generate_series(1, 5) AS number"
    )
    many.freeze(on("main"))
    stop(many)
    assert above(many) == []
    assert open_repositories(many) == []
    come_right(many)
