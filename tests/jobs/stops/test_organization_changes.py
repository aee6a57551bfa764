"""People change an organisation's stop and its permissions; repositories join it and leave it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from services.enforcement.stops import stop_due
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.setup.requests import done, permit
from tests.jobs.stops.requests import (
    MANY,
    MORE,
    RULESET_DELAY,
    above,
    contexts,
    on,
    open_repositories,
    required,
    required_above,
    settle,
    stop,
    stop_from,
    times,
    ways,
    within,
)
from tests.jobs.stops.samples import sampled
from tests.jobs.stops.test_changes_by_people import tell
from tests.jobs.stops.test_leaving_organization_stops import frozen_in_two_parts
from tests.jobs.stops.truths import assert_honest, come_right, entering
from tools.fake_github.model import installations, repositories
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset


def change(harness: Harness, **changes: Any) -> None:
    [ruleset] = above(harness)
    harness.act(update_ruleset, ruleset, changes)


def conditions(harness: Harness, **changes: Any) -> None:
    [ruleset] = above(harness)
    change(harness, conditions={**ruleset.conditions, **changes})


def without_the_context(harness: Harness) -> None:
    change(harness, rules=[])


def narrowed_to_fewer_repositories(harness: Harness) -> None:
    [ruleset] = above(harness)
    conditions(harness, repository_id={"repository_ids": ruleset.conditions["repository_id"]["repository_ids"][1:]})


def narrowed_to_other_branches(harness: Harness) -> None:
    conditions(harness, ref_name={"include": ["refs/heads/next"], "exclude": []})


def widened(harness: Harness) -> None:
    conditions(harness, ref_name={"include": ["~ALL"], "exclude": []})


def widened_to_other_repositories(harness: Harness) -> None:
    [ruleset] = above(harness)
    names = {"ref_name": ruleset.conditions["ref_name"], "repository_name": {"include": ["~ALL"], "exclude": []}}
    change(harness, conditions=names)


def bypassed(harness: Harness) -> None:
    change(harness, bypass_actors=[{"actor_type": "OrganizationAdmin", "actor_id": 1}])


def renamed(harness: Harness) -> None:
    change(harness, name="Change freeze: frozen branches of ours")


def disabled(harness: Harness) -> None:
    change(harness, enforcement="disabled")


def deleted(harness: Harness) -> None:
    [ruleset] = above(harness)
    harness.act(delete_ruleset, ruleset)


LOOSENED = [
    without_the_context,
    narrowed_to_fewer_repositories,
    narrowed_to_other_branches,
    widened,
    widened_to_other_repositories,
    bypassed,
    renamed,
]
ENDED = [disabled, deleted]


def name_of(how: Callable[..., object]) -> str:
    return how.__name__


@pytest.mark.parametrize(
    "how", sampled(LOOSENED, quick=[narrowed_to_fewer_repositories], checked=LOOSENED, name=name_of)
)
def test_stop_of_an_organization_that_was_loosened_is_put_right(
    many: Harness, webhooks: WebhookQueue, how: Callable[[Harness], None]
) -> None:
    many.freeze(on("main"))
    stop(many)
    how(many)
    tell(many, webhooks)
    assert_honest(many)
    stop(many)
    assert [len(contexts(each)) for each in above(many)] == [1]
    assert above(many)[0].bypass_actors == []
    assert open_repositories(many) == []
    assert open_repositories(many, "next") == list(MANY)
    come_right(many)


@pytest.mark.parametrize("how", ENDED, ids=name_of)
def test_people_can_end_the_stop_of_an_organization(
    many: Harness, webhooks: WebhookQueue, how: Callable[[Harness], None]
) -> None:
    many.freeze(on("main"))
    stop(many)
    assert times(many).blocked_at is not None
    how(many)
    tell(many, webhooks)
    assert stop_due(many.jobs, many.github)
    assert times(many).blocked_at is None
    for _ in range(3):
        stop(many)
        tell(many, webhooks)
        many.pass_time(seconds=10)
    assert required_above(many) == []
    assert [required(many, name) for name in MANY] == [[]] * len(MANY)
    assert entering(many, "main") >= {"merge", "push"}
    many.freeze(on("next"))
    stop(many)
    assert len(required_above(many)) == 1
    assert open_repositories(many, "next") == []
    assert open_repositories(many) == list(MANY)
    come_right(many)


@pytest.mark.check
@pytest.mark.parametrize("how", sampled(ENDED, quick=[deleted], checked=ENDED, name=name_of))
@pytest.mark.parametrize("steps", sampled(range(3), quick=[1], checked=[2]))
def test_branches_are_right_whatever_people_change_while_a_stop_above_begins(
    many: Harness, webhooks: WebhookQueue, how: Callable[[Harness], None], steps: int
) -> None:
    former = many.freeze(on("main"))
    stop(many)
    many.lift(former)
    settle(many)
    freeze = many.freeze(on("main"))
    for _ in range(steps):
        stop_due(many.jobs, many.github)
    how(many)
    for _ in range(3):
        stop(many)
        tell(many, webhooks)
        assert_honest(many)
    come_right(many)
    many.lift(freeze)
    come_right(many)


def test_stop_above_counts_only_once_github_enforces_it(many: Harness) -> None:
    stop_from(many, delay=RULESET_DELAY)
    many.fake_github.settings.ruleset_delay_seconds = RULESET_DELAY.total_seconds()
    many.freeze()
    stop(many)
    many.read_rules()
    assert len(required_above(many)) == 1
    assert open_repositories(many) == list(MANY)
    assert times(many).blocked_at is None
    many.pass_time(RULESET_DELAY + timedelta(seconds=1))
    many.fake_github.settings.ruleset_delay_seconds = 0
    stop(many)
    assert open_repositories(many) == []
    assert times(many).blocked_at is not None


def test_without_the_permission_repositories_have_stops_of_their_own(many: Harness, webhooks: WebhookQueue) -> None:
    withdraw(many, webhooks)
    many.freeze()
    stop(many)
    assert above(many) == []
    assert open_repositories(many) == []
    come_right(many)


def withdraw(harness: Harness, webhooks: WebhookQueue) -> None:
    installed = harness.installed
    kept = {name: level for name, level in installed.permissions.items() if name != "organization_administration"}
    harness.act(installations.accept_permissions, installed, kept)
    webhooks.deliver(webhooks.take())


@pytest.mark.check
@pytest.mark.parametrize("told", [False, True])
def test_withdrawn_permission_leaves_freezes_to_stops_of_repositories(
    many: Harness, webhooks: WebhookQueue, *, told: bool
) -> None:
    freeze = many.freeze(on("main"))
    stop(many)
    if told:
        withdraw(many, webhooks)
    else:
        permit(many, administration="write", organization_administration="read")
    second = many.freeze(on("next"))
    for _ in range(3):
        stop(many)
        assert_honest(many)
        many.pass_time(seconds=6)
    assert open_repositories(many) == open_repositories(many, "next") == []
    for each in (freeze, second):
        many.lift(each)
    stop(many)
    installed = many.installed
    many.act(installations.accept_permissions, installed, dict(installations.PERMISSIONS))
    tell(many, webhooks)
    come_right(many)


@pytest.mark.check
def test_repository_that_joins_has_a_stop_and_one_that_leaves_is_free(many: Harness) -> None:
    many.freeze(within(many, MANY[:-1]))
    stop(many)
    first = required_above(many)
    last = many.freeze(within(many, MANY[-1:]))
    stop(many)
    assert open_repositories(many) == []
    assert required_above(many) == first
    assert len(required(many, MANY[-1])) == 1
    many.lift(last)
    stop(many)
    assert open_repositories(many) == [MANY[-1]]
    come_right(many)


def test_branch_that_is_free_in_some_repositories_is_free_there(many: Harness) -> None:
    """Both branches are stopped everywhere; one is freed in a few repositories, and the stop holds the others."""
    few, _most = frozen_in_two_parts(many)
    many.lift(few)
    for _ in range(3):
        stop(many)
        assert_honest(many)
        many.pass_time(seconds=6)
    assert open_repositories(many, "next") == list(MANY[:2])
    assert open_repositories(many) == []
    come_right(many)


@pytest.mark.check
def test_repositories_that_join_in_great_number_get_a_new_context(many: Harness, webhooks: WebhookQueue) -> None:
    done(many, *MORE)
    settle(many)
    many.freeze(within(many, MANY[1:]))
    stop(many)
    first = required_above(many)
    late = many.freeze(within(many, MORE))
    stop(many)
    assert_honest(many)
    many.pass_time(seconds=6)
    stop(many)
    [second] = required_above(many)
    assert [second] != first
    assert len(above(many)) == 1
    assert [ways(many, "main", name) & {"merge", "push"} for name in MORE] == [set()] * len(MORE)
    assert open_repositories(many) == ["web"]
    many.lift(late)
    stop(many)
    assert required_above(many) == [second]
    assert all(ways(many, "main", name) >= {"merge", "push"} for name in MORE)
    assert open_repositories(many) == ["web"]
    come_right(many)


@pytest.mark.check
def test_repository_without_the_app_is_not_stopped_above(many: Harness, webhooks: WebhookQueue) -> None:
    freeze = many.freeze(on("main"))
    stop(many)
    many.fake_github.faults.add("error", "createCheckRun", status=502)
    installed = many.installed
    kept = [many.record(f"acme/{name}") for name in MANY[1:]]
    many.act(installations.choose_repositories, installed, kept)
    webhooks.run()
    many.pass_time(seconds=6)
    stop(many)
    assert_honest(many)
    web = many.record()
    [ruleset] = above(many)
    assert ruleset.enforcement == "active"
    assert web.id not in ruleset.conditions["repository_id"]["repository_ids"]
    many.fake_github.faults.clear()
    many.lift(freeze)
    stop(many)
    many.act(installations.choose_repositories, installed, None)
    webhooks.run()
    come_right(many)


@pytest.mark.check
def test_deleted_repository_does_not_keep_the_stop_of_others(many: Harness, webhooks: WebhookQueue) -> None:
    freeze = many.freeze(on("main"))
    stop(many)
    many.act(repositories.delete, many.record())
    webhooks.run()
    many.lift(freeze)
    settle(many)
    assert required_above(many) == []
