"""Merges that an exception allowed: which one used it, and what is thought of one that came after its end."""

from datetime import timedelta
from typing import Any

import pytest

from services.core.unit_of_work import SYSTEM_CALLER
from services.pull_request_exceptions.expiry import end_exceptions
from tests.faults.test_merge_queue import enqueue
from tests.harness.github_harness import Harness
from tests.jobs.bypass_detection.pushes import Clocks, Notice, frozen, items, merge
from tests.jobs.pull_request_exceptions.grants import grant
from tools.fake_github.model.records import PullRequest


def kinds(harness: Harness) -> list[tuple[str, Any]]:
    return [
        (row[0], row[1])
        for row in harness.sql("SELECT kind, details -> 'delaySeconds' FROM frozen_branch_pushes ORDER BY id")
    ]


def used(harness: Harness) -> list[tuple[str, Any, Any]]:
    return [tuple(row) for row in harness.sql("SELECT id, used_at, used_commit FROM exceptions ORDER BY id")]


def shown(harness: Harness) -> list[Any]:
    query = "SELECT actor ->> 'name', source, target ->> 'id', details FROM audit_entries"
    return [tuple(row) for row in harness.sql(f"{query} WHERE action = 'exception.used'")]


def granted(harness: Harness, clocks: Clocks, freeze: str, number: int, **columns: Any) -> str:
    made = grant(harness, freeze, number, **columns)
    clocks.pass_by()
    harness.run_until_idle()
    clocks.pass_by()
    return made


def test_exception_records_its_merge_once(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(harness, clocks)
    made = granted(harness, clocks, freeze, 1)
    sha = merge(harness, web[0])
    notice()
    notice()
    [(exception_id, used_at, used_commit)] = used(harness)
    assert (exception_id, used_commit) == (made, sha)
    assert abs(used_at - harness.fake_github.world.clock()) < timedelta(seconds=30)
    [(who, source, target, details)] = shown(harness)
    assert (who, source, target, details["commit"]) == ("maintainer", "code_host", made, sha)
    assert kinds(harness) == [("excepted", None)]
    assert items(harness) == []


def test_use_of_an_exception_names_every_freeze_that_it_passed(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    both = [frozen(harness, clocks), frozen(harness, clocks)]
    for freeze in both:
        granted(harness, clocks, freeze, 1)
    sha = merge(harness, web[0])
    notice()
    assert [row[2] for row in used(harness)] == [sha, sha]
    [(_who, _source, _target, details)] = shown(harness)
    assert {row["freezeId"] for row in details["rows"]} == set(both)


def test_exception_of_another_pull_request_is_not_used(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(harness, clocks)
    granted(harness, clocks, freeze, 2)
    merge(harness, web[0])
    notice()
    assert used(harness)[0][2] is None
    assert kinds(harness) == [("bypassed", None)]


def test_merge_past_another_freeze_is_a_bypass(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    granted(harness, clocks, frozen(harness, clocks), 1)
    frozen(harness, clocks)
    merge(harness, web[0])
    notice()
    assert kinds(harness) == [("bypassed", None)]
    assert used(harness)[0][2] is None


@pytest.mark.parametrize("recorded", [True, False], ids=["its end is recorded", "its end is not recorded"])
def test_merge_after_the_end_and_before_the_failure_is_our_delay(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice, recorded: bool
) -> None:
    freeze = frozen(harness, clocks)
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        until = uow.now + timedelta(minutes=1)
    granted(harness, clocks, freeze, 1, expires_at=until)
    clocks.pass_by(minutes=1)
    if recorded:
        end_exceptions(harness.jobs)
    merge(harness, web[0])
    notice()
    [(kind, delay)] = kinds(harness)
    assert kind == "landed_before_block"
    assert 2 <= delay <= 10
    assert used(harness)[0][2] is None


def test_merge_long_after_the_end_is_a_bypass(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(harness, clocks)
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        until = uow.now + timedelta(minutes=1)
    granted(harness, clocks, freeze, 1, expires_at=until)
    clocks.pass_by(minutes=1)
    end_exceptions(harness.jobs)
    harness.run_until_idle()
    clocks.pass_by()
    merge(harness, web[0])
    notice()
    assert kinds(harness) == [("bypassed", None)]


def test_merge_before_the_grant_does_not_use_the_exception(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(harness, clocks)
    merge(harness, web[0])
    clocks.pass_by()
    grant(harness, freeze, 1, decided_at=harness.fake_github.world.clock())
    notice()
    assert kinds(harness) == [("bypassed", None)]
    assert used(harness)[0][2] is None


def test_merge_queue_records_each_pull_request_that_it_merged(
    harness: Harness, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    harness.fake_github.organization("acme").repository("web").merge_queue()
    freeze = frozen(harness, clocks)
    for number in (1, 2):
        granted(harness, clocks, freeze, number)
    enqueue(harness, "web", *web)
    harness.make_due()
    harness.run_until_idle()
    assert all(pull.merged_at for pull in web)
    clocks.pass_by()
    notice()
    assert kinds(harness) == [("excepted", None), ("excepted", None)]
    assert [row[2] for row in used(harness)] == [pull.merge_commit_sha for pull in web]
