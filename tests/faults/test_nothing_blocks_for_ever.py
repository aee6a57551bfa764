"""While a rule requires our check, every head that it holds gets a verdict, whatever we have ceased to look after."""

from collections.abc import Callable
from typing import Any

import pytest

from rules.access.entitlements import plan_named
from rules.rulesets.rulesets import desired_ruleset
from services.core.unit_of_work import Caller
from services.repositories import enabling, watching
from tests.faults.test_healing import find_out, heard_or_not
from tests.faults.test_new_branches import cut, propose, push, targets
from tests.harness.webhook_queue import Post, look_everywhere, work
from tests.jobs.conftest import ADA, Builder, Town
from tools.fake_github.model import queue
from tools.fake_github.model.world import Actor

PATTERN = "release/*"
CHECK = f"change-freeze/{PATTERN}"


def unit_of(town: Town, plan: str = "business") -> Any:
    return town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", plan))


@pytest.fixture
def post(town: Town, build: Builder) -> Post:
    """Return the silent post of a town whose repositories have the rule of `release/*`, and a pull request there."""
    build("api", "web", pulls=1)
    for name in ("api", "web"):
        builder = town.host.organization("acme").repository(name).branch("release/8")
        builder.ruleset(**desired_ruleset(CHECK, town.host.app_id))
        builder.pull_request(base="release/8")
        with unit_of(town) as uow:
            enabling.update(uow, f"acme/{name}", {"autoWatch": [PATTERN]})
    look_everywhere(town)
    return Post(town)


def branch_id(town: Town, name: str, repository: str = "web") -> str:
    [[found]] = town.sql(
        "SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
        "WHERE r.name = :repository AND b.name = :name",
        repository=repository,
        name=name,
    )
    return str(found)


def unwatch_every_release(town: Town) -> None:
    with unit_of(town) as uow:
        watching.unwatch(uow, branch_id(town, "release/8"))


def disable(town: Town) -> None:
    with unit_of(town) as uow:
        enabling.disable(uow, ["acme/web"])


def empty_the_globs(town: Town) -> None:
    with unit_of(town) as uow:
        enabling.update(uow, "acme/web", {"autoWatch": []})


def change_the_globs(town: Town) -> None:
    with unit_of(town) as uow:
        enabling.update(uow, "acme/web", {"autoWatch": ["hotfix/*"]})


def empty_the_globs_and_disable(town: Town) -> None:
    empty_the_globs(town)
    disable(town)


def fill_the_plan(town: Town) -> None:
    """Watch as many branches as the free plan includes."""
    limit = plan_named("free").watched_branches
    assert limit is not None
    [[watched]] = town.sql("SELECT count(*) FROM watched_branches WHERE unwatched_at IS NULL")
    town.sql("UPDATE organizations SET plan = 'free'")
    for number in range(limit - watched):
        with unit_of(town, "free") as uow:
            watching.watch_branch(uow, "acme/api", f"old-{number}")


def exclude_some(town: Town) -> None:
    """Take branches out of a glob whose rule was written without that exclusion."""
    with unit_of(town) as uow:
        enabling.update(uow, "acme/web", {"autoWatch": [PATTERN, "!release/1*"]})


def exclude_some_and_change_another_glob(town: Town) -> None:
    exclude_some(town)
    with unit_of(town) as uow:
        enabling.update(uow, "acme/web", {"autoWatch": [PATTERN, "!release/1*", "hotfix/*"]})


CEASING = [
    unwatch_every_release,
    disable,
    empty_the_globs,
    change_the_globs,
    empty_the_globs_and_disable,
    fill_the_plan,
    exclude_some,
    exclude_some_and_change_another_glob,
]
each_way = pytest.mark.parametrize("cease", CEASING, ids=lambda cease: str(cease.__name__))
Cease = Callable[[Town], None]


