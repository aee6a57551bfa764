"""Repositories leave the stop of their organisation, and nothing opens before stops of their own hold."""

from typing import Any

import pytest

from tests.harness.github_harness import Harness
from tests.jobs.stops.requests import (
    MANY,
    RULESET_DELAY,
    on,
    open_repositories,
    required,
    required_above,
    stop,
    stop_from,
    within,
)
from tests.jobs.stops.stories import work_for
from tests.jobs.stops.truths import assert_honest, come_right


def frozen_in_two_parts(harness: Harness) -> tuple[str, str]:
    """Have both branches stopped by one ruleset; return the freezes of one in two repositories, and in the others."""
    harness.freeze(on("main"))
    few, most = harness.freeze(within(harness, MANY[:2], "next")), harness.freeze(within(harness, MANY[2:], "next"))
    stop(harness)
    assert len(required_above(harness)) == 1
    return few, most


def unblocked(harness: Harness) -> list[Any]:
    """Return the freezes in force that are not blocked."""
    return harness.sql("SELECT id FROM freezes WHERE ended_at IS NULL AND blocked_at IS NULL")


def test_nothing_opens_while_repositories_change_to_their_own_stops(many: Harness) -> None:
    stop_from(many, delay=RULESET_DELAY)
    few, _most = frozen_in_two_parts(many)
    many.pass_time(RULESET_DELAY)
    stop(many)
    assert open_repositories(many) == unblocked(many) == []
    many.lift(few)

    def sees() -> None:
        assert open_repositories(many) == []
        assert unblocked(many) == []

    work_for(many, 40, sees)
    assert [len(required(many, name)) for name in MANY] == [1, 1, 0, 0, 0]
    assert open_repositories(many, "next") == list(MANY[:2])
    come_right(many)


@pytest.mark.check
def test_nothing_opens_if_their_own_stops_fail_once(many: Harness) -> None:
    few, _most = frozen_in_two_parts(many)
    failed = many.fake_github.faults.add("error", "UpdateRulesets", status=502, count=1)
    many.lift(few)

    def sees() -> None:
        assert open_repositories(many) == []
        assert unblocked(many) == []

    work_for(many, 40, sees)
    assert failed.struck == 1
    assert open_repositories(many, "next") == list(MANY[:2])
    come_right(many)


@pytest.mark.check
def test_branch_that_stays_frozen_in_fewer_repositories_stays_closed_there(many: Harness) -> None:
    """It is freed in most of them, so that the ruleset of the organisation will not name it any more."""
    _few, most = frozen_in_two_parts(many)
    many.lift(most)

    def sees() -> None:
        assert open_repositories(many) == []
        assert not set(open_repositories(many, "next")) & set(MANY[:2])
        assert unblocked(many) == []

    work_for(many, 20, sees)
    assert open_repositories(many, "next") == list(MANY[2:])
    come_right(many)


@pytest.mark.check
def test_repository_with_written_checks_leaves_the_stop_above_at_once(many: Harness) -> None:
    few, _most = frozen_in_two_parts(many)
    many.sql(
        "UPDATE head_checks h SET conclusion = 'failure', unconfirmed = false FROM repositories r "
        "WHERE r.id = h.repository_id AND r.name = ANY(:names)",
        names=list(MANY[:2]),
    )
    many.lift(few)
    stop(many)
    assert [len(required(many, name)) for name in MANY] == [0] * len(MANY)
    assert open_repositories(many, "next") == list(MANY[:2])


@pytest.mark.check
@pytest.mark.parametrize("status", [422, 502])
def test_lifted_branch_is_free_although_repositories_cannot_have_their_own_stop(many: Harness, status: int) -> None:
    few, _most = frozen_in_two_parts(many)
    for call in ("UpdateRulesets", "CreateRulesets", "PUT /repos/acme/web/rulesets", "POST /repos/acme/web/rulesets"):
        many.fake_github.faults.add("error", call, status=status, message="maximum of 75")
    many.lift(few)
    for _ in range(12):
        stop(many)
        assert_honest(many)
        many.pass_time(seconds=5)
    assert open_repositories(many, "next") == list(MANY[:2])
    many.fake_github.faults.clear()
    come_right(many)
