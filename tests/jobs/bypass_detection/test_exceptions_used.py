"""Merges that an exception allowed: which one used it, and what is thought of one that came after its end."""

from datetime import timedelta
from typing import Any

import pytest

from services.core.unit_of_work import SYSTEM_CALLER
from services.pull_request_exceptions.expiry import end_exceptions
from tests.faults.test_merge_queue import enqueue
from tests.harness.github_harness import Harness
from tests.jobs.bypass_detection.pushes import Notice, Pushes
from tests.jobs.pull_request_exceptions.grants import grant


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


def granted(pushes: Pushes, freeze: str, number: int, **columns: Any) -> str:
    made = grant(pushes.harness, freeze, number, **columns)
    pushes.clocks.pass_by()
    pushes.harness.run_until_idle()
    pushes.clocks.pass_by()
    return made


def test_exception_records_its_merge_once(pushes: Pushes, notice: Notice) -> None:
    freeze = pushes.freeze()
    made = granted(pushes, freeze, 1)
    sha = pushes.merge(0)
    notice()
    notice()
    [(exception_id, used_at, used_commit)] = used(pushes.harness)
    assert (exception_id, used_commit) == (made, sha)
    assert abs(used_at - pushes.harness.fake_github.world.clock()) < timedelta(seconds=30)
    [(who, source, target, details)] = shown(pushes.harness)
    assert (who, source, target, details["commit"]) == ("maintainer", "code_host", made, sha)
    assert kinds(pushes.harness) == [("excepted", None)]
    assert pushes.items() == []


def test_use_of_an_exception_names_every_freeze_that_it_passed(pushes: Pushes, notice: Notice) -> None:
    both = [pushes.freeze(), pushes.freeze()]
    for freeze in both:
        granted(pushes, freeze, 1)
    sha = pushes.merge(0)
    notice()
    assert [row[2] for row in used(pushes.harness)] == [sha, sha]
    [(_who, _source, _target, details)] = shown(pushes.harness)
    assert {row["freezeId"] for row in details["rows"]} == set(both)


def test_exception_of_another_pull_request_is_not_used(pushes: Pushes, notice: Notice) -> None:
    freeze = pushes.freeze()
    granted(pushes, freeze, 2)
    pushes.merge(0)
    notice()
    assert used(pushes.harness)[0][2] is None
    assert kinds(pushes.harness) == [("bypassed", None)]


def test_merge_past_another_freeze_is_a_bypass(pushes: Pushes, notice: Notice) -> None:
    granted(pushes, pushes.freeze(), 1)
    pushes.freeze()
    pushes.merge(0)
    notice()
    assert kinds(pushes.harness) == [("bypassed", None)]
    assert used(pushes.harness)[0][2] is None


@pytest.mark.parametrize("recorded", [True, False], ids=["its end is recorded", "its end is not recorded"])
def test_merge_after_the_end_and_before_the_failure_is_our_delay(
    pushes: Pushes, notice: Notice, recorded: bool
) -> None:
    freeze = pushes.freeze()
    with pushes.harness.jobs.open(SYSTEM_CALLER) as uow:
        until = uow.now + timedelta(minutes=1)
    granted(pushes, freeze, 1, expires_at=until)
    pushes.clocks.pass_by(minutes=1)
    if recorded:
        end_exceptions(pushes.harness.jobs)
    pushes.merge(0)
    notice()
    [(kind, delay)] = kinds(pushes.harness)
    assert kind == "landed_before_block"
    assert 2 <= delay <= 10
    assert used(pushes.harness)[0][2] is None


def test_merge_long_after_the_end_is_a_bypass(pushes: Pushes, notice: Notice) -> None:
    freeze = pushes.freeze()
    with pushes.harness.jobs.open(SYSTEM_CALLER) as uow:
        until = uow.now + timedelta(minutes=1)
    granted(pushes, freeze, 1, expires_at=until)
    pushes.clocks.pass_by(minutes=1)
    end_exceptions(pushes.harness.jobs)
    pushes.harness.run_until_idle()
    pushes.clocks.pass_by()
    pushes.merge(0)
    notice()
    assert kinds(pushes.harness) == [("bypassed", None)]


def test_merge_before_the_grant_does_not_use_the_exception(pushes: Pushes, notice: Notice) -> None:
    freeze = pushes.freeze()
    pushes.merge(0)
    pushes.clocks.pass_by()
    grant(pushes.harness, freeze, 1, decided_at=pushes.harness.fake_github.world.clock())
    notice()
    assert kinds(pushes.harness) == [("bypassed", None)]
    assert used(pushes.harness)[0][2] is None


def test_merge_queue_records_each_pull_request_that_it_merged(pushes: Pushes, notice: Notice) -> None:
    pushes.harness.fake_github.organization("acme").repository("web").merge_queue()
    freeze = pushes.freeze()
    for number in (1, 2):
        granted(pushes, freeze, number)
    enqueue(pushes.harness, "web", *pushes.pulls)
    pushes.harness.make_due()
    pushes.harness.run_until_idle()
    assert all(pull.merged_at for pull in pushes.pulls)
    pushes.clocks.pass_by()
    notice()
    assert kinds(pushes.harness) == [("excepted", None), ("excepted", None)]
    assert [row[2] for row in used(pushes.harness)] == [pull.merge_commit_sha for pull in pushes.pulls]
