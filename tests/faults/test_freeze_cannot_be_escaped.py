"""I14: nothing but its end removes a branch from a freeze, and no way of ceasing to watch leaves a rule that blocks."""

from typing import Any

import pytest

from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.repositories import branches, enablement, watches
from tests.faults.test_full_resync import each_delivered_or_lost, find_out
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import choose_repositories, cut, push_to_head, suspend
from tests.harness.webhook_queue import WebhookQueue, disagreements, work


def targets(harness: Harness, freeze_id: str) -> list[tuple[str, str]]:
    rows = harness.sql(
        "SELECT t.branch_id, t.operation FROM freeze_targets t WHERE t.freeze_id = :id ORDER BY 1", id=freeze_id
    )
    return [tuple(row) for row in rows]


def rename(harness: Harness) -> str:
    harness.person("PATCH", "/repos/acme/web", {"name": "elsewhere"})
    return "acme/elsewhere"


def archive(harness: Harness) -> str:
    harness.person("PATCH", "/repos/acme/web", {"archived": True})
    harness.person("PATCH", "/repos/acme/web", {"archived": False})
    return "acme/web"


def change_the_default_branch(harness: Harness) -> str:
    cut(harness, "acme/web", "trunk")
    harness.person("PATCH", "/repos/acme/web", {"default_branch": "trunk"})
    return "acme/web"


def change_the_globs(harness: Harness) -> str:
    with harness.unit() as uow:
        enablement.update(uow, "acme/web", {"autoWatch": []})
    return "acme/web"


def change_a_setting(harness: Harness) -> str:
    with harness.unit() as uow:
        branches.update(uow, harness.branches["acme/web"].id, {"exceptionsAllowed": False})
    return "acme/web"


def lose_the_plan(harness: Harness) -> str:
    harness.sql("DELETE FROM plan_grants")
    return "acme/web"


def suspend_the_installation(harness: Harness) -> str:
    suspend(harness, suspended=True)
    suspend(harness, suspended=False)
    return "acme/web"


def leave_out_the_repository_and_choose_it_again(harness: Harness) -> str:
    choose_repositories(harness, "api")
    choose_repositories(harness)
    return "acme/web"


WAYS = [
    rename,
    archive,
    change_the_default_branch,
    change_the_globs,
    change_a_setting,
    lose_the_plan,
    suspend_the_installation,
    leave_out_the_repository_and_choose_it_again,
]


class TestEscape:
    @each_delivered_or_lost("way", WAYS)
    def test_freeze_cannot_be_escaped(self, webhook_queue: WebhookQueue, way: Any, delivered: bool) -> None:
        self.check(webhook_queue, way, {"type": "glob", "patterns": ["acme/w*"]}, delivered=delivered)

    @pytest.mark.parametrize("way", [rename, lose_the_plan], ids=lambda way: str(way.__name__))
    @pytest.mark.parametrize(
        "scope", [{"type": "organization"}, {"type": "repositories", "repositories": ["acme/web"]}], ids=str
    )
    def test_freeze_of_another_scope_cannot_be_escaped(
        self, webhook_queue: WebhookQueue, way: Any, scope: dict[str, Any]
    ) -> None:
        self.check(webhook_queue, way, scope, delivered=True)

    def check(self, webhook_queue: WebhookQueue, way: Any, scope: dict[str, Any], *, delivered: bool) -> None:
        harness = webhook_queue.harness
        freeze = harness.freeze(scope)
        work(harness)
        before = targets(harness, freeze)
        repository = way(harness)
        find_out(webhook_queue, delivered=delivered)
        work(harness)
        assert set(before) <= set(targets(harness, freeze))
        push_to_head(harness, repository, 1)
        webhook_queue.run()
        assert harness.conclusions()[f"{repository}#1"] == "failure"
        assert harness.merge(repository, 1).status_code == 405
        harness.lift(freeze)
        work(harness)
        assert harness.conclusions()[f"{repository}#1"] == "success"
        assert disagreements(harness) == {}
        assert harness.merge(repository, 1).status_code == 200

    def test_frozen_repository_cannot_be_disabled(self, harness: Harness, build: Builder) -> None:
        build("api", "web")
        freeze = harness.freeze({"type": "repositories", "repositories": ["acme/web"]})
        before = targets(harness, freeze)
        for names in (["acme/web"], ["acme/api", "acme/web"]):
            with pytest.raises(ServiceError) as raised, harness.unit() as uow:
                enablement.disable(uow, names)
            assert raised.value.code == "already_frozen"
        assert harness.sql("SELECT DISTINCT enabled FROM repositories") == [(True,)]
        assert targets(harness, freeze) == before
        with harness.unit() as uow:
            enablement.disable(uow, ["acme/api"])

    def test_frozen_branch_cannot_be_unwatched(self, harness: Harness, build: Builder) -> None:
        build("web")
        freeze = harness.freeze()
        with pytest.raises(ServiceError) as raised, harness.unit() as uow:
            watches.unwatch(uow, harness.branches["acme/web"].id)
        assert raised.value.code == "already_frozen"
        assert harness.sql("SELECT unwatched_at FROM watched_branches") == [(None,)]
        assert len(targets(harness, freeze)) == 1


class TestUnwatching:
    """Each way leaves what the rule at GitHub requires: a check that says `success`."""

    def unwatch(self, uow: UnitOfWork, harness: Harness) -> None:
        watches.unwatch(uow, harness.branches["acme/web"].id)

    def disable(self, uow: UnitOfWork, _harness: Harness) -> None:
        enablement.disable(uow, ["acme/web"])

    @pytest.mark.parametrize("way", ["unwatch", "disable"])
    def test_unwatched_branch_lets_its_pull_requests_merge_after_a_freeze(
        self, harness: Harness, build: Builder, way: str
    ) -> None:
        build("web", pulls=3)
        freeze = harness.freeze()
        work(harness)
        webhook_queue = WebhookQueue(harness)
        harness.lift(freeze)
        with harness.unit() as uow:
            getattr(self, way)(uow, harness)
        work(harness)
        assert harness.merge("acme/web", 1).status_code == 200
        push_to_head(harness, "acme/web", 2)
        webhook_queue.run()
        assert harness.merge("acme/web", 2).status_code == 200

    @pytest.mark.parametrize("way", ["unwatch", "disable"])
    def test_unwatched_branch_is_not_covered_by_later_freezes(self, harness: Harness, build: Builder, way: str) -> None:
        build("api", "web")
        with harness.unit() as uow:
            getattr(self, way)(uow, harness)
        harness.freeze()
        work(harness)
        shown = harness.conclusions()
        assert {shown["acme/web#1"], shown["acme/web#2"]} == {"success"}
        assert {shown["acme/api#1"], shown["acme/api#2"]} == {"failure"}

    @pytest.mark.parametrize("way", ["unwatch", "disable"])
    def test_branch_watched_again_is_covered_by_a_running_freeze(
        self, harness: Harness, build: Builder, way: str
    ) -> None:
        build("api", "web")
        with harness.unit() as uow:
            getattr(self, way)(uow, harness)
        work(harness)
        harness.freeze()
        with harness.unit() as uow:
            if way == "unwatch":
                assert watches.watch_branch(uow, "acme/web", "main").id == harness.branches["acme/web"].id
            else:
                enablement.enable(uow, ["acme/web"])
        work(harness)
        assert set(harness.conclusions().values()) == {"failure"}
