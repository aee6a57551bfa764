"""A freeze with many open heads holds before their checks are written, and nothing of the stop is left afterwards."""

from datetime import timedelta

import pytest

from services.maintenance.tasks import repair_completions, review_enforcement
from tests.harness.github_harness import Harness
from tests.harness.unreadable_exceptions import unreadable_exceptions
from tests.jobs.frozen_branches.requests import named
from tests.jobs.probes.requests import ask
from tests.jobs.stops.requests import (
    RULESET_DELAY,
    audited,
    branch,
    ours,
    released_at,
    required,
    settle,
    stop,
    stop_from,
    times,
    ways,
)
from tests.jobs.stops.stories import work_for


def test_stop_holds_from_before_the_first_check_to_the_last(web: Harness) -> None:
    web.freeze()
    assert ways(web) >= {"merge", "push"}
    stop(web)
    assert ways(web) == ways(web, "next") == set()
    assert set(web.conclusions().values()) == {"success"}
    blocked_at, enforced_at = times(web)
    assert blocked_at is not None
    assert enforced_at is None
    assert audited(web) == [("freeze.blocked", blocked_at)]
    assert len(required(web)) == 1
    settle(web)
    assert required(web) == []
    assert named(web) == ["main", "next"]
    assert ways(web) == set()
    after, enforced_at = times(web)
    assert after == blocked_at < enforced_at
    assert [action for action, _at in audited(web)] == ["freeze.blocked", "freeze.enforced"]


def test_stop_is_made_while_exceptions_cannot_be_read(web: Harness) -> None:
    with unreadable_exceptions(web):
        web.freeze()
        stop(web)
        assert ways(web) == ways(web, "next") == set()
        assert set(web.conclusions().values()) == {"success"}
        assert times(web).blocked_at is not None
    settle(web)
    assert required(web) == []
    assert ways(web) == set()


def test_freeze_with_few_open_heads_has_no_stop(web: Harness) -> None:
    stop_from(web, heads=4)
    web.freeze()
    assert stop(web) == 0
    settle(web)
    assert [action for action, _at in audited(web)] == ["freeze.enforced"]
    assert times(web).blocked_at == times(web).enforced_at is not None


def test_stop_of_a_lifted_freeze_ends_and_its_branches_are_free(web: Harness) -> None:
    freeze = web.freeze()
    stop(web)
    web.lift(freeze)
    stop(web)
    assert required(web) == []
    settle(web)
    assert ways(web) >= {"merge", "push"}
    assert web.sql("SELECT stop_context, stop_ending_at, may_stop FROM frozen_branch_rulesets") == [(None, None, False)]


def test_freeze_is_released_when_its_stop_has_ended_too(web: Harness) -> None:
    stop_from(web, delay=RULESET_DELAY)
    freeze = web.freeze()
    stop(web)
    web.lift(freeze)
    web.run_until_idle()
    assert "merge" not in ways(web)
    assert released_at(web) is None
    stop(web)
    web.pass_time(RULESET_DELAY)
    stop(web)
    assert ways(web) >= {"merge", "push"}
    assert released_at(web) is not None


def test_freeze_is_released_when_its_branch_has_left_the_stop_of_another(web: Harness) -> None:
    web.freeze(branch(web))
    stop(web)
    lifted = web.freeze(branch(web, "next"))
    stop(web)
    web.lift(lifted)
    web.sql("UPDATE freeze_targets SET state = 'released' WHERE operation = 'release'")  # by a pass over it alone
    repair_completions(web.jobs)
    assert released_at(web) is None
    stop(web)
    assert ways(web, "next") >= {"merge", "push"}
    assert released_at(web) is not None
    assert len(required(web)) == 1


def test_branch_that_another_freeze_keeps_stopped_does_not_wait(web: Harness) -> None:
    web.freeze()
    lifted = web.freeze(branch(web))
    stop(web)
    web.lift(lifted)
    web.run_until_idle()
    assert released_at(web) is not None


def test_release_is_recorded_although_the_worker_died_when_its_stop_ended(web: Harness) -> None:
    freeze = web.freeze()
    stop(web)
    web.lift(freeze)
    web.run_until_idle()
    web.sql("UPDATE frozen_branch_rulesets SET stop_context = NULL, stop_ending_at = NULL")
    repair_completions(web.jobs)
    assert released_at(web) is not None


