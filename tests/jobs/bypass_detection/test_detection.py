"""Commits that land on frozen branches are found once, with few calls, even where GitHub does not report them."""

from dataclasses import replace

import pytest
from sqlalchemy.event import listen

from integrations.github import BranchHeads
from jobs.registry import jobs_with_work
from services.bypass_detection.detection import TIPS, record_branch_tips
from services.core.unit_of_work import SYSTEM_CALLER
from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import WebhookQueue, full_resync
from tests.jobs.bypass_detection.pushes import (
    Clocks,
    Notice,
    Pushes,
    examine,
    frozen,
    looks,
    push,
)


def test_push_is_reported_once_however_often_it_is_read(pushes: Pushes, webhook_queue: WebhookQueue) -> None:
    pushes.freeze()
    pushes.merge(0)
    pushes.clocks.pass_by()
    pushes.push()
    deliveries = webhook_queue.take()
    for _ in range(2):
        webhook_queue.deliver(deliveries)
        pushes.harness.run_until_idle()
        examine(pushes.harness)
        full_resync(pushes.harness)
        pushes.harness.sql("UPDATE branch_tips SET due_at = seen_at, moved_since = seen_at - interval '1 hour'")
        examine(pushes.harness)
    assert [details["how"] for _action, _who, details in pushes.shown()] == ["pr_merge", "push"]
    assert len(pushes.items()) == 2


def test_push_to_an_unfrozen_branch_costs_no_call(pushes: Pushes, webhook_queue: WebhookQueue, notice: Notice) -> None:
    push(pushes.harness)
    notice()
    assert looks(pushes.harness) == 0


def test_pass_without_a_push_costs_no_call(pushes: Pushes, notice: Notice) -> None:
    pushes.freeze()
    notice()
    assert looks(pushes.harness) == 0


def test_first_read_of_a_branch_is_no_push(harness: Harness, build: Builder, clocks: Clocks, notice: Notice) -> None:
    build("web")
    frozen(harness, clocks)
    notice()
    assert looks(harness) == 0


class TestWhenTheCodeHostIsInTheWay:
    def test_unlisted_push_is_retried(self, pushes: Pushes) -> None:
        pushes.freeze()
        pushes.push()
        late = pushes.harness.record().activities.pop()
        pushes.learn()
        assert pushes.shown() == []
        pushes.harness.record().activities.append(late)
        pushes.clocks.pass_by(minutes=1)
        examine(pushes.harness)
        assert [action for action, _who, _details in pushes.shown()] == ["freeze.bypassed"]

    def test_push_that_is_never_listed_is_given_up(self, pushes: Pushes) -> None:
        pushes.freeze()
        pushes.push()
        pushes.harness.record().activities.clear()
        full_resync(pushes.harness)
        for _ in range(12):
            examine(pushes.harness)
            pushes.clocks.pass_by(minutes=6)
        assert "bypasses" not in jobs_with_work(pushes.harness.jobs)
        assert pushes.harness.sql("SELECT due_at FROM branch_tips") == [(None,)]
        assert pushes.shown() == []

    def test_github_error_is_retried_later(self, pushes: Pushes) -> None:
        pushes.freeze()
        pushes.push()
        full_resync(pushes.harness)
        pushes.harness.fake_github.faults.add("error", "GET /repos/acme/web/activity", count=1, status=502)
        examine(pushes.harness)
        assert (pushes.shown(), looks(pushes.harness)) == ([], 1)
        pushes.clocks.pass_by(minutes=1)
        assert "bypasses" in jobs_with_work(pushes.harness.jobs)
        examine(pushes.harness)
        assert len(pushes.shown()) == 1

    def test_missing_permission_is_logged_and_retried_seldom(
        self, pushes: Pushes, caplog: pytest.LogCaptureFixture
    ) -> None:
        pushes.freeze()
        pushes.merge(0)
        full_resync(pushes.harness)
        refused = "Resource not accessible by integration"
        pushes.harness.fake_github.faults.add("error", "/pulls", status=403, message=refused)
        examine(pushes.harness)
        pushes.clocks.pass_by(minutes=5)
        examine(pushes.harness)
        assert (pushes.shown(), looks(pushes.harness)) == ([], 1)
        assert "acme/web:main" in caplog.text
        assert refused in caplog.text

    def test_rate_limit_stops_the_whole_batch(self, harness: Harness, build: Builder, clocks: Clocks) -> None:
        pulls = build("web", "api", pulls=1)
        harness.run_until_idle()
        frozen(harness, clocks)
        for pull in pulls:
            harness.fake_github.world.repositories[pull.repository_id].branches["main"] = pull.head_sha
        full_resync(harness)
        harness.fake_github.faults.add("error", "/activity", count=5, status=429)
        examine(harness)
        assert looks(harness) == 1
        assert "bypasses" not in jobs_with_work(harness.jobs)

    def test_lease_of_a_dead_worker_expires(self, pushes: Pushes) -> None:
        pushes.freeze()
        pushes.push()
        full_resync(pushes.harness)
        pushes.harness.sql(
            "UPDATE branch_tips SET lease_token = 'dead', lease_until = due_at + :lease", lease=TIPS.lease
        )
        assert "bypasses" not in jobs_with_work(pushes.harness.jobs)
        pushes.clocks.pass_by(minutes=6)
        assert "bypasses" in jobs_with_work(pushes.harness.jobs)
        examine(pushes.harness)
        assert len(pushes.shown()) == 1


def test_tips_of_many_branches_are_recorded_by_one_statement(harness: Harness, build: Builder, clocks: Clocks) -> None:
    build(*(f"service-{number}" for number in range(30)), pulls=0)
    harness.freeze()
    heads = [
        (branch.id, BranchHeads("R_1", "main", None, sha=f"{number:040x}"))
        for number, branch in enumerate(harness.branches.values())
    ]
    statements: list[str] = []
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        record_branch_tips(uow, heads)
        listen(uow.session.connection(), "before_cursor_execute", lambda *event: statements.append(event[2]))
        record_branch_tips(uow, [(branch_id, replace(found, sha="f" * 40)) for branch_id, found in heads])
        record_branch_tips(uow, [(branch_id, replace(found, sha=None)) for branch_id, found in heads])
    assert len(statements) == 1
    assert uow.wakeups == {"bypasses"}
    due = harness.sql("SELECT count(*) FROM branch_tips WHERE due_at IS NOT NULL AND sha = repeat('f', 40)")
    assert due == [(30,)]
