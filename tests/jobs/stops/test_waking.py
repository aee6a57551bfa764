"""What waits at GitHub merges by itself when a stop is off, since GitHub does not look again when a rule is gone."""

import pytest

from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.stops.requests import branch, ours, required, settle, stop
from tools.fake_github.model.pulls import set_auto_merge
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.records import AutoMerge, PullRequest
from tools.fake_github.model.rulesets import create_ruleset, delete_ruleset, update_ruleset
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import queue_ruleset

MAIN, NEXT = 1, 2
"""Numbers of pull requests: one into main, one into next."""


def armed(harness: Harness, number: int) -> PullRequest:
    """Arm auto-merge of a pull request while a stop blocks it; a webhook tells us."""
    world, maintainer = harness.fake_github.world, Actor(harness.fake_github.maintainer)
    repository = world.repository_named("acme/web")
    pull = repository.pulls[number]
    with world.lock:
        set_auto_merge(world, maintainer, repository, pull, AutoMerge(world.now(), maintainer.account.id, "merge"))
    harness.sql("UPDATE pull_requests SET merge_rank = 1 WHERE number = :number", number=number)
    return pull


def test_auto_merge_goes_on_when_a_freeze_is_lifted_during_its_stop(web: Harness) -> None:
    freeze = web.freeze()
    stop(web)
    pulls = [armed(web, MAIN), armed(web, NEXT)]
    web.lift(freeze)
    settle(web)
    assert [pull.merged_at is not None for pull in pulls] == [True, True]


def test_auto_merge_goes_on_when_one_of_two_freezes_is_lifted(web: Harness) -> None:
    web.freeze(branch(web))
    second = web.freeze(branch(web, "next"))
    stop(web)
    kept, freed = armed(web, MAIN), armed(web, NEXT)
    web.lift(second)
    stop(web)
    assert len(required(web)) == 1  # of the other freeze, whose checks are not written yet
    settle(web)
    assert (kept.merged_at, freed.merged_at is not None) == (None, True)


def test_auto_merge_goes_on_while_the_stop_of_another_branch_is_held(web: Harness) -> None:
    web.freeze(branch(web))
    second = web.freeze(branch(web, "next"))
    stop(web)
    freed = armed(web, NEXT)
    web.sql("UPDATE checks SET due_at = clock_timestamp() + interval '1 hour' WHERE name = 'change-freeze/main'")
    web.lift(second)
    settle(web)
    assert len(required(web)) == 1
    assert freed.merged_at is not None


def test_auto_merge_stays_blocked_after_a_normal_end(web: Harness) -> None:
    web.freeze()
    stop(web)
    pull = armed(web, MAIN)
    settle(web)
    settle(web)
    assert required(web) == []
    assert pull.merged_at is None


@pytest.mark.parametrize("deleted", [False, True])
def test_auto_merge_goes_on_when_people_end_a_stop_and_its_freeze(web: Harness, *, deleted: bool) -> None:
    freeze = web.freeze()
    stop(web)
    pull, world = armed(web, MAIN), web.fake_github.world
    with world.lock:
        if deleted:
            delete_ruleset(world, Actor(web.fake_github.maintainer), ours(web))
        else:
            update_ruleset(world, Actor(web.fake_github.maintainer), ours(web), {"enforcement": "disabled"})
    web.lift(freeze)
    settle(web)
    assert pull.merged_at is not None


def test_waiting_group_goes_on_when_a_freeze_is_lifted_during_its_stop(web: Harness) -> None:
    world, maintainer = web.fake_github.world, Actor(web.fake_github.maintainer)
    repository, webhooks = world.repository_named("acme/web"), WebhookQueue(web)
    with world.lock:
        create_ruleset(world, maintainer, "Repository", repository.id, queue_ruleset("main"))
    webhooks.run()
    with world.lock:
        enqueue(world, maintainer, repository, repository.pulls[MAIN])
    freeze = web.freeze()
    stop(web)
    web.lift(freeze)
    webhooks.run()
    web.run_until_idle()
    assert len(required(web)) == 1
    assert repository.pulls[MAIN].merged_at is None
    assert [entry.number for entry in world.queues[repository.id, "main"]] == [MAIN]
    settle(web)
    assert repository.pulls[MAIN].merged_at is not None
