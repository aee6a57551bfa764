"""I14: nothing but its end removes a branch from a freeze, and no way of ceasing to watch leaves a rule that blocks."""

from typing import Any

import pytest

from rules.errors import ServiceError
from services.core.unit_of_work import Caller, UnitOfWork
from services.freezes import end, views
from services.repositories import branches, enabling, watching
from tests.harness.webhook_queue import Post, disagreements, look_everywhere, work
from tests.jobs.conftest import ADA, Builder, Town
from tools.fake_github.model import installations, repositories
from tools.fake_github.model.world import Actor


def unit_of(town: Town, plan: str = "business") -> Any:
    return town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", plan))


def targets(town: Town, freeze_id: str) -> list[tuple[str, str]]:
    rows = town.sql(
        "SELECT t.branch_id, t.operation FROM freeze_targets t WHERE t.freeze_id = :id ORDER BY 1", id=freeze_id
    )
    return [tuple(row) for row in rows]


def push(town: Town, repository: str, number: int) -> None:
    branch = town.person("GET", f"/repos/{repository}/pulls/{number}").json()["head"]["ref"]
    body = {"message": "more", "content": "bW9yZQ==", "branch": branch}
    assert town.person("PUT", f"/repos/{repository}/contents/more.txt", body).status_code in {200, 201}


def rename(town: Town) -> str:
    town.person("PATCH", "/repos/acme/web", {"name": "elsewhere"})
    return "acme/elsewhere"


def archive(town: Town) -> str:
    town.person("PATCH", "/repos/acme/web", {"archived": True})
    town.person("PATCH", "/repos/acme/web", {"archived": False})
    return "acme/web"


def change_the_default_branch(town: Town) -> str:
    sha = town.person("GET", "/repos/acme/web/branches/main").json()["commit"]["sha"]
    town.person("POST", "/repos/acme/web/git/refs", {"ref": "refs/heads/trunk", "sha": sha})
    town.person("PATCH", "/repos/acme/web", {"default_branch": "trunk"})
    return "acme/web"


def change_the_globs(town: Town) -> str:
    with unit_of(town) as uow:
        enabling.update(uow, "acme/web", {"autoWatch": []})
    return "acme/web"


def change_a_setting(town: Town) -> str:
    with unit_of(town) as uow:
        branches.update(uow, town.branches["acme/web"].id, {"exceptionsAllowed": False})
    return "acme/web"


def lose_the_plan(town: Town) -> str:
    town.sql("UPDATE organizations SET plan = 'free'")
    return "acme/web"


def suspend_the_installation(town: Town) -> str:
    [found] = town.host.world.installations.values()
    for suspended in (True, False):
        with town.host.world.lock:
            installations.suspend(town.host.world, Actor(town.host.maintainer), found, suspended=suspended)
    return "acme/web"


def leave_out_the_repository_and_choose_it_again(town: Town) -> str:
    [found] = town.host.world.installations.values()
    api = town.host.organization("acme").repository("api").record
    for chosen in ([api], None):
        with town.host.world.lock:
            installations.choose_repositories(town.host.world, Actor(town.host.maintainer), found, chosen)
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
    @pytest.mark.parametrize("heard", [True, False], ids=["heard of", "found by the full pass"])
    @pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.__name__))
    def test_freeze_cannot_be_escaped(self, town: Town, build: Builder, way: Any, heard: bool) -> None:
        self.check(town, build, way, {"type": "glob", "patterns": ["acme/w*"]}, heard=heard)

    @pytest.mark.parametrize("way", [rename, lose_the_plan], ids=lambda way: str(way.__name__))
    @pytest.mark.parametrize(
        "scope", [{"type": "organization"}, {"type": "repositories", "repositories": ["acme/web"]}], ids=str
    )
    def test_freeze_of_another_scope_cannot_be_escaped(
        self, town: Town, build: Builder, way: Any, scope: dict[str, Any]
    ) -> None:
        self.check(town, build, way, scope, heard=True)

    def check(self, town: Town, build: Builder, way: Any, scope: dict[str, Any], *, heard: bool) -> None:
        build("api", "web", pulls=1)
        work(town)
        post = Post(town)
        freeze = town.freeze(scope)
        work(town)
        before = targets(town, freeze)
        repository = way(town)
        if heard:
            post.run()
        else:
            post.take()
            look_everywhere(town)
        work(town)
        assert set(before) <= set(targets(town, freeze))
        push(town, repository, 1)
        post.run()
        assert town.conclusions()[f"{repository}#1"] == "failure"
        assert town.merge(repository, 1).status_code == 405
        town.lift(freeze)
        work(town)
        assert town.conclusions()[f"{repository}#1"] == "success"
        assert disagreements(town) == {}
        assert town.merge(repository, 1).status_code == 200

    def test_frozen_repository_cannot_be_disabled(self, town: Town, build: Builder) -> None:
        build("api", "web")
        freeze = town.freeze({"type": "repositories", "repositories": ["acme/web"]})
        before = targets(town, freeze)
        for names in (["acme/web"], ["acme/api", "acme/web"]):
            with pytest.raises(ServiceError) as raised, unit_of(town) as uow:
                enabling.disable(uow, names)
            assert raised.value.code == "already_frozen"
        assert town.sql("SELECT DISTINCT enabled FROM repositories") == [(True,)]
        assert targets(town, freeze) == before
        with unit_of(town) as uow:
            enabling.disable(uow, ["acme/api"])

    def test_frozen_branch_cannot_be_unwatched(self, town: Town, build: Builder) -> None:
        build("web")
        freeze = town.freeze()
        with pytest.raises(ServiceError) as raised, unit_of(town) as uow:
            watching.unwatch(uow, town.branches["acme/web"].id)
        assert raised.value.code == "already_frozen"
        assert town.sql("SELECT unwatched_at FROM watched_branches") == [(None,)]
        assert len(targets(town, freeze)) == 1


