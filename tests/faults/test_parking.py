"""What cannot be reached is left alone, without a hot loop, and looked at again as soon as it is back."""

from datetime import timedelta
from threading import Thread
from time import sleep
from typing import Any, cast

import pytest

from services.core.unit_of_work import Caller
from services.freezes import targets as freeze_targets
from services.freezes import views
from tests.faults.test_healing import find_out, heard_or_not
from tests.harness.webhook_queue import Post, disagreements, look_everywhere, work
from tests.jobs.conftest import ADA, Builder, Town
from tests.services.conftest import MovedClock
from tools.fake_github.model import installations
from tools.fake_github.model.records import Installation
from tools.fake_github.model.world import Actor


@pytest.fixture
def post(town: Town, build: Builder) -> Post:
    """Return the silent post of a town with two repositories of one green pull request each."""
    build("api", "web", pulls=1)
    work(town)
    return Post(town)


def installation(town: Town) -> Installation:
    [found] = town.host.world.installations.values()
    return found


def actor(town: Town) -> Actor:
    return Actor(town.host.maintainer)


def choose(town: Town, *names: str) -> None:
    """Choose which repositories the App reaches."""
    chosen = [town.host.organization("acme").repository(name).record for name in names]
    with town.host.world.lock:
        installations.choose_repositories(town.host.world, actor(town), installation(town), chosen)


def suspend(town: Town, *, suspended: bool) -> None:
    with town.host.world.lock:
        installations.suspend(town.host.world, actor(town), installation(town), suspended=suspended)


def allow(town: Town, **permissions: str) -> None:
    with town.host.world.lock:
        found = installation(town)
        installations.accept_permissions(town.host.world, actor(town), found, {**found.permissions, **permissions})


def deny_checks(town: Town) -> None:
    """Take away the permission to write checks, and the tokens that still have it."""
    allow(town, checks="read")
    town.host.faults.add("revoked", "graphql", count=1)


def shown(town: Town, freeze_id: str) -> dict[str, Any]:
    """Return the freeze as `GET /v1/freezes/{id}` shows it, with its targets by repository."""
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        listed = freeze_targets.list_targets(uow, freeze_id, None, None, 100).data
        return {**views.show(uow, freeze_id), "by_repository": {row["repository"]: row for row in listed}}


class TestMissingRepository:
    def test_missing_repository_fails_only_its_target_without_a_hot_loop(self, town: Town, post: Post) -> None:
        choose(town, "api")
        post.take()
        freeze = town.freeze()
        town.host.calls.reset()
        town.settle()
        assert town.host.calls.total <= 4
        found = shown(town, freeze)
        assert (found["targets"]["applied"], found["targets"]["failed"], found["enforced_at"]) == (1, 1, None)
        parked = found["by_repository"]["acme/web"]
        assert parked["last_error"]["code"] == "repository_not_found"
        assert parked["next_attempt_at"] is not None
        assert town.settle() == 0
        assert town.conclusions()["acme/api#1"] == "failure"

    @heard_or_not
    def test_restored_repository_is_blocked_at_once(self, town: Town, post: Post, heard: bool) -> None:
        choose(town, "api")
        post.take()
        freeze = town.freeze()
        town.settle()
        choose(town, "api", "web")
        find_out(post, heard=heard)
        assert town.merge("acme/web", 1).status_code == 405
        assert shown(town, freeze)["targets"]["applied"] == 2

    @heard_or_not
    def test_restored_repository_is_released_at_once_after_the_lift(self, town: Town, post: Post, heard: bool) -> None:
        freeze = town.freeze()
        town.settle()
        choose(town, "api")
        post.take()
        town.lift(freeze)
        town.settle()
        assert town.merge("acme/web", 1).status_code == 405
        choose(town, "api", "web")
        find_out(post, heard=heard)
        assert town.merge("acme/web", 1).status_code == 200


