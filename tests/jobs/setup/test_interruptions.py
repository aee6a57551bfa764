"""Setting enforcement up when workers die and GitHub refuses: each ruleset is written and audited once."""

import gc
from contextlib import suppress
from datetime import timedelta

import pytest

from integrations.github.sockets import CALL_DEADLINE
from services.enforcement.setup_runs import apply_due
from tests.harness.github_harness import Harness
from tests.harness.watched_units import DeathError, dying_units
from tests.jobs.conftest import EnterScene
from tests.jobs.setup.requests import (
    MAIN,
    abandoned_with_a_rule_of_others,
    actions,
    add,
    ask,
    asked,
    audit,
    done,
    names,
    state,
    work,
)


class TestDeath:
    """What a worker that was killed leaves behind."""

    def test_unrecorded_creation_is_recognised(self, harness: Harness) -> None:
        asked(harness, "web")
        fault = harness.fake_github.faults.add("disconnect", "POST /repos/acme/web/rulesets", after=True, count=1)
        assert apply_due(harness.jobs, harness.github)
        harness.fake_github.faults.clear(fault.id)
        assert harness.sql("SELECT count(*) FROM written_rulesets")[0][0] == 0
        work(harness)
        assert names(harness.fake_github) == {"web": ["Change freeze: main"]}
        assert state(harness)[:2] == ("done", 1)
        assert audit(harness) == ["enforcement.setup_requested", "ruleset.created"]

    def test_identical_ruleset_of_others_is_not_taken_for_ours(self, harness: Harness) -> None:
        add(harness, "web")
        [change] = ask(harness, "plan")["changes"]
        harness.fake_github.organization("acme").repository("web").ruleset(**change["after"])
        assert actions(ask(harness)) == [("none", "repository", "acme/web")]
        work(harness)
        assert harness.sql("SELECT count(*) FROM written_rulesets")[0][0] == 0

    def test_unrecorded_update_is_audited_once(self, harness: Harness) -> None:
        done(harness, "web")
        [ruleset] = harness.fake_github.world.rulesets.values()
        ruleset.enforcement = "evaluate"
        ask(harness)
        harness.run_until_idle()
        fault = harness.fake_github.faults.add(
            "disconnect", f"PUT /repos/acme/web/rulesets/{ruleset.id}", after=True, count=1
        )
        assert apply_due(harness.jobs, harness.github)
        harness.fake_github.faults.clear(fault.id)
        work(harness)
        assert audit(harness)[-2:] == ["enforcement.setup_requested", "ruleset.updated"]

    def test_unrecorded_removal_of_our_check_ends_ownership(self, harness: Harness) -> None:
        ruleset = abandoned_with_a_rule_of_others(harness)
        ask(harness)
        harness.run_until_idle()
        fault = harness.fake_github.faults.add(
            "disconnect", f"PUT /repos/acme/web/rulesets/{ruleset.id}", after=True, count=1
        )
        assert apply_due(harness.jobs, harness.github)
        harness.fake_github.faults.clear(fault.id)
        work(harness)
        assert ruleset.rules == [{"type": "deletion"}]
        assert harness.sql("SELECT check_name FROM written_rulesets") == [(MAIN,)]
        assert audit(harness)[-2:] == ["enforcement.setup_requested", "ruleset.updated"]

    def test_expired_lease_of_a_setup_is_taken_over(self, harness: Harness) -> None:
        asked(harness, "web")
        harness.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() + interval '50 s'")
        assert not apply_due(harness.jobs, harness.github)
        harness.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() - interval '1 s'")
        assert apply_due(harness.jobs, harness.github)
        assert state(harness)[0] == "done"


@pytest.mark.parametrize("transactions", range(1, 12))
def test_each_ruleset_is_written_once_wherever_a_worker_dies(
    harness: Harness, enter_scene: EnterScene, transactions: int
) -> None:
    def asked() -> None:
        add(harness, "web", "api", branches=("main", "next"))
        ask(harness, scope={"type": "repositories", "repositories": ["acme/web", "acme/api"]})
        harness.run_until_idle()

    enter_scene(asked)
    with suppress(DeathError):
        apply_due(dying_units(harness.jobs, transactions), harness.github)
    harness.sql(
        "UPDATE enforcement_setups SET lease_until = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL"
    )
    work(harness)
    both = ["Change freeze: main", "Change freeze: next"]
    assert names(harness.fake_github) == {"web": both, "api": both}
    assert state(harness) == ("done", 4, None)
    assert audit(harness) == ["enforcement.setup_requested"] + ["ruleset.created"] * 4
    assert harness.sql("SELECT count(*) FROM written_rulesets")[0][0] == 4


class TestRefusals:
    def test_setup_is_retried_later_when_github_is_down(self, harness: Harness) -> None:
        asked(harness, "web")
        fault = harness.fake_github.faults.add("error", "/repos/acme/web/rulesets", status=502)
        assert apply_due(harness.jobs, harness.github)
        assert not apply_due(harness.jobs, harness.github)
        assert state(harness)[0] == "queued"
        harness.fake_github.faults.clear(fault.id)
        work(harness)
        assert state(harness)[0] == "done"

    def test_failed_write_leaves_no_deadline_behind(self, harness: Harness) -> None:
        asked(harness, "web")
        harness.fake_github.faults.add("error", "POST /repos/acme/web/rulesets", status=502)
        gc.disable()  # what the error holds would else be freed sooner or later
        try:
            assert apply_due(harness.jobs, harness.github)
            assert CALL_DEADLINE.get(None) is None
        finally:
            gc.enable()

    def test_setup_waits_for_a_rate_limit(self, harness: Harness) -> None:
        asked(harness, "web")
        message = "You have exceeded a secondary rate limit"
        harness.fake_github.faults.add("error", "POST /repos/acme/web/rulesets", status=403, message=message, count=1)
        assert apply_due(harness.jobs, harness.github)
        [(paused, due)] = harness.sql(
            "SELECT i.paused_until - clock_timestamp(), s.due_at - clock_timestamp() "
            "FROM installations i, enforcement_setups s"
        )
        assert paused > timedelta(seconds=50)
        assert due > timedelta(seconds=50)

    def test_setup_waits_for_a_corrected_app_key(self, harness: Harness) -> None:
        asked(harness, "web")
        harness.fake_github.faults.add("revoked", "/repos/acme/web", count=1)
        refusal = harness.fake_github.faults.add("error", "/access_tokens", status=401)
        assert apply_due(harness.jobs, harness.github)
        [(due, attempts)] = harness.sql("SELECT due_at - clock_timestamp(), attempts FROM enforcement_setups")
        assert due <= timedelta(seconds=45)
        assert (state(harness)[0], attempts) == ("queued", 0)
        harness.fake_github.faults.clear(refusal.id)
        work(harness)
        assert state(harness)[0] == "done"

    def test_refused_ruleset_is_reported_and_the_rest_is_written(self, harness: Harness) -> None:
        add(harness, "web", "api")
        scope = {"type": "repositories", "repositories": ["acme/web", "acme/api"]}
        ask(harness, scope=scope)
        harness.run_until_idle()
        harness.fake_github.faults.add("error", "POST /repos/acme/web/rulesets", status=403)
        work(harness)
        assert names(harness.fake_github) == {"api": ["Change freeze: main"]}
        assert harness.sql("SELECT id FROM enforcement_setups WHERE jsonb_exists(progress, 'writing')") == []
        outcome, written, shown = state(harness)
        assert (outcome, written) == ("failed", 1)
        assert shown is not None
        assert "acme/web" in shown
