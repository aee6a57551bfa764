"""Merges that an exception allowed: which one used it, and what is thought of one that came after its end."""

from datetime import timedelta
from typing import Any

import pytest

from services.core.unit_of_work import SYSTEM_CALLER
from services.pull_request_exceptions.expiry import end_exceptions
from tests.faults.test_merge_queue import enqueue
from tests.jobs.bypass_detection.pushes import Clocks, Notice, frozen, items, merge
from tests.jobs.conftest import Town
from tests.jobs.pull_request_exceptions.granting import grant
from tools.fake_github.model.records import PullRequest


def kinds(town: Town) -> list[tuple[str, Any]]:
    return [
        (row[0], row[1])
        for row in town.sql("SELECT kind, details -> 'delaySeconds' FROM frozen_branch_pushes ORDER BY id")
    ]


def used(town: Town) -> list[tuple[str, Any, Any]]:
    return [tuple(row) for row in town.sql("SELECT id, used_at, used_commit FROM exceptions ORDER BY id")]


def told(town: Town) -> list[Any]:
    query = "SELECT actor ->> 'name', source, target ->> 'id', details FROM audit_entries"
    return [tuple(row) for row in town.sql(f"{query} WHERE action = 'exception.used'")]


def granted(town: Town, clocks: Clocks, freeze: str, number: int, **columns: Any) -> str:
    made = grant(town, freeze, number, **columns)
    clocks.pass_by()
    town.settle()
    clocks.pass_by()
    return made


def test_exception_records_its_merge_once(town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice) -> None:
    freeze = frozen(town, clocks)
    made = granted(town, clocks, freeze, 1)
    sha = merge(town, web[0])
    notice()
    notice()
    [(exception_id, used_at, used_commit)] = used(town)
    assert (exception_id, used_commit) == (made, sha)
    assert abs(used_at - town.host.world.clock()) < timedelta(seconds=30)
    [(who, source, target, details)] = told(town)
    assert (who, source, target, details["commit"]) == ("maintainer", "code_host", made, sha)
    assert kinds(town) == [("excepted", None)]
    assert items(town) == []


def test_use_of_an_exception_names_every_freeze_that_it_passed(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    both = [frozen(town, clocks), frozen(town, clocks)]
    for freeze in both:
        granted(town, clocks, freeze, 1)
    sha = merge(town, web[0])
    notice()
    assert [row[2] for row in used(town)] == [sha, sha]
    [(_who, _source, _target, details)] = told(town)
    assert {row["freezeId"] for row in details["rows"]} == set(both)


def test_exception_of_another_pull_request_is_not_used(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(town, clocks)
    granted(town, clocks, freeze, 2)
    merge(town, web[0])
    notice()
    assert used(town)[0][2] is None
    assert kinds(town) == [("bypassed", None)]


def test_merge_past_another_freeze_is_a_bypass(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    granted(town, clocks, frozen(town, clocks), 1)
    frozen(town, clocks)
    merge(town, web[0])
    notice()
    assert kinds(town) == [("bypassed", None)]
    assert used(town)[0][2] is None


@pytest.mark.parametrize("recorded", [True, False], ids=["its end is recorded", "nobody has recorded its end"])
def test_merge_after_the_end_and_before_the_failure_is_our_delay(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice, recorded: bool
) -> None:
    freeze = frozen(town, clocks)
    with town.jobs.open(SYSTEM_CALLER) as uow:
        until = uow.now + timedelta(minutes=1)
    granted(town, clocks, freeze, 1, expires_at=until)
    clocks.pass_by(minutes=1)
    if recorded:
        end_exceptions(town.jobs)
    merge(town, web[0])
    notice()
    [(kind, delay)] = kinds(town)
    assert kind == "landed_before_block"
    assert 2 <= delay <= 10
    assert used(town)[0][2] is None


def test_merge_long_after_the_end_is_a_bypass(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(town, clocks)
    with town.jobs.open(SYSTEM_CALLER) as uow:
        until = uow.now + timedelta(minutes=1)
    granted(town, clocks, freeze, 1, expires_at=until)
    clocks.pass_by(minutes=1)
    end_exceptions(town.jobs)
    town.settle()
    clocks.pass_by()
    merge(town, web[0])
    notice()
    assert kinds(town) == [("bypassed", None)]


def test_merge_before_the_grant_does_not_use_the_exception(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(town, clocks)
    merge(town, web[0])
    clocks.pass_by()
    grant(town, freeze, 1, decided_at=town.host.world.clock())
    notice()
    assert kinds(town) == [("bypassed", None)]
    assert used(town)[0][2] is None


def test_merge_queue_records_each_pull_request_that_it_merged(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    town.host.organization("acme").repository("web").merge_queue()
    freeze = frozen(town, clocks)
    for number in (1, 2):
        granted(town, clocks, freeze, number)
    enqueue(town, "web", *web)
    town.make_due()
    town.settle()
    assert all(pull.merged_at for pull in web)
    clocks.pass_by()
    notice()
    assert kinds(town) == [("excepted", None), ("excepted", None)]
    assert [row[2] for row in used(town)] == [pull.merge_commit_sha for pull in web]