class TestInstallation:
    @heard_or_not
    def test_unsuspended_installation_continues_where_it_stopped(self, town: Town, post: Post, heard: bool) -> None:
        suspend(town, suspended=True)
        town.freeze()
        find_out(post, heard=heard)
        assert town.sql("SELECT state FROM installations") == [("suspended",)]
        calls = town.host.calls.total
        work(town)
        assert town.host.calls.total == calls
        suspend(town, suspended=False)
        find_out(post, heard=heard)
        assert town.sql("SELECT state FROM installations") == [("active",)]
        assert disagreements(town) == {}
        assert town.merge("acme/web", 1).status_code == 405

    def test_suspended_installation_takes_one_call_per_full_resync(self, town: Town, post: Post) -> None:
        suspend(town, suspended=True)
        post.run()
        town.host.calls.reset()
        look_everywhere(town)
        assert town.host.calls.total == 1

    @heard_or_not
    def test_reinstalled_installation_gets_its_successes(self, town: Town, post: Post, heard: bool) -> None:
        town.freeze()
        work(town)
        number = installation(town).id
        with town.host.world.lock:
            installations.uninstall(town.host.world, actor(town), installation(town))
        find_out(post, heard=heard)
        assert town.sql("SELECT state FROM installations") == [("removed",)]
        with town.host.world.lock:
            account = town.host.world.logins["acme"]
            installations.install(town.host.world, actor(town), town.host.app, account, installation_id=number)
        find_out(post, heard=heard)
        assert town.sql("SELECT end_reason FROM freezes") == [("installation_removed",)]
        assert town.merge("acme/web", 1).status_code == 200


class TestPermission:
    def test_missing_permission_fails_every_target_without_a_hot_loop(self, town: Town, post: Post) -> None:
        deny_checks(town)
        post.take()
        freeze = town.freeze()
        town.host.calls.reset()
        town.settle()
        assert town.host.calls.by_root_field["createCheckRun"] <= 2
        found = shown(town, freeze)
        assert (found["targets"]["failed"], found["enforced_at"]) == (2, None)
        for target in found["by_repository"].values():
            assert target["last_error"]["code"] == "github_permission_denied"
            assert target["heads"] == {"total": 1, "written": 0}
        assert town.settle() == 0

    def test_granted_permission_is_used_at_once(self, town: Town, post: Post) -> None:
        deny_checks(town)
        post.run()
        freeze = town.freeze()
        work(town)
        allow(town, checks="write")
        post.run()
        assert town.merge("acme/web", 1).status_code == 405
        assert shown(town, freeze)["targets"]["applied"] == 2

    def test_granted_permission_is_used_despite_an_older_token(self, town: Town, post: Post) -> None:
        deny_checks(town)
        post.run()
        town.freeze()
        work(town)
        town.make_due()
        failing = town.host.faults.add("error", "createCheckRun", status=502)
        work(town)
        town.host.faults.clear(failing.id)
        allow(town, checks="write")
        post.run()
        assert disagreements(town) == {}

    def test_granted_permission_is_kept_when_an_older_response_arrives_late(self, town: Town, post: Post) -> None:
        deny_checks(town)
        late = town.host.faults.add("slow_body", "GET /app/installations/", count=1, seconds=0.6)
        asking = Thread(target=post.run)
        asking.start()
        while not late.struck:
            sleep(0.01)
        allow(town, checks="write")
        post.run()
        asking.join()
        [[allowed]] = town.sql("SELECT permissions->>'checks' FROM installations")
        assert allowed == "write"

    def test_granted_permission_without_webhook_is_used_within_half_an_hour(self, town: Town, post: Post) -> None:
        deny_checks(town)
        post.take()
        town.freeze()
        work(town)
        allow(town, checks="write")
        post.take()
        cast(MovedClock, town.jobs.clock).ahead += timedelta(minutes=31)
        work(town)
        assert town.merge("acme/web", 1).status_code == 405


class TestReceipts:
    def test_failed_target_shows_its_error_and_next_attempt(self, town: Town, post: Post) -> None:
        town.host.faults.add("error", "createCheckRun", status=502, count=1)
        freeze = town.freeze()
        town.settle()
        found = shown(town, freeze)
        assert found["targets"] == {
            "total": 2, "pending": 0, "applied": 0, "releasing": 0, "released": 0, "failed": 2,
        }  # fmt: skip
        for target in found["by_repository"].values():
            assert target["last_error"]["code"] == "github_unavailable"
            assert "502" in target["last_error"]["message"]
            assert target["next_attempt_at"] > found["started_at"]
            assert (target["attempts"], target["applied_at"]) == (1, None)
        town.make_due()
        town.settle()
        found = shown(town, freeze)
        assert found["targets"]["applied"] == found["targets"]["total"] == 2
        for target in found["by_repository"].values():
            assert (target["last_error"], target["next_attempt_at"], target["attempts"]) == (None, None, 2)
            assert target["heads"] == {"total": 1, "written": 1}
            assert target["applied_at"] <= found["enforced_at"]

    def test_target_counts_the_written_heads_of_its_branch(self, town: Town, build: Builder) -> None:
        build("web", pulls=5)
        work(town)
        town.host.faults.add("null_check_run", count=2)
        freeze = town.freeze()
        town.settle()
        [target] = shown(town, freeze)["by_repository"].values()
        assert (target["state"], target["heads"]) == ("failed", {"total": 5, "written": 3})
