"""While a stop is on, what an exception lets in can be merged, and nothing else."""

from typing import Any

import pytest

from rules.freezes.check_names import is_stop
from services.enforcement import exempt_heads, stop_batches
from services.enforcement.stops import stop_due
from tests.harness.github_harness import Harness
from tests.harness.people import arm_auto_merge, push_to_head
from tests.harness.pipeline import let_pass, revoke
from tests.jobs.branches_of_a_pattern.requests import propose_the_same
from tests.jobs.setup.requests import add, ask, work
from tests.jobs.stops.requests import branch, ours, required, settle, stop, stop_from, ways
from tools.fake_github.control.dump import dump_checks
from tools.fake_github.model.records import PullRequest

MAIN, OTHER, NEXT = 1, 3, 2
"""Numbers of pull requests: two into main, one into next."""


def pull_request(harness: Harness, number: int = MAIN) -> PullRequest:
    return harness.record().pulls[number]


def let_in(harness: Harness) -> None:
    """Freeze main, with a stop that one pull request may pass."""
    harness.freeze(branch(harness))
    stop(harness)
    let_pass(harness, f"acme/web#{MAIN}")
    stop(harness)


def merges(harness: Harness, number: int = MAIN) -> bool:
    return harness.merge("acme/web", number).status_code == 200


def passed(harness: Harness) -> dict[int, set[str]]:
    """Return the contexts of stops on the heads of pull requests at GitHub, by number, where there are any."""
    heads = dump_checks(harness.fake_github, {})["heads"]
    found = {head["number"]: {name for name in head["checks"] if is_stop(name)} for head in heads if head.get("number")}
    return {number: contexts for number, contexts in found.items() if contexts}


def test_pull_request_is_let_in_as_soon_as_it_is_excepted(web: Harness) -> None:
    web.freeze(branch(web))
    stop(web)
    assert not merges(web)
    let_pass(web, f"acme/web#{MAIN}")
    stop(web)
    assert passed(web) == {MAIN: set(required(web))}
    assert not merges(web, OTHER)
    assert merges(web)


def test_context_of_a_stop_leads_to_the_page_of_its_pull_request(web: Harness) -> None:
    let_in(web)
    sha, world = pull_request(web).head_sha, web.fake_github.world
    [(repository_id,)] = web.sql("SELECT id FROM repositories")
    found = [run.details_url for run in world.runs.values() if run.head_sha == sha and is_stop(run.name)]
    assert found == [f"http://web.test/pulls?repo={repository_id}&ref={MAIN}"]


def test_exempt_head_has_a_new_context_before_the_ruleset_requires_it(web: Harness) -> None:
    let_in(web)
    [first] = required(web)
    web.freeze(branch(web, "next"))
    stop(web)
    [second] = required(web)
    assert passed(web) == {MAIN: {first, second}}
    assert merges(web)


def test_commit_that_is_let_into_one_stopped_branch_does_not_enter_another(web: Harness) -> None:
    """It is proposed for both, and its old `success` for the other one still stands."""
    number = propose_the_same(web, pull_request(web), "next")
    web.full_resync()
    web.run_until_idle()
    web.freeze()
    stop(web)
    let_pass(web, f"acme/web#{MAIN}")
    stop(web)
    assert passed(web) == {}
    assert ways(web, "next") == set()
    web.run_until_idle()
    web.pass_time(seconds=6)
    web.sql("UPDATE frozen_branch_rulesets SET due_at = clock_timestamp()")
    stop(web)
    assert not merges(web, number)
    assert merges(web)


def test_revoked_exception_leaves_no_way_in(web: Harness) -> None:
    let_in(web)
    [(exception,)] = web.sql("SELECT id FROM exceptions")
    revoke(web, exception)
    settle(web)
    assert ways(web) == set()


def test_new_commit_of_an_excepted_pull_request_is_stopped(web: Harness) -> None:
    let_in(web)
    push_to_head(web, number=MAIN)
    assert not merges(web)


def test_auto_merge_of_an_excepted_pull_request_goes_on(web: Harness) -> None:
    web.freeze(branch(web))
    stop(web)
    pull = arm_auto_merge(web, "acme/web", MAIN)
    let_pass(web, f"acme/web#{MAIN}")
    stop(web)
    settle(web)
    assert pull.merged_at is not None


def test_ruleset_whose_lease_ended_meanwhile_is_left_to_others(web: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends while the contexts of exempt heads are written, before the rulesets are."""
    add(web, "api", branches=("next",))
    stop_from(web, heads=100)
    web.freeze(branch(web))
    let_pass(web, f"acme/web#{MAIN}")
    stop_from(web)
    ask(web)
    work(web)
    web.read_rules()
    stolen: list[object] = []

    def lose_a_lease(*given: Any) -> Any:
        web.sql(
            "UPDATE frozen_branch_rulesets SET lease_token = 'another', lease_until = now() + interval '1 minute' "
            "WHERE repository_id = (SELECT id FROM repositories WHERE name = 'api')"
        )
        stolen.append(given)
        return exempt_heads.write_contexts(*given)

    monkeypatch.setattr(stop_batches, "write_contexts", lose_a_lease)
    web.freeze({"type": "organization", "branches": ["next"]})
    web.sql("UPDATE frozen_branch_rulesets SET may_stop = true")
    web.sql("UPDATE head_checks SET conclusion = 'success'")
    stop_due(web.jobs, web.github)
    assert stolen
    assert ours(web).source_id == web.record().id