class TestAfterUnwatching:
    @heard_or_not
    @each_way
    def test_pull_request_into_a_new_branch_can_be_merged(
        self, town: Town, post: Post, cease: Cease, heard: bool
    ) -> None:
        cease(town)
        work(town)
        cut(town, "acme/web", "release/10")
        number = propose(town, "acme/web", "release/10")
        assert town.merge("acme/web", number).status_code == 405
        find_out(post, heard=heard)
        assert town.merge("acme/web", number).status_code == 200

    @heard_or_not
    @each_way
    def test_new_pull_request_into_an_unwatched_branch_can_be_merged(
        self, town: Town, post: Post, cease: Cease, heard: bool
    ) -> None:
        cease(town)
        work(town)
        number = propose(town, "acme/web", "release/8")
        find_out(post, heard=heard)
        assert town.merge("acme/web", number).status_code == 200

    @each_way
    def test_pushed_head_of_an_unwatched_branch_is_evaluated_again(self, town: Town, post: Post, cease: Cease) -> None:
        cease(town)
        cut(town, "acme/web", "release/10")
        number = propose(town, "acme/web", "release/10")
        find_out(post, heard=True)
        head = town.person("GET", f"/repos/acme/web/pulls/{number}").json()["head"]["ref"]
        assert push(town, "acme/web", head).status_code == 201
        assert town.merge("acme/web", number).status_code == 405
        post.run()
        assert town.merge("acme/web", number).status_code == 200

    @pytest.mark.parametrize(
        "cease",
        [disable, empty_the_globs, empty_the_globs_and_disable, exclude_some, fill_the_plan],
        ids=lambda way: str(way.__name__),
    )
    def test_unwatched_branch_joins_no_freeze_and_is_not_counted(self, town: Town, post: Post, cease: Cease) -> None:
        cease(town)
        cut(town, "acme/web", "release/10")
        number = propose(town, "acme/web", "release/10")
        find_out(post, heard=True)
        [[before]] = town.sql("SELECT count(*) FROM watched_branches WHERE unwatched_at IS NULL")
        freeze = town.freeze()
        cut(town, "acme/web", "release/11")
        later = propose(town, "acme/web", "release/11")
        find_out(post, heard=False)
        assert {"web:release/10", "web:release/11"} & targets(town, freeze) == set()
        assert [town.merge("acme/web", each).status_code for each in (number, later)] == [200, 200]
        assert town.sql("SELECT count(*) FROM watched_branches WHERE unwatched_at IS NULL") == [(before,)]

    def test_branch_watched_again_joins_the_freeze(self, town: Town, post: Post) -> None:
        empty_the_globs(town)
        cut(town, "acme/web", "release/10")
        number = propose(town, "acme/web", "release/10")
        find_out(post, heard=True)
        freeze = town.freeze()
        with unit_of(town) as uow:
            enabling.update(uow, "acme/web", {"autoWatch": [PATTERN]})
        work(town)
        assert "web:release/10" in targets(town, freeze)
        assert town.merge("acme/web", number).status_code == 405


class TestDuringAFreeze:
    @pytest.mark.parametrize("cease", [empty_the_globs, change_the_globs], ids=lambda way: way.__name__)
    def test_removed_glob_releases_no_frozen_branch(self, town: Town, post: Post, cease: Cease) -> None:
        town.freeze()
        work(town)
        cease(town)
        find_out(post, heard=False)
        assert town.merge("acme/web", 2).status_code == 405

    def test_branch_joins_the_freeze_when_the_plan_allows_more(self, town: Town, post: Post) -> None:
        fill_the_plan(town)
        cut(town, "acme/web", "release/10")
        number = propose(town, "acme/web", "release/10")
        find_out(post, heard=True)
        freeze = town.freeze()
        work(town)
        assert town.conclusions()[f"acme/web#{number}"] == "success"
        town.sql("UPDATE organizations SET plan = 'business'")
        find_out(post, heard=False)
        assert "web:release/10" in targets(town, freeze)
        assert town.merge("acme/web", number).status_code == 405


@heard_or_not
def test_merge_queue_of_a_disabled_repository_continues(town: Town, post: Post, heard: bool) -> None:
    town.host.organization("acme").repository("web").merge_queue("release/8")
    disable(town)
    work(town)
    record = town.host.organization("acme").repository("web").record
    number = propose(town, "acme/web", "release/8")
    find_out(post, heard=heard)
    with town.host.world.lock:
        queue.enqueue(town.host.world, Actor(town.host.maintainer), record, record.pulls[number])
    assert record.pulls[number].merged_at is None
    find_out(post, heard=heard)
    assert record.pulls[number].merged_at is not None
