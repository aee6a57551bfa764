"""What waits at GitHub merges by itself when a stop is off, since GitHub does not look again when a rule is gone."""

import pytest

from tests.harness.github_harness import Harness
from tests.harness.people import arm_auto_merge
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.stops.requests import branch, ours, required, settle, stop
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.rulesets import create_ruleset, delete_ruleset, update_ruleset
from tools.fake_github.seeding import queue_ruleset

MAIN, NEXT = 1, 2
"""Numbers of pull requests: one into main, one into next."""


def test_auto_merge_goes_on_when_a_freeze_is_lifted_during_its_stop(web: Harness) -> None:
    freeze = web.freeze()
    stop(web)
    pulls = [arm_auto_merge(web, "acme/web", MAIN), arm_auto_merge(web, "acme/web", NEXT)]
    web.lift(freeze)
    settle(web)
    assert [pull.merged_at is not None for pull in pulls] == [True, True]


def test_auto_merge_goes_on_when_one_of_two_freezes_is_lifted(web: Harness) -> None:
    web.freeze(branch(web))
    second = web.freeze(branch(web, "next"))
    stop(web)
    kept, freed = arm_auto_merge(web, "acme/web", MAIN), arm_auto_merge(web, "acme/web", NEXT)
    web.lift(second)
    stop(web)
    assert len(required(web)) == 1  # of the other freeze, whose checks are not written yet
    settle(web)
    assert (kept.merged_at, freed.merged_at is not None) == (None, True)


def test_auto_merge_goes_on_while_the_stop_of_another_branch_is_held(web: Harness) -> None:
    web.freeze(branch(web))
    second = web.freeze(branch(web, "next"))
    stop(web)
    freed = arm_auto_merge(web, "acme/web", NEXT)
    web.sql("UPDATE checks SET due_at = clock_timestamp() + interval '1 hour' WHERE name = 'change-freeze/main'")
    web.lift(second)
    settle(web)
    assert len(required(web)) == 1
    assert freed.merged_at is not None


def test_auto_merge_stays_blocked_after_a_normal_end(web: Harness) -> None:
    web.freeze()
    stop(web)
    pull = arm_auto_merge(web, "acme/web", MAIN)
    settle(web)
    settle(web)
    assert required(web) == []
    assert pull.merged_at is None


@pytest.mark.parametrize("deleted", [False, True])
def test_auto_merge_goes_on_when_people_end_a_stop_and_its_freeze(web: Harness, *, deleted: bool) -> None:
    freeze = web.freeze()
    stop(web)
    pull = arm_auto_merge(web, "acme/web", MAIN)
    if deleted:
        web.act(delete_ruleset, ours(web))
    else:
        web.act(update_ruleset, ours(web), {"enforcement": "disabled"})
    web.lift(freeze)
    settle(web)
    assert pull.merged_at is not None


def test_waiting_group_goes_on_when_a_freeze_is_lifted_during_its_stop(web: Harness) -> None:
    repository, webhooks = web.record(), WebhookQueue(web)
    web.act(create_ruleset, "Repository", repository.id, queue_ruleset("main"))
    webhooks.run()
    web.act(enqueue, repository, repository.pulls[MAIN])
    freeze = web.freeze()
    stop(web)
    web.lift(freeze)
    webhooks.run()
    web.run_until_idle()
    assert len(required(web)) == 1
    assert repository.pulls[MAIN].merged_at is None
    assert [entry.number for entry in web.fake_github.world.queues[repository.id, "main"]] == [MAIN]
    settle(web)
    assert repository.pulls[MAIN].merged_at is not None
