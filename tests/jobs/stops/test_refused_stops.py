"""People have ended a stop: for that freeze its branches get no other, whatever is frozen beside them."""

import pytest

from tests.harness.github_harness import Harness
from tests.jobs.stops.requests import branch, required, settle, stop, times, ways
from tests.jobs.stops.test_changes_by_people import disabled
from tests.jobs.stops.truths import come_right, entering


@pytest.fixture
def refused(web: Harness) -> Harness:
    """Return a harness in which people have ended the stop of `main`."""
    web.freeze(branch(web))
    stop(web)
    disabled(web)
    web.sql("UPDATE frozen_branch_rulesets SET due_at = '2000-01-01', stop_written_at = NULL")
    stop(web)
    assert required(web) == []
    assert times(web).blocked_at is None
    return web


def test_another_branch_that_is_frozen_later_is_stopped_alone(refused: Harness) -> None:
    refused.freeze(branch(refused, "next"))
    stop(refused)
    assert entering(refused, "next") == set()
    assert entering(refused, "main") >= {"merge", "push"}
    settle(refused)
    assert ways(refused) == ways(refused, "next") == set()


def test_later_freeze_of_a_refused_branch_is_stopped(refused: Harness) -> None:
    refused.pass_time(seconds=1)
    refused.freeze()
    stop(refused)
    assert entering(refused, "main") == entering(refused, "next") == set()
    come_right(refused)


def test_refused_branch_keeps_its_protection_where_no_stop_is_needed(refused: Harness) -> None:
    refused.sql("UPDATE head_checks SET conclusion = 'failure', unconfirmed = false WHERE check_name LIKE '%/next'")
    refused.freeze(branch(refused, "next"))
    stop(refused)
    assert required(refused) == []
    assert "deletion" not in ways(refused)
    come_right(refused)
