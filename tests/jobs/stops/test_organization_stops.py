"""Where the same branches are frozen in many repositories, one ruleset of their organisation has their stop."""

from datetime import timedelta

from tests.harness.github_harness import Harness
from tests.jobs.stops.requests import (
    FEW,
    MANY,
    above,
    on,
    open_repositories,
    pass_time,
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


def test_one_ruleset_of_the_organization_stops_many_repositories(many: Harness) -> None:
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


def test_stop_of_the_organization_ends_when_every_check_is_written(many: Harness) -> None:
    many.freeze()
    stop(many)
    settle(many)
    assert required_above(many) == []
    assert [each.enforcement for each in above(many)] == ["disabled"]
    assert open_repositories(many) == []
    blocked_at, enforced_at = times(many)
    assert blocked_at < enforced_at
    left = "SELECT stop_context, stop_ending_at, may_stop FROM organization_stops"
    assert many.sql(left) == [(None, None, False)]
    assert many.sql("SELECT FROM frozen_branch_rulesets WHERE organization_stop_id IS NOT NULL") == []


def test_frozen_branches_of_many_repositories_cannot_be_deleted(many: Harness) -> None:
    many.freeze()
    stop(many)
    settle(many)
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
    pass_time(many, timedelta(seconds=6))
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
