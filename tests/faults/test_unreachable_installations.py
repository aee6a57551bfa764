"""Unreachable repositories are not retried in a hot loop, and are read again as soon as they are back."""

from tests.faults.test_full_resync import delivered_or_lost, find_out
from tests.harness.concurrency import Task, eventually
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import choose_repositories, install, suspend, uninstall
from tests.harness.webhook_queue import WebhookQueue, disagreements, full_resync, work
from tools.fake_github.model import installations


def allow(harness: Harness, **permissions: str) -> None:
    found = harness.installed
    harness.act(installations.accept_permissions, found, {**found.permissions, **permissions})


def deny_checks(harness: Harness) -> None:
    """Take away the permission to write checks, and the tokens that still have it."""
    allow(harness, checks="read")
    harness.fake_github.faults.add("revoked", "graphql", count=1)


def refuse_the_app(harness: Harness) -> int:
    """Have GitHub refuse the App's key, and a token that it has issued; return the fault to clear."""
    harness.fake_github.faults.add("revoked", "graphql", count=1)
    return harness.fake_github.faults.add("error", "/access_tokens", status=401, message="Bad credentials").id


class TestMissingRepository:
    def test_missing_repository_fails_only_its_target_without_a_hot_loop(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        choose_repositories(harness, "api")
        webhook_queue.take()
        freeze = harness.freeze()
        harness.fake_github.calls.reset()
        harness.run_until_idle()
        assert harness.fake_github.calls.total <= 4
        found = harness.show(freeze)
        assert (found["targets"]["applied"], found["targets"]["failed"], found["enforced_at"]) == (1, 1, None)
        parked = found["by_repository"]["acme/web"]
        assert parked["last_error"]["code"] == "repository_not_found"
        assert parked["next_attempt_at"] is None
        assert harness.run_until_idle() == 0
        assert harness.conclusions()["acme/api#1"] == "failure"

    @delivered_or_lost
    def test_restored_repository_is_blocked_at_once(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        choose_repositories(harness, "api")
        webhook_queue.take()
        freeze = harness.freeze()
        harness.run_until_idle()
        choose_repositories(harness, "api", "web")
        find_out(webhook_queue, delivered=delivered)
        assert harness.merge("acme/web", 1).status_code == 405
        assert harness.show(freeze)["targets"]["applied"] == 2

    @delivered_or_lost
    def test_restored_repository_is_released_at_once_after_the_lift(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        freeze = harness.freeze()
        harness.run_until_idle()
        choose_repositories(harness, "api")
        webhook_queue.take()
        harness.lift(freeze)
        harness.run_until_idle()
        assert harness.merge("acme/web", 1).status_code == 405
        choose_repositories(harness, "api", "web")
        find_out(webhook_queue, delivered=delivered)
        assert harness.merge("acme/web", 1).status_code == 200


class TestInstallation:
    @delivered_or_lost
    def test_unsuspended_installation_continues_where_it_stopped(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        suspend(harness, suspended=True)
        harness.freeze()
        find_out(webhook_queue, delivered=delivered)
        assert harness.sql("SELECT state FROM installations") == [("suspended",)]
        calls = harness.fake_github.calls.total
        work(harness)
        assert harness.fake_github.calls.total == calls
        suspend(harness, suspended=False)
        find_out(webhook_queue, delivered=delivered)
        assert harness.sql("SELECT state FROM installations") == [("active",)]
        assert disagreements(harness) == {}
        assert harness.merge("acme/web", 1).status_code == 405

    def test_suspended_installation_takes_one_call_per_full_resync(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        suspend(harness, suspended=True)
        webhook_queue.run()
        harness.fake_github.calls.reset()
        full_resync(harness)
        assert harness.fake_github.calls.total == 1

    @delivered_or_lost
    def test_reinstalled_installation_gets_its_successes(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        harness.freeze()
        work(harness)
        number = uninstall(harness)
        find_out(webhook_queue, delivered=delivered)
        assert harness.sql("SELECT state FROM installations") == [("removed",)]
        install(harness, number)
        find_out(webhook_queue, delivered=delivered)
        assert harness.sql("SELECT end_reason FROM freezes") == [("installation_removed",)]
        assert harness.merge("acme/web", 1).status_code == 200
        harness.freeze()
        work(harness)
        assert harness.conclusions() == {"acme/api#1": "failure"}


class TestPermission:
    def test_missing_permission_fails_every_target_without_a_hot_loop(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        deny_checks(harness)
        webhook_queue.take()
        freeze = harness.freeze()
        harness.fake_github.calls.reset()
        harness.run_until_idle()
        assert harness.fake_github.calls.by_root_field["createCheckRun"] <= 2
        found = harness.show(freeze)
        assert (found["targets"]["failed"], found["enforced_at"]) == (2, None)
        for target in found["by_repository"].values():
            assert target["last_error"]["code"] == "github_permission_denied"
            assert target["next_attempt_at"] is None
            assert target["heads"] == {"total": 1, "written": 0}
        assert harness.run_until_idle() == 0
        assert harness.sql("SELECT DISTINCT due_at - clock_timestamp() > '10 minutes' FROM checks") == [(True,)]

    def test_granted_permission_is_used_at_once(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        deny_checks(harness)
        webhook_queue.run()
        freeze = harness.freeze()
        work(harness)
        allow(harness, checks="write")
        webhook_queue.run()
        assert harness.merge("acme/web", 1).status_code == 405
        assert harness.show(freeze)["targets"]["applied"] == 2

    def test_granted_permission_is_used_despite_an_older_token(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        deny_checks(harness)
        webhook_queue.run()
        harness.freeze()
        work(harness)
        harness.make_due()
        failing = harness.fake_github.faults.add("error", "createCheckRun", status=502)
        work(harness)
        harness.fake_github.faults.clear(failing.id)
        allow(harness, checks="write")
        webhook_queue.run()
        assert disagreements(harness) == {}

    def test_granted_permission_is_kept_when_an_older_response_arrives_late(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        deny_checks(harness)
        late = harness.fake_github.faults.add("slow_body", "GET /app/installations/", count=1, seconds=0.6)
        asking = Task(webhook_queue.run)
        eventually(lambda: late.struck, during=asking)
        allow(harness, checks="write")
        webhook_queue.run()
        asking.result()
        [[allowed]] = harness.sql("SELECT permissions->>'checks' FROM installations")
        assert allowed == "write"

    def test_granted_permission_without_webhook_is_used_within_half_an_hour(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        deny_checks(harness)
        webhook_queue.take()
        harness.freeze()
        work(harness)
        allow(harness, checks="write")
        webhook_queue.take()
        harness.pass_time(minutes=31)
        work(harness)
        assert harness.merge("acme/web", 1).status_code == 405


class TestAppKey:
    def test_refused_app_key_is_not_tried_in_a_hot_loop(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        refuse_the_app(harness)
        webhook_queue.take()
        freeze = harness.freeze()
        harness.fake_github.calls.reset()
        harness.run_until_idle()
        assert harness.fake_github.calls.total <= 3
        assert harness.show(freeze)["targets"]["failed"] == 2
        assert harness.run_until_idle() == 0

    def test_corrected_app_key_is_used_within_a_minute(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        refusal = refuse_the_app(harness)
        webhook_queue.take()
        freeze = harness.freeze()
        for _ in range(5):  # however long it was refused
            work(harness)
            harness.pass_time(minutes=1)
        assert harness.show(freeze)["targets"]["applied"] == 0
        work(harness)
        harness.fake_github.faults.clear(refusal)
        harness.pass_time(seconds=50)
        harness.run_until_idle()
        assert harness.show(freeze)["targets"]["applied"] == 2
        assert harness.merge("acme/web", 1).status_code == 405


class TestReceipts:
    def test_failed_target_shows_its_error_and_next_attempt(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        harness.read_rules()
        harness.fake_github.faults.add("error", "createCheckRun", status=502, count=1)
        freeze = harness.freeze()
        harness.run_until_idle()
        found = harness.show(freeze)
        counts = {name: count for name, count in found["targets"].items() if count}
        assert counts == {"total": 2, "failed": 2, "unprotected": 2}
        for target in found["by_repository"].values():
            assert target["last_error"]["code"] == "github_unavailable"
            assert "502" in target["last_error"]["message"]
            assert target["next_attempt_at"] > found["started_at"]
            assert (target["attempts"], target["applied_at"]) == (1, None)
        harness.make_due()
        harness.run_until_idle()
        found = harness.show(freeze)
        assert found["targets"]["applied"] == found["targets"]["total"] == 2
        for target in found["by_repository"].values():
            assert (target["last_error"], target["next_attempt_at"], target["attempts"]) == (None, None, 2)
            assert target["heads"] == {"total": 1, "written": 1}
            assert target["applied_at"] <= found["enforced_at"]

    def test_target_counts_the_written_heads_of_its_branch(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=5)
        work(harness)
        harness.fake_github.faults.add("null_check_run", count=2)
        freeze = harness.freeze()
        harness.run_until_idle()
        [target] = harness.show(freeze)["by_repository"].values()
        assert (target["state"], target["heads"]) == ("failed", {"total": 5, "written": 3})
