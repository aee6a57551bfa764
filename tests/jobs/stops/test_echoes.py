"""What we have written ourselves is not read again; what people do, and other Apps, is."""

from collections.abc import Callable
from typing import Any

import pytest

from services.repository_sync.sync import sync_due
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.frozen_branches.requests import write
from tests.jobs.probes.requests import probe
from tests.jobs.stops.requests import (
    MANY,
    above,
    on,
    open_repositories,
    required,
    required_above,
    settle,
    stop,
    stop_from,
    times,
)
from tests.jobs.stops.truths import come_right
from tools.fake_github.model.records import Ruleset
from tools.fake_github.model.rulesets import update_ruleset
from tools.fake_github.model.world import Actor


def do_all(harness: Harness) -> None:
    """Do what is due now."""
    for _ in range(2):
        harness.process_webhooks()
        while sync_due(harness.jobs, harness.github):
            pass
        stop(harness)
        write(harness)
        probe(harness)


def calls_after(harness: Harness, webhooks: WebhookQueue) -> dict[str, int]:
    """Return what is called at GitHub because of the webhooks about rulesets that have come since the last time."""
    do_all(harness)
    told = [each for each in webhooks.take() if each.event == "repository_ruleset"]
    assert told
    harness.fake_github.calls.reset()
    webhooks.deliver(told)
    do_all(harness)
    return dict(harness.fake_github.calls.by_operation)


@pytest.mark.parametrize("shared_above", [3, 100], ids=["organization", "repositories"])
def test_own_writes_of_stops_cause_no_call(many: Harness, webhooks: WebhookQueue, shared_above: int) -> None:
    stop_from(many, shared_above=shared_above)
    freeze = many.freeze()
    stop(many)
    assert calls_after(many, webhooks) == {}
    many.lift(freeze)
    stop(many)
    assert calls_after(many, webhooks) == {}
    settle(many)
    assert open_repositories(many) == list(MANY)


def by_another_app(harness: Harness, ruleset: Ruleset, changes: dict[str, Any]) -> None:
    """Have an App change a ruleset at GitHub."""
    world = harness.fake_github.world
    bot = next(account for account in world.accounts.values() if account.type == "Bot")
    with world.lock:
        update_ruleset(world, Actor(bot), ruleset, changes)


def by_people(harness: Harness, ruleset: Ruleset, changes: dict[str, Any]) -> None:
    harness.act(update_ruleset, ruleset, changes)


by = pytest.mark.parametrize("how", [by_people, by_another_app], ids=lambda each: each.__name__)
Change = Callable[[Harness, Ruleset, dict[str, Any]], None]


def change_while_it_holds(harness: Harness, webhooks: WebhookQueue, how: Change, **changes: Any) -> None:
    harness.freeze(on("main"))
    stop(harness)
    calls_after(harness, webhooks)
    assert times(harness).blocked_at is not None
    how(harness, above(harness)[0], changes)
    webhooks.deliver(webhooks.take())
    probe(harness)
    stop(harness)


@by
def test_stop_that_others_disable_is_over(many: Harness, webhooks: WebhookQueue, how: Change) -> None:
    change_while_it_holds(many, webhooks, how, enforcement="disabled")
    assert required_above(many) == []
    assert times(many).blocked_at is None
    come_right(many)


@by
def test_stop_that_others_loosen_is_put_right(many: Harness, webhooks: WebhookQueue, how: Change) -> None:
    change_while_it_holds(many, webhooks, how, rules=[])
    assert len(required_above(many)) == 1
    assert open_repositories(many) == []
    come_right(many)


def test_stop_that_people_touched_is_read_once_and_holds(many: Harness, webhooks: WebhookQueue) -> None:
    many.freeze(on("main"))
    stop(many)
    [ruleset] = above(many)
    by_people(many, ruleset, {"rules": ruleset.rules})
    calls = calls_after(many, webhooks)
    assert calls.get("GET /orgs/{org}/rulesets/{ruleset_id}") == 1
    assert len(required_above(many)) == 1
    assert [required(many, name) for name in MANY] == [[]] * len(MANY)
    assert times(many).blocked_at is not None
    come_right(many)