class TestUnwatching:
    """Each way leaves what the rule at the code host requires: a check that says `success`."""

    def unwatch(self, uow: UnitOfWork, town: Town) -> None:
        watching.unwatch(uow, town.branches["acme/web"].id)

    def disable(self, uow: UnitOfWork, _town: Town) -> None:
        enabling.disable(uow, ["acme/web"])

    @pytest.mark.parametrize("way", ["unwatch", "disable"])
    def test_unwatched_branch_lets_its_pull_requests_merge_after_a_freeze(
        self, town: Town, build: Builder, way: str
    ) -> None:
        build("web", pulls=3)
        freeze = town.freeze()
        work(town)
        post = Post(town)
        town.lift(freeze)
        with unit_of(town) as uow:
            getattr(self, way)(uow, town)
        work(town)
        assert town.merge("acme/web", 1).status_code == 200
        push(town, "acme/web", 2)
        post.run()
        assert town.merge("acme/web", 2).status_code == 200

    @pytest.mark.parametrize("way", ["unwatch", "disable"])
    def test_unwatched_branch_is_not_covered_by_later_freezes(self, town: Town, build: Builder, way: str) -> None:
        build("api", "web")
        with unit_of(town) as uow:
            getattr(self, way)(uow, town)
        town.freeze()
        work(town)
        shown = town.conclusions()
        assert {shown["acme/web#1"], shown["acme/web#2"]} == {"success"}
        assert {shown["acme/api#1"], shown["acme/api#2"]} == {"failure"}

    @pytest.mark.parametrize("way", ["unwatch", "disable"])
    def test_branch_watched_again_is_covered_by_a_running_freeze(self, town: Town, build: Builder, way: str) -> None:
        build("api", "web")
        with unit_of(town) as uow:
            getattr(self, way)(uow, town)
        work(town)
        town.freeze()
        with unit_of(town) as uow:
            if way == "unwatch":
                watching.watch_branch(uow, "acme/web", "main")
            else:
                enabling.enable(uow, ["acme/web"])
        work(town)
        assert set(town.conclusions().values()) == {"failure"}


class TestTransfer:
    def test_transferred_repository_stays_in_its_freeze_until_the_end(self, town: Town, build: Builder) -> None:
        build("api", "web", pulls=1)
        work(town)
        post = Post(town)
        freeze = town.freeze({"type": "repositories", "repositories": ["acme/web"]})
        work(town)
        new_owner = town.host.organization("initech").account
        record = town.host.organization("acme").repository("web").record
        with town.host.world.lock:
            repositories.transfer(town.host.world, Actor(town.host.maintainer), record, new_owner)
        post.run()
        look_everywhere(town)
        assert town.conclusions()["initech/web#1"] == "failure"
        with unit_of(town) as uow:
            shown = views.show(uow, freeze)
        assert (shown["state"], shown["targets"]["total"]) == ("in_force", 1)
        with unit_of(town) as uow:
            end.lift(uow, freeze, None)

    def test_returned_repository_is_released_by_the_lift(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        work(town)
        post = Post(town)
        freeze = town.freeze()
        work(town)
        initech, acme = town.host.organization("initech").account, town.host.organization("acme").account
        record = town.host.organization("acme").repository("web").record
        for owner in (initech, acme):
            with town.host.world.lock:
                repositories.transfer(town.host.world, Actor(town.host.maintainer), record, owner)
            post.run()
            work(town)
            if owner is initech:
                town.lift(freeze)
                work(town)
                assert town.conclusions() == {"initech/web#1": "failure"}
        assert town.conclusions() == {"acme/web#1": "success"}
        assert town.sql("SELECT state FROM freeze_targets") == [("released",)]