def test_branch_that_is_not_frozen_is_not_stopped(web: Harness) -> None:
    web.freeze(branch(web))
    stop(web)
    assert ways(web) == set()
    assert ways(web, "next") >= {"merge", "push"}
    assert ours(web).conditions["ref_name"]["include"] == ["refs/heads/main"]


def test_freeze_that_adds_a_branch_gets_a_new_context(web: Harness) -> None:
    web.freeze(branch(web))
    stop(web)
    [first] = required(web)
    web.freeze(branch(web, "next"))
    stop(web)
    [second] = required(web)
    assert first != second
    assert ways(web, "next") == set()


def test_stop_of_a_later_freeze_has_a_new_context(web: Harness) -> None:
    freeze = web.freeze()
    stop(web)
    [first] = required(web)
    web.lift(freeze)
    stop(web)
    web.freeze()
    stop(web)
    [second] = required(web)
    assert first != second


def test_lift_of_one_of_two_freezes_frees_its_branch_alone(web: Harness) -> None:
    web.freeze(branch(web))
    stop(web)
    other = web.freeze(branch(web, "next"))
    stop(web)
    web.lift(other)
    stop(web)
    assert ways(web) == set()
    assert ways(web, "next") >= {"merge", "push"}
    assert len(required(web)) == 1


def test_stop_that_ceases_to_name_a_branch_holds_the_others_meanwhile(web: Harness) -> None:
    stop_from(web, delay=RULESET_DELAY)
    web.freeze(branch(web))
    other = web.freeze(branch(web, "next"))
    stop(web)
    web.pass_time(RULESET_DELAY)
    stop(web)
    web.lift(other)

    def sees() -> None:
        review_enforcement(web.jobs)
        assert ways(web) == set()
        assert web.sql("SELECT FROM freezes WHERE ended_at IS NULL AND blocked_at IS NULL") == []

    work_for(web, 2, sees)
    ask(web)  # for a reading before the delay is over
    work_for(web, 40, sees)
    assert ways(web, "next") >= {"merge", "push"}
    assert len(required(web)) == 1


def test_stop_counts_only_once_github_enforces_it(web: Harness) -> None:
    stop_from(web, delay=RULESET_DELAY)
    web.fake_github.settings.ruleset_delay_seconds = RULESET_DELAY.total_seconds()
    web.freeze()
    stop(web)
    ask(web)  # for a reading before that
    stop(web)
    assert len(required(web)) == 1
    assert ways(web) >= {"merge", "push"}
    assert times(web).blocked_at is None
    web.pass_time(RULESET_DELAY + timedelta(seconds=1))
    web.fake_github.settings.ruleset_delay_seconds = 0
    stop(web)
    assert ways(web) == set()
    assert times(web).blocked_at is not None


def test_stop_begins_and_ends_while_the_budget_for_checks_is_used_up(web: Harness) -> None:
    soon = "UPDATE installations SET paused_until = clock_timestamp() + interval '40 minutes'"
    freeze = web.freeze()
    web.sql(soon)
    stop(web)
    assert ways(web) == set()
    assert times(web).blocked_at is not None
    web.lift(freeze)
    stop(web)
    assert required(web) == []


@pytest.mark.parametrize("paused", ["before", "during"])
def test_freeze_with_few_open_heads_has_a_stop_while_checks_have_to_wait(web: Harness, paused: str) -> None:
    stop_from(web, heads=25)
    soon = "UPDATE installations SET paused_until = clock_timestamp() + interval '40 minutes'"
    if paused == "before":
        web.sql(soon)
    freeze = web.freeze()
    if paused == "during":
        web.sql(soon)
        assert stop(web) == 0
        review_enforcement(web.jobs)
    stop(web)
    assert ways(web) == set()
    assert set(web.conclusions().values()) == {"success"}
    assert times(web).blocked_at is not None
    web.lift(freeze)
    stop(web)
    assert required(web) == []


def test_stop_waits_while_github_refuses_calls(web: Harness) -> None:
    web.fake_github.faults.add(
        "error", "graphql mutation CreateRulesets", status=403, message="You have exceeded a secondary rate limit"
    )
    web.freeze()
    stop(web)
    calls = web.fake_github.calls.total
    assert stop(web) == 0
    assert web.fake_github.calls.total == calls
    [(refused,)] = web.sql("SELECT refused_until > clock_timestamp() FROM installations")
    assert refused
