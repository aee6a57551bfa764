"""While a rule requires our check, every head that it holds gets a verdict, whatever we have ceased to look after."""

from collections.abc import Callable

import pytest

from rules.billing.plans import FREE
from services.repositories import enablement, watches
from tests.factories.plans import change_plan, granted
from tests.faults.test_full_resync import delivered_or_lost, each_delivered_or_lost, find_out
from tests.faults.test_new_branches import PATTERN, targets, watch_releases
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import cut, propose, push_to_head
from tests.harness.webhook_queue import WebhookQueue, work
from tests.jobs.conftest import EnterScene
from tools.fake_github.model import queue

pytestmark = pytest.mark.slow(20)


@pytest.fixture
def webhook_queue(harness: Harness, build: Builder, enter_scene: EnterScene) -> WebhookQueue:
    """Return the silent webhook queue of a harness with rules of `release/*` and `release/8`, and a pull request."""
    enter_scene(lambda: watch_releases(harness, build, proposed=True))
    return WebhookQueue(harness)


def branch_id(harness: Harness, name: str, repository: str = "web") -> str:
    [[found]] = harness.sql(
        "SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
        "WHERE r.name = :repository AND b.name = :name",
        repository=repository,
        name=name,
    )
    return str(found)


def unwatch_every_release(harness: Harness) -> None:
    with harness.unit() as uow:
        watches.unwatch(uow, branch_id(harness, "release/8"))


def disable(harness: Harness) -> None:
    with harness.unit() as uow:
        enablement.disable(uow, ["acme/web"])


def empty_the_globs(harness: Harness) -> None:
    with harness.unit() as uow:
        enablement.update(uow, "acme/web", {"autoWatch": []})


def change_the_globs(harness: Harness) -> None:
    with harness.unit() as uow:
        enablement.update(uow, "acme/web", {"autoWatch": ["hotfix/*"]})


def empty_the_globs_and_disable(harness: Harness) -> None:
    empty_the_globs(harness)
    disable(harness)


def fill_the_plan(harness: Harness) -> None:
    """Watch as many branches as the free plan includes."""
    limit = FREE.limits["watched_branches"]
    assert limit is not None
    [[watched]] = harness.sql("SELECT count(*) FROM watched_branches WHERE unwatched_at IS NULL")
    harness.sql("DELETE FROM plan_grants")
    for number in range(limit - watched):
        with harness.unit(grants=granted("free")) as uow:
            watches.watch_branch(uow, "acme/api", f"old-{number}")


def exclude_some(harness: Harness) -> None:
    """Take branches out of a glob whose rule was written without that exclusion."""
    with harness.unit() as uow:
        enablement.update(uow, "acme/web", {"autoWatch": [PATTERN, "!release/1*"]})


def exclude_some_and_change_another_glob(harness: Harness) -> None:
    exclude_some(harness)
    with harness.unit() as uow:
        enablement.update(uow, "acme/web", {"autoWatch": [PATTERN, "!release/1*", "hotfix/*"]})


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
Cease = Callable[[Harness], None]


class TestAfterUnwatching:
    @each_delivered_or_lost("cease", CEASING)
    def test_pull_request_into_an_old_or_a_new_branch_can_be_merged(
        self, harness: Harness, webhook_queue: WebhookQueue, cease: Cease, delivered: bool
    ) -> None:
        cease(harness)
        work(harness)
        cut(harness, "acme/web", "release/10")
        new, pushed = (propose(harness, "acme/web", "release/10") for _ in range(2))
        old = propose(harness, "acme/web", "release/8")
        assert harness.merge("acme/web", new).status_code == 405
        find_out(webhook_queue, delivered=delivered)
        assert [harness.merge("acme/web", each).status_code for each in (new, old)] == [200, 200]
        push_to_head(harness, number=pushed)
        assert harness.merge("acme/web", pushed).status_code == 405
        find_out(webhook_queue, delivered=delivered)
        assert harness.merge("acme/web", pushed).status_code == 200

    @pytest.mark.parametrize(
        "cease",
        [disable, empty_the_globs, empty_the_globs_and_disable, exclude_some, fill_the_plan],
        ids=lambda way: str(way.__name__),
    )
    def test_unwatched_branch_joins_no_freeze_and_is_not_counted(
        self, harness: Harness, webhook_queue: WebhookQueue, cease: Cease
    ) -> None:
        cease(harness)
        cut(harness, "acme/web", "release/10")
        number = propose(harness, "acme/web", "release/10")
        find_out(webhook_queue, delivered=True)
        [[before]] = harness.sql("SELECT count(*) FROM watched_branches WHERE unwatched_at IS NULL")
        freeze = harness.freeze()
        cut(harness, "acme/web", "release/11")
        later = propose(harness, "acme/web", "release/11")
        find_out(webhook_queue, delivered=False)
        assert {"web:release/10", "web:release/11"} & targets(harness, freeze) == set()
        assert [harness.merge("acme/web", each).status_code for each in (number, later)] == [200, 200]
        assert harness.sql("SELECT count(*) FROM watched_branches WHERE unwatched_at IS NULL") == [(before,)]

    def test_branch_watched_again_joins_the_freeze(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        empty_the_globs(harness)
        cut(harness, "acme/web", "release/10")
        number = propose(harness, "acme/web", "release/10")
        find_out(webhook_queue, delivered=True)
        freeze = harness.freeze()
        with harness.unit() as uow:
            enablement.update(uow, "acme/web", {"autoWatch": [PATTERN]})
        work(harness)
        assert "web:release/10" in targets(harness, freeze)
        assert harness.merge("acme/web", number).status_code == 405


class TestDuringAFreeze:
    @pytest.mark.parametrize("cease", [empty_the_globs, change_the_globs], ids=lambda way: way.__name__)
    def test_removed_glob_releases_no_frozen_branch(
        self, harness: Harness, webhook_queue: WebhookQueue, cease: Cease
    ) -> None:
        harness.freeze()
        work(harness)
        cease(harness)
        find_out(webhook_queue, delivered=False)
        assert harness.merge("acme/web", 2).status_code == 405

    def test_branch_joins_the_freeze_when_the_plan_allows_more(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        fill_the_plan(harness)
        cut(harness, "acme/web", "release/10")
        number = propose(harness, "acme/web", "release/10")
        find_out(webhook_queue, delivered=True)
        freeze = harness.freeze()
        work(harness)
        assert harness.conclusions()[f"acme/web#{number}"] == "success"
        change_plan(harness.session, harness.organization, "business")
        harness.session.commit()
        find_out(webhook_queue, delivered=False)
        assert "web:release/10" in targets(harness, freeze)
        assert harness.merge("acme/web", number).status_code == 405


@delivered_or_lost
def test_merge_queue_of_a_disabled_repository_continues(
    harness: Harness, webhook_queue: WebhookQueue, delivered: bool
) -> None:
    harness.fake_github.organization("acme").repository("web").merge_queue("release/8")
    disable(harness)
    work(harness)
    record = harness.record()
    number = propose(harness, "acme/web", "release/8")
    find_out(webhook_queue, delivered=delivered)
    harness.act(queue.enqueue, record, record.pulls[number])
    assert record.pulls[number].merged_at is None
    find_out(webhook_queue, delivered=delivered)
    assert record.pulls[number].merged_at is not None
