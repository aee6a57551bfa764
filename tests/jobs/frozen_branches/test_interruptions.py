"""The ruleset of frozen branches when workers die, answers are lost, and GitHub refuses."""

from contextlib import suppress
from datetime import timedelta

import pytest

from rules.rulesets.frozen_branches import NAME
from services.enforcement import frozen_branches
from services.enforcement.frozen_branches import RulesetWork, write_due
from services.enforcement.ruleset_facts import RulesetFacts
from tests.harness.github_harness import Harness
from tests.harness.restores import declare_restored, show_and_confirm
from tests.harness.watched_units import DeathError, dying_units
from tests.jobs.frozen_branches.requests import deletes, hurry, named, ours, row, scope, settle, write
from tests.jobs.setup.requests import add

CREATE = "POST /repos/acme/web/rulesets"


def audited(harness: Harness) -> list[str]:
    query = "SELECT action FROM audit_entries WHERE target ->> 'name' LIKE :name ORDER BY at, id"
    return [each.action for each in harness.sql(query, name=f"{NAME}%")]


def take_over(harness: Harness) -> None:
    harness.sql("UPDATE frozen_branch_rulesets SET lease_until = clock_timestamp() - interval '1 s'")
    hurry(harness)


def test_lost_answer_to_the_creation_makes_no_second_ruleset(web: Harness) -> None:
    web.freeze()
    fault = web.fake_github.faults.add("disconnect", CREATE, after=True, count=1)
    assert write_due(web.jobs, web.github)
    web.fake_github.faults.clear(fault.id)
    assert (row(web).ruleset_id, row(web).writing["name"]) == (None, NAME)
    hurry(web)
    settle(web)
    assert named(web) == ["main", "next", "old"]
    assert audited(web) == ["ruleset.created"]
    assert (row(web).ruleset_id, row(web).writing) == (ours(web)[0].id, None)


def test_freeze_that_ends_before_the_creation_is_known_empties_the_ruleset(web: Harness) -> None:
    freeze = web.freeze()
    web.fake_github.faults.add("disconnect", CREATE, after=True, count=1)
    assert write_due(web.jobs, web.github)
    web.lift(freeze)
    settle(web)
    assert named(web) == []
    assert audited(web) == ["ruleset.created", "ruleset.updated"]


def test_freeze_that_ends_before_an_update_is_known_empties_the_ruleset(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    web.lift(freeze)
    settle(web)
    freeze = web.freeze(scope(web, "old"))
    web.fake_github.faults.add("disconnect", f"PUT /repos/acme/web/rulesets/{ours(web)[0].id}", after=True, count=1)
    assert write_due(web.jobs, web.github)
    assert row(web).branch_names == ["old"]
    web.lift(freeze)
    settle(web)
    assert named(web) == []


@pytest.mark.parametrize("transactions", range(1, 8))
@pytest.mark.parametrize("ends", [False, True])
def test_ruleset_is_right_wherever_a_worker_dies(web: Harness, transactions: int, *, ends: bool) -> None:
    freeze = web.freeze(scope(web, "next"))
    with suppress(DeathError):
        write_due(dying_units(web.jobs, transactions), web.github)
    if ends:
        web.lift(freeze)
    take_over(web)
    settle(web)
    assert (named(web) if ours(web) else []) == ([] if ends else ["next"])
    assert len(ours(web)) <= 1
    assert audited(web).count("ruleset.created") == len(ours(web))


@pytest.mark.parametrize("transactions", range(1, 8))
def test_ruleset_is_emptied_wherever_a_worker_dies(web: Harness, transactions: int) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    web.lift(freeze)
    with suppress(DeathError):
        write_due(dying_units(web.jobs, transactions), web.github)
    take_over(web)
    settle(web)
    assert named(web) == []


def test_freeze_that_ends_while_its_ruleset_is_written_is_not_lost(
    web: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = web.freeze(scope(web, "next"))
    read = frozen_branches._read

    def lift_after_reading(work: RulesetWork) -> RulesetFacts | None:
        facts = read(work)
        monkeypatch.undo()
        web.lift(freeze)
        return facts

    monkeypatch.setattr(frozen_branches, "_read", lift_after_reading)
    assert write_due(web.jobs, web.github)
    assert named(web) == ["next"]
    assert write(web) == 1
    assert named(web) == []


@pytest.mark.parametrize(("status", "message"), [(403, "Resource not accessible by integration"), (422, "No room")])
def test_refused_creation_leaves_no_intent_and_is_tried_seldom(web: Harness, status: int, message: str) -> None:
    web.freeze()
    fault = web.fake_github.faults.add("error", CREATE, status=status, message=message)
    assert write_due(web.jobs, web.github)
    found = row(web)
    assert (found.ruleset_id, found.writing, found.branch_names, found.attempts) == (None, None, [], 1)
    [(delay,)] = web.sql("SELECT due_at - clock_timestamp() FROM frozen_branch_rulesets")
    assert delay > timedelta(minutes=20)
    web.fake_github.faults.clear(fault.id)
    hurry(web)
    settle(web)
    assert named(web) == ["main", "next", "old"]


def test_rate_limit_pauses_the_installation(web: Harness) -> None:
    web.freeze()
    message = "You have exceeded a secondary rate limit"
    web.fake_github.faults.add("error", CREATE, status=403, message=message, count=1)
    assert write_due(web.jobs, web.github)
    [(paused, attempts)] = web.sql(
        "SELECT i.paused_until - clock_timestamp(), s.attempts FROM installations i, frozen_branch_rulesets s"
    )
    assert (paused > timedelta(seconds=50), attempts) == (True, 0)
    hurry(web)
    assert not write_due(web.jobs, web.github)


def test_one_of_many_rulesets_waits_for_the_share_of_the_rate_limit(web: Harness) -> None:
    add(web, "api", "docs", pulls=0)
    web.sql(
        "INSERT INTO github_api_usage (installation_id, at, points, content) "
        "SELECT id, clock_timestamp(), 1000000, 0 FROM installations"
    )
    web.freeze()
    assert write(web) == 1
    failed = "SELECT last_error_code, attempts FROM frozen_branch_rulesets WHERE last_error_code IS NOT NULL"
    assert web.sql(failed) == [("github_rate_limited", 0)]
    web.sql("DELETE FROM github_api_usage")
    hurry(web)
    settle(web)
    assert len(ours(web)) == 3


def test_restored_database_does_not_empty_the_ruleset_until_confirmed(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    declare_restored(web)
    web.lift(freeze)
    assert write_due(web.jobs, web.github)
    assert (named(web), row(web).last_error_code) == (["next"], "maintenance")
    assert deletes(web, "next") == 422
    show_and_confirm(web)
    settle(web)
    assert named(web) == []
