"""Commits that land on frozen branches are found once, with few calls, whatever the code host fails to tell."""

from dataclasses import replace

import pytest
from sqlalchemy.event import listen

from integrations.github import BranchHeads
from jobs.registry import jobs_with_work
from services.bypass_detection.detection import TIPS, record_branch_tips
from services.core.unit_of_work import SYSTEM_CALLER
from tests.harness.webhook_queue import Post, look_everywhere
from tests.jobs.bypass_detection.pushes import (
    Clocks,
    Notice,
    examine,
    frozen,
    items,
    looks,
    merge,
    push,
    repository,
    told,
)
from tests.jobs.conftest import Builder, Town
from tools.fake_github.model.records import PullRequest


def test_push_is_reported_once_however_often_it_is_read(
    town: Town, web: list[PullRequest], clocks: Clocks, post: Post
) -> None:
    frozen(town, clocks)
    merge(town, web[0])
    clocks.pass_by()
    push(town)
    deliveries = post.take()
    for _ in range(2):
        post.hand_over(deliveries)
        town.settle()
        examine(town)
        look_everywhere(town)
        town.sql("UPDATE branch_tips SET due_at = seen_at, moved_since = seen_at - interval '1 hour'")
        examine(town)
    assert [details["how"] for _action, _who, details in told(town)] == ["pr_merge", "push"]
    assert len(items(town)) == 2


def test_push_to_an_unfrozen_branch_costs_no_call(
    town: Town, web: list[PullRequest], post: Post, notice: Notice
) -> None:
    push(town)
    notice()
    assert looks(town) == 0


def test_pass_without_a_push_costs_no_call(town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice) -> None:
    frozen(town, clocks)
    notice()
    assert looks(town) == 0


def test_first_read_of_a_branch_is_no_push(town: Town, build: Builder, clocks: Clocks, notice: Notice) -> None:
    build("web")
    frozen(town, clocks)
    notice()
    assert looks(town) == 0


class TestWhenTheCodeHostIsInTheWay:
    def test_unlisted_push_is_retried(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        late = repository(town).activities.pop()
        look_everywhere(town)
        examine(town)
        assert told(town) == []
        repository(town).activities.append(late)
        clocks.pass_by(minutes=1)
        examine(town)
        assert [action for action, _who, _details in told(town)] == ["freeze.bypassed"]

    def test_push_that_is_never_listed_is_given_up(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        repository(town).activities.clear()
        look_everywhere(town)
        for _ in range(12):
            examine(town)
            clocks.pass_by(minutes=6)
        assert "landings" not in jobs_with_work(town.jobs)
        assert town.sql("SELECT due_at FROM branch_tips") == [(None,)]
        assert told(town) == []

    def test_github_error_is_retried_later(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        look_everywhere(town)
        town.host.faults.add("error", "GET /repos/acme/web/activity", count=1, status=502)
        examine(town)
        assert (told(town), looks(town)) == ([], 1)
        clocks.pass_by(minutes=1)
        assert "landings" in jobs_with_work(town.jobs)
        examine(town)
        assert len(told(town)) == 1

    def test_missing_permission_is_logged_and_retried_seldom(
        self, town: Town, web: list[PullRequest], clocks: Clocks, caplog: pytest.LogCaptureFixture
    ) -> None:
        frozen(town, clocks)
        merge(town, web[0])
        look_everywhere(town)
        refused = "Resource not accessible by integration"
        town.host.faults.add("error", "/pulls", status=403, message=refused)
        examine(town)
        clocks.pass_by(minutes=5)
        examine(town)
        assert (told(town), looks(town)) == ([], 1)
        assert "acme/web:main" in caplog.text
        assert refused in caplog.text

    def test_rate_limit_stops_the_whole_batch(self, town: Town, build: Builder, clocks: Clocks) -> None:
        pulls = build("web", "api", pulls=1)
        town.settle()
        frozen(town, clocks)
        for pull in pulls:
            town.host.world.repositories[pull.repository_id].branches["main"] = pull.head_sha
        look_everywhere(town)
        town.host.faults.add("error", "/activity", count=5, status=429)
        examine(town)
        assert looks(town) == 1
        assert "landings" not in jobs_with_work(town.jobs)

    def test_lease_of_a_dead_worker_expires(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        look_everywhere(town)
        town.sql("UPDATE branch_tips SET lease_token = 'dead', lease_until = due_at + :lease", lease=TIPS.lease)
        assert "landings" not in jobs_with_work(town.jobs)
        clocks.pass_by(minutes=6)
        assert "landings" in jobs_with_work(town.jobs)
        examine(town)
        assert len(told(town)) == 1


def test_tips_of_many_branches_are_recorded_by_one_statement(town: Town, build: Builder, clocks: Clocks) -> None:
    build(*(f"service-{number}" for number in range(30)), pulls=0)
    town.freeze()
    heads = [
        (branch.id, BranchHeads("R_1", "main", None, sha=f"{number:040x}"))
        for number, branch in enumerate(town.branches.values())
    ]
    statements: list[str] = []
    with town.jobs.open(SYSTEM_CALLER) as uow:
        record_branch_tips(uow, heads)
        listen(uow.session.connection(), "before_cursor_execute", lambda *event: statements.append(event[2]))
        record_branch_tips(uow, [(branch_id, replace(found, sha="f" * 40)) for branch_id, found in heads])
        record_branch_tips(uow, [(branch_id, replace(found, sha=None)) for branch_id, found in heads])
    assert len(statements) == 1
    assert uow.wakeups == {"landings"}
    due = town.sql("SELECT count(*) FROM branch_tips WHERE due_at IS NOT NULL AND sha = repeat('f', 40)")
    assert due == [(30,)]
