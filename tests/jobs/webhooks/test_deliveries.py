"""What each webhook makes of what we know, and what becomes of webhooks that cannot be read."""

from time import sleep

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from integrations.github import GitHub
from rules.access.permissions import CODE_HOST
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.repository_sync import sync
from services.webhooks.deliveries import MAX_ATTEMPTS
from tests.harness.github_harness import Harness
from tests.harness.people import choose_repositories, cut, edit, install, propose, push_to_head, uninstall
from tests.harness.webhook_queue import WebhookQueue, disagreements, work
from tests.services.core.holders import Counts
from tools.fake_github.model import repositories


class TestPullRequests:
    def test_pushed_head_gets_its_success(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        push_to_head(harness, "acme/web", 1)
        assert harness.conclusions()["acme/web#1"] is None
        webhook_queue.run()
        assert harness.conclusions()["acme/web#1"] == "success"

    def test_new_pull_request_is_evaluated_at_once(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        green = propose(harness, "acme/web")
        webhook_queue.run()
        harness.freeze()
        red = propose(harness, "acme/web")
        webhook_queue.run()
        shown = harness.conclusions()
        assert (shown[f"acme/web#{green}"], shown[f"acme/web#{red}"]) == ("failure", "failure")
        assert harness.merge("acme/web", red).status_code == 405

    @pytest.mark.parametrize(("frozen", "expected"), [("main", "success"), ("release/9", "failure")])
    def test_retargeted_pull_request_gets_the_verdict_of_its_new_base(
        self, harness: Harness, webhook_queue: WebhookQueue, frozen: str, expected: str
    ) -> None:
        cut(harness, "acme/web", "release/9")
        webhook_queue.run()
        harness.freeze({"type": "branch", "repository": "acme/web", "branch": frozen})
        work(harness)
        edit(harness, 1, base="release/9")
        webhook_queue.run()
        assert harness.run_on(harness.record().pulls[1], "change-freeze/release/*").conclusion == expected
        assert disagreements(harness) == {}

    def test_rerequested_check_is_written_again(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        run = harness.run_on(harness.record().pulls[1])
        run.conclusion = "failure"  # edited by hand, without a webhook
        assert harness.person("POST", f"/repos/acme/web/check-runs/{run.id}/rerequest").status_code == 201
        webhook_queue.run()
        assert harness.conclusions()["acme/web#1"] == "success"


class TestRepositories:
    def test_new_branch_matching_globs_is_watched_and_joins_running_freezes(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        harness.freeze()
        cut(harness, "acme/web", "release/9")
        cut(harness, "acme/web", "feature")
        number = propose(harness, "acme/web", "release/9")
        webhook_queue.run()
        names = [row[0] for row in harness.sql("SELECT name FROM watched_branches ORDER BY name")]
        assert names == ["main", "main", "release/9"]
        assert harness.conclusions()[f"acme/web#{number}"] == "failure"


class TestInstallations:
    def test_removed_installation_ends_its_freezes_once(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        harness.freeze()
        harness.freeze({"type": "repositories", "repositories": ["acme/web"]})
        work(harness)
        uninstall(harness)
        deliveries = webhook_queue.take()
        for _ in range(2):
            webhook_queue.deliver(deliveries)
            work(harness)
        assert harness.sql("SELECT state FROM installations") == [("removed",)]
        assert harness.sql("SELECT DISTINCT end_reason, ended_by ->> 'type' FROM freezes") == [
            ("installation_removed", "code_host")
        ]
        progress = "('freeze.started', 'freeze.enforced')"
        actions = [row[0] for row in harness.sql(f"SELECT action FROM audit_entries WHERE action NOT IN {progress}")]
        assert sorted(actions) == ["freeze.ended", "freeze.ended", "installation.removed"]
        assert set(harness.conclusions().values()) == {"failure"}  # what is written stays

    def test_removed_installation_is_detected_by_the_next_write(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        uninstall(harness)
        harness.freeze()
        work(harness)
        assert harness.sql("SELECT state FROM installations") == [("removed",)]
        assert harness.sql("SELECT end_reason FROM freezes") == [("installation_removed",)]

    @pytest.mark.parametrize("delivered", [True, False])
    def test_outdated_deletion_of_an_installation_ends_nothing(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        """A deletion whose webhook comes late or never: GitHub is read, not the payload."""
        harness.freeze()
        work(harness)
        number = uninstall(harness)
        deliveries = webhook_queue.take() if delivered else []
        install(harness, number)
        webhook_queue.deliver(deliveries)
        webhook_queue.run()
        assert harness.sql("SELECT state FROM installations") == [("active",)]
        assert harness.sql("SELECT end_reason FROM freezes") == [(None,)]

    def test_deselected_repository_is_hidden_until_selected_again(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        freeze = harness.freeze()
        work(harness)
        for chosen, hidden in ((["api"], True), (["api", "web"], False)):
            choose_repositories(harness, *chosen)
            webhook_queue.run()
            work(harness)
            assert harness.sql("SELECT removed_at IS NOT NULL FROM repositories WHERE name = 'web'") == [(hidden,)]
        harness.lift(freeze)
        webhook_queue.run()
        work(harness)
        assert set(harness.conclusions().values()) == {"success"}


def make_deliveries_due(harness: Harness) -> None:
    harness.sql("UPDATE webhook_deliveries SET due_at = received_at WHERE due_at IS NOT NULL")


class TestDeliveries:
    def test_failed_delivery_is_retried(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        harness.person("PATCH", "/repos/acme/web", {"name": "site"})
        down = harness.fake_github.faults.add("error", status=500)
        webhook_queue.deliver(webhook_queue.take())
        [[waiting]] = harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL")
        harness.fake_github.faults.clear(down.id)
        harness.process_webhooks()
        assert harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(waiting,)]
        make_deliveries_due(harness)
        harness.process_webhooks()
        assert harness.sql("SELECT name FROM repositories ORDER BY name") == [("api",), ("site",)]
        assert harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]
        assert waiting > 0

    def test_delivery_of_a_job_without_connection_is_processed_by_the_next(
        self, harness: Harness, webhook_queue: WebhookQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.person("PATCH", "/repos/acme/web", {"name": "site"})

        def lose_the_connection(uow_factory: UnitOfWorkFactory, *_: object) -> None:
            with uow_factory.open(SYSTEM_CALLER) as uow:
                uow.session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 1"))
                sleep(0.1)

        monkeypatch.setattr(sync, "refresh_repository", lose_the_connection)
        with pytest.raises(DBAPIError):
            webhook_queue.deliver(webhook_queue.take())
        monkeypatch.undo()
        harness.process_webhooks()
        assert harness.sql("SELECT name FROM repositories ORDER BY name") == [("api",), ("site",)]
        assert harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]

    def test_deliveries_of_one_batch_lose_no_lease(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        """Each delivery is released when it is done; the leases of the others are renewed before each request."""
        harness.person("PATCH", "/repos/acme/web", {"name": "site"})
        harness.person("PATCH", "/repos/acme/api", {"name": "core"})
        observer = Counts()
        harness.jobs.ports = harness.jobs.ports.having(observer)
        webhook_queue.deliver(webhook_queue.take())
        assert harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]
        assert [report for report in observer.reports if report[0] == "lost"] == []

    def test_work_on_deliveries_ends_when_another_process_has_taken_them(
        self, harness: Harness, webhook_queue: WebhookQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process is stopped during its first request, until another one has done all the work."""
        harness.person("PATCH", "/repos/acme/web", {"name": "site"})
        harness.person("PATCH", "/repos/acme/api", {"name": "core"})
        refreshed: list[int] = []

        def be_overtaken(uow_factory: UnitOfWorkFactory, github: GitHub, github_id: int) -> None:
            refreshed.append(github_id)
            with uow_factory.open(SYSTEM_CALLER) as uow:
                taken = "lease_token = NULL, lease_holder = NULL, lease_until = NULL"
                uow.session.execute(text(f"UPDATE webhook_deliveries SET due_at = NULL, processed_at = now(), {taken}"))

        monkeypatch.setattr(sync, "refresh_repository", be_overtaken)
        webhook_queue.deliver(webhook_queue.take())
        assert len(refreshed) == 1

    def test_delivery_is_abandoned_after_the_maximum_of_attempts(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        harness.person("PATCH", "/repos/acme/web", {"name": "site"})
        harness.fake_github.faults.add("error", status=500)
        webhook_queue.deliver(webhook_queue.take())
        for _ in range(MAX_ATTEMPTS):
            make_deliveries_due(harness)
            harness.process_webhooks()
        assert harness.sql("SELECT max(attempts), count(due_at) FROM webhook_deliveries") == [(MAX_ATTEMPTS, 0)]

    def test_malformed_and_foreign_deliveries_are_processed_without_effect(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        before = harness.sql("SELECT id, wanted_generation, due_at FROM checks ORDER BY id")
        with harness.uow_factory.open(Caller(None, CODE_HOST, "code_host")) as uow:
            for number, (event, payload) in enumerate(
                [
                    ("push", "{}"),
                    ("push", '{"ref": 7, "repository": []}'),
                    ("push", '{"ref": "refs/heads/main", "repository": {"id": 999999999}}'),
                    ("installation", '{"action": "deleted", "installation": {"id": 999999999}}'),
                    ("pull_request", '{"action": "opened", "repository": {"id": 999999999}, "pull_request": {}}'),
                    ("something_new", '{"action": "done"}'),
                    ("repository", '{"action": "deleted", "repository": {"id": 999999999}}'),
                ]
            ):
                uow.session.connection().exec_driver_sql(
                    "INSERT INTO webhook_deliveries (delivery_id, event, payload, received_at, due_at)"
                    " VALUES (%s, %s, %s, now(), now())",
                    (str(number), event, payload),
                )
        harness.process_webhooks()
        assert harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]
        assert harness.sql("SELECT id, wanted_generation, due_at FROM checks ORDER BY id") == before

    def test_deleted_repository_is_hidden_and_its_freeze_can_be_lifted(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        freeze = harness.freeze()
        work(harness)
        harness.act(repositories.delete, harness.record())
        webhook_queue.run()
        work(harness)
        assert harness.sql("SELECT removed_at IS NOT NULL FROM repositories ORDER BY name") == [(False,), (True,)]
        harness.lift(freeze)
        work(harness)
        assert harness.conclusions() == {"acme/api#1": "success", "acme/api#2": "success"}
