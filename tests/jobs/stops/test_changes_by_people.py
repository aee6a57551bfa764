"""People change, disable and delete rulesets during a stop, and repositories, branches, permissions and the App."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from services.enforcement.probe_queue import PROBES_OF_STOPS
from services.enforcement.probes import probe_next
from services.enforcement.stops import stop_due
from services.github_access.rate_limiter import urgent_client
from tests.harness.github_harness import Harness
from tests.harness.people import suspend
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.frozen_branches.requests import write
from tests.jobs.probes.requests import probe
from tests.jobs.setup.requests import permit
from tests.jobs.stops.requests import (
    RULESET_DELAY,
    branch,
    contexts,
    ours,
    required,
    settle,
    stop,
    stop_from,
    times,
    ways,
)
from tests.jobs.stops.samples import sampled
from tests.jobs.stops.truths import assert_honest, come_right, entering
from tools.fake_github.model import branches, installations, repositories
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset


@pytest.fixture
def webhooks(web: Harness) -> WebhookQueue:
    found = WebhookQueue(web)
    found.take()
    return found


def change(harness: Harness, **changes: Any) -> None:
    harness.act(update_ruleset, ours(harness), changes)


def without_the_context(harness: Harness) -> None:
    change(harness, rules=[{"type": "creation"}, {"type": "deletion"}])


def with_another_context(harness: Harness) -> None:
    rules = [dict(rule) for rule in ours(harness).rules]
    for rule in rules:
        if rule["type"] == "required_status_checks":
            checks = [{"context": "build"}, {"context": "change-freeze/stop:0"}]
            rule["parameters"] = {**rule["parameters"], "required_status_checks": checks}
    change(harness, rules=rules)


def narrowed(harness: Harness) -> None:
    change(harness, conditions={"ref_name": {"include": ["refs/heads/main"], "exclude": []}})


def widened(harness: Harness) -> None:
    change(harness, conditions={"ref_name": {"include": ["~ALL"], "exclude": []}})


def excluded(harness: Harness) -> None:
    include = ours(harness).conditions["ref_name"]["include"]
    change(harness, conditions={"ref_name": {"include": include, "exclude": ["refs/heads/main"]}})


def bypassed(harness: Harness) -> None:
    change(harness, bypass_actors=[{"actor_type": "OrganizationAdmin", "actor_id": 1}])


def rule_added(harness: Harness) -> None:
    change(harness, rules=[*ours(harness).rules, {"type": "non_fast_forward"}])


def renamed(harness: Harness) -> None:
    change(harness, name="Ours")


def disabled(harness: Harness) -> None:
    change(harness, enforcement="disabled")


def evaluated(harness: Harness) -> None:
    change(harness, enforcement="evaluate")


def deleted(harness: Harness) -> None:
    harness.act(delete_ruleset, ours(harness))


LOOSENED = [without_the_context, with_another_context, narrowed, widened, excluded, bypassed, rule_added]
ENDED = [disabled, evaluated, deleted]
IN_EVERY_RUN = [with_another_context, bypassed, deleted]
every = pytest.mark.parametrize(
    "how",
    sampled(
        (*LOOSENED, *ENDED), quick=IN_EVERY_RUN, checked=[narrowed, excluded, disabled], name=lambda how: how.__name__
    ),
)


def with_a_ruleset(harness: Harness) -> None:
    """Have the ruleset there, of a former freeze."""
    former = harness.freeze()
    stop(harness)
    harness.lift(former)
    settle(harness)


def tell(harness: Harness, webhooks: WebhookQueue) -> None:
    """Have us told, and rules read; a stop is not looked at yet."""
    webhooks.deliver(webhooks.take())
    probe(harness)


@pytest.mark.parametrize(
    "how", sampled(LOOSENED, quick=[narrowed, widened, bypassed], checked=LOOSENED, name=lambda how: how.__name__)
)
def test_stop_that_was_loosened_is_put_right(
    web: Harness, webhooks: WebhookQueue, how: Callable[[Harness], None]
) -> None:
    web.freeze()
    stop(web)
    how(web)
    tell(web, webhooks)
    assert_honest(web)
    stop(web)
    assert len(contexts(ours(web))) == 1
    assert ours(web).bypass_actors == []
    assert entering(web, "main") == entering(web, "next") == set()
    come_right(web)


def test_another_context_of_ours_does_not_count_as_the_stop(web: Harness, webhooks: WebhookQueue) -> None:
    web.freeze()
    stop(web)
    another = {"context": "change-freeze/stop:0", "integration_id": web.fake_github.app_id}
    rules = [dict(rule) for rule in ours(web).rules if rule["type"] != "required_status_checks"]
    checks = {"required_status_checks": [another], "strict_required_status_checks_policy": False}
    change(web, rules=[*rules, {"type": "required_status_checks", "parameters": checks}])
    webhooks.deliver(webhooks.take())
    probe_next(web.jobs, web.github, PROBES_OF_STOPS, urgent_client)
    probe(web)
    assert web.sql("SELECT FROM branch_enforcement WHERE stop IS NOT NULL") == []
    come_right(web)


@pytest.mark.parametrize("how", [without_the_context, narrowed, excluded], ids=lambda each: each.__name__)
def test_loosened_stop_does_not_count_before_it_is_enforced_again(web: Harness, how: Callable[[Harness], None]) -> None:
    web.freeze()
    stop(web)
    stop_from(web, delay=RULESET_DELAY)
    how(web)
    web.sql("UPDATE frozen_branch_rulesets SET due_at = '2000-01-01', stop_written_at = NULL")
    assert stop_due(web.jobs, web.github)
    assert len(required(web)) == 1
    assert times(web).blocked_at is None


@pytest.mark.parametrize(
    ("how", "first"),
    sampled(
        product(ENDED, ("probe", "stop")),
        quick=[(disabled, "stop"), (evaluated, "probe"), (deleted, "probe")],
        checked=[(disabled, "probe"), (evaluated, "stop"), (deleted, "stop")],
        name=lambda case: f"{case[0].__name__}-{case[1]}",
    ),
)
def test_people_can_end_a_stop(
    web: Harness, webhooks: WebhookQueue, how: Callable[[Harness], None], first: str
) -> None:
    web.freeze(branch(web))
    stop(web)
    assert times(web).blocked_at is not None
    how(web)
    if first == "probe":
        tell(web, webhooks)
    else:
        web.sql("UPDATE frozen_branch_rulesets SET due_at = '2000-01-01', stop_written_at = NULL")
    assert stop_due(web.jobs, web.github)
    assert times(web).blocked_at is None
    for _ in range(3):
        stop(web)
        tell(web, webhooks)
        web.pass_time(seconds=10)
    assert required(web) == []
    assert entering(web, "main") >= {"merge", "push"}
    web.freeze(branch(web, "next"))
    stop(web)
    assert len(required(web)) == 1
    assert entering(web, "next") == set()
    assert entering(web, "main") >= {"merge", "push"}
    come_right(web)
    assert ways(web) == set()


@every
@pytest.mark.parametrize("steps", sampled(range(4), quick=[1], checked=[2]))
def test_branch_is_right_whatever_people_change_while_a_stop_begins(
    web: Harness, webhooks: WebhookQueue, how: Callable[[Harness], None], steps: int
) -> None:
    with_a_ruleset(web)
    freeze = web.freeze()
    for _ in range(steps):
        stop_due(web.jobs, web.github)
    how(web)
    for _ in range(3):
        stop(web)
        tell(web, webhooks)
        assert_honest(web)
    come_right(web)
    web.lift(freeze)
    come_right(web)


@every
@pytest.mark.parametrize("steps", sampled(range(2), quick=[0], checked=[1]))
def test_branch_is_right_whatever_people_change_while_a_stop_ends(
    web: Harness, webhooks: WebhookQueue, how: Callable[[Harness], None], steps: int
) -> None:
    freeze = web.freeze()
    stop(web)
    web.lift(freeze)
    for _ in range(steps):
        stop_due(web.jobs, web.github)
    how(web)
    tell(web, webhooks)
    stop(web)
    assert required(web) == []
    come_right(web)
    web.freeze()
    stop(web)
    assert entering(web, "main") == set()


def test_renamed_ruleset_keeps_its_name_and_its_stop(web: Harness, webhooks: WebhookQueue) -> None:
    web.freeze()
    stop(web)
    renamed(web)
    tell(web, webhooks)
    stop(web)
    assert len(required(web)) == 1
    come_right(web)


def test_stop_ends_when_a_withdrawn_permission_is_given_back(web: Harness, webhooks: WebhookQueue) -> None:
    freeze = web.freeze()
    stop(web)
    permit(web, administration="read")
    web.lift(freeze)
    stop(web)
    web.pass_time(seconds=30)
    assert len(required(web)) == 1
    installed = web.installed
    web.act(installations.accept_permissions, installed, dict(installations.PERMISSIONS))
    tell(web, webhooks)
    come_right(web)


def suspends(harness: Harness, *, leaves: bool) -> None:
    suspend(harness, suspended=leaves)


def leaves_the_repository_out(harness: Harness, *, leaves: bool) -> None:
    other = [harness.fake_github.organization("acme").repository("other").record]
    harness.act(installations.choose_repositories, harness.installed, other if leaves else None)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("owner", [suspends, leaves_the_repository_out], ids=lambda owner: owner.__name__)
def test_stop_out_of_our_reach_ends_when_it_is_back(
    web: Harness, webhooks: WebhookQueue, owner: Callable[..., None], *, known: bool
) -> None:
    freeze = web.freeze()
    stop(web)
    owner(web, leaves=True)
    if known:
        webhooks.run()
    assert_honest(web)
    web.lift(freeze)
    stop(web)
    owner(web, leaves=False)
    webhooks.run()
    come_right(web)


@pytest.mark.parametrize("lifts", [False, True])
def test_stop_of_an_archived_repository_ends_when_it_is_unarchived(
    web: Harness, webhooks: WebhookQueue, *, lifts: bool
) -> None:
    freeze = web.freeze()
    stop(web)
    repository = web.record()
    web.act(repositories.set_archived, repository, archived=True)
    webhooks.run()
    stop(web)
    if lifts:
        web.lift(freeze)
    stop(web)
    web.act(repositories.set_archived, repository, archived=False)
    webhooks.run()
    if not lifts:  # checks that GitHub refused are tried seldom
        web.pass_time(minutes=31)
    come_right(web)


def test_stop_of_a_renamed_repository_ends(web: Harness, webhooks: WebhookQueue) -> None:
    freeze = web.freeze()
    stop(web)
    repository = web.record()
    web.act(repositories.rename, repository, "site")
    web.lift(freeze)
    stop(web)
    webhooks.run()
    settle(web)
    assert required(web, "site") == []
    assert ways(web, repository="site") >= {"merge", "push"}


def test_deleted_repository_leaves_nothing_to_do(web: Harness, webhooks: WebhookQueue) -> None:
    web.freeze()
    stop(web)
    web.act(repositories.delete, web.record())
    stop(web)
    webhooks.run()
    web.pass_time(hours=1)
    assert stop(web) == 0


def test_branch_that_is_deleted_and_made_again_is_stopped(web: Harness, webhooks: WebhookQueue) -> None:
    web.freeze()
    repository = web.record()
    sha = repository.branches["next"]
    web.act(branches.delete_branch, repository, "next")
    webhooks.run()
    stop(web)
    assert_honest(web)
    web.act(branches.create_branch, repository, "next", sha)
    webhooks.run()
    assert_honest(web)
    settle(web)
    assert entering(web, "next") == set()


def test_freeze_has_no_stop_where_no_more_rulesets_fit(web: Harness) -> None:
    repository = web.fake_github.organization("acme").repository("web")
    web.fake_github.faults.add("error", "CreateRulesets", status=422, message="Validation Failed: maximum of 75")
    refused = web.fake_github.faults.add("error", "POST /repos/acme/web/rulesets", status=422, message="maximum of 75")
    assert repository
    freeze = web.freeze()
    steps = stop(web)
    web.pass_time(minutes=1)
    assert steps + stop(web) <= 2
    assert refused.struck == 1
    web.run_until_idle()
    assert entering(web, "main") == set()
    web.lift(freeze)
    web.fake_github.faults.clear()
    come_right(web)


def test_stop_is_not_begun_without_an_administrator(web: Harness) -> None:
    with_a_ruleset(web)
    deleted(web)
    web.sql("UPDATE repositories SET rulesets_authorized_by = NULL, rulesets_authorized_at = NULL")
    web.sql("UPDATE frozen_branch_rulesets SET may_stop = true, due_at = clock_timestamp()")
    web.freeze()
    stop(web)
    write(web)
    web.run_until_idle()
    assert entering(web, "main") == set()
    assert [each for each in web.fake_github.world.rulesets.values() if "frozen" in each.name] == []
