"""Merge queues: entries that wait when a freeze begins fail at once, from back to front, and stay out."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from integrations.github import QueueEntry
from services.reconcile.evaluation import CheckUpdate, evaluate
from services.reconcile.heads import heads_of
from tests.harness.contributors import Contributors
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import edit
from tests.harness.random_seed import chosen_seed
from tests.harness.webhook_queue import WebhookQueue, full_resync, work
from tests.jobs.passes import leased_pass
from tools.fake_github.model import queue
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.refusals import Refusal

pytestmark = pytest.mark.slow(12)
CHECK = "change-freeze/main"
STRATEGIES = ["ALLGREEN", "HEADGREEN"]
both_strategies = pytest.mark.parametrize("strategy", STRATEGIES)


def enqueue(harness: Harness, name: str, *pulls: PullRequest, jump: bool = False) -> None:
    for pull in pulls:
        harness.act(queue.enqueue, harness.record(f"acme/{name}"), pull, jump=jump)


def groups(harness: Harness, name: str) -> list[str]:
    """Return the queue's own commits, from front to back."""
    entries = harness.fake_github.world.queues.get((harness.record(f"acme/{name}").id, "main"), [])
    return [entry.head_sha or "" for entry in entries]


def build_succeeds(harness: Harness, sha: str) -> None:
    """Report a check of another kind, as a build server does."""
    harness.report(sha, "success", name="build")


def failed(harness: Harness, shas: Sequence[str]) -> list[str]:
    """Return which of these commits were written to, in the order of the writes; each got one `failure`."""
    writes = [
        write for write in harness.fake_github.calls.writes if write["headSha"] in shas and write["name"] == CHECK
    ]
    assert {write["conclusion"] for write in writes} <= {"failure"}
    return [write["headSha"] for write in writes]


def open_numbers(pulls: Sequence[PullRequest]) -> list[int]:
    return [pull.number for pull in pulls if pull.merged_at is None]


@pytest.fixture
def webhook_queue(harness: Harness) -> WebhookQueue:
    return WebhookQueue(harness)


def queued(
    harness: Harness, build: Builder, strategy: str, *names: str, pulls: int = 4
) -> dict[str, list[PullRequest]]:
    """Build repositories whose pull requests are all green and have just been queued; no webhook is delivered."""
    made = build(*names, pulls=pulls)
    waiting = {name: made[place * pulls : (place + 1) * pulls] for place, name in enumerate(names)}
    for name in names:
        harness.fake_github.organization("acme").repository(name).merge_queue(strategy=strategy)
    work(harness)
    for name, some in waiting.items():
        enqueue(harness, name, *some)
    harness.fake_github.calls.reset()
    return waiting


class TestNewFreeze:
    def test_freeze_blocks_queue_commits_before_anything_else(self, harness: Harness, build: Builder) -> None:
        """A queued pull request's own head cannot be merged past the queue; its group can, at any moment."""
        pulls = queued(harness, build, "ALLGREEN", "api", "web", pulls=20)
        before = {sha for name in pulls for sha in groups(harness, name)}
        harness.freeze()
        assert harness.reconciler.run_pass()
        written = [write["headSha"] for write in harness.fake_github.calls.writes]
        assert set(written[: len(before)]) == before

    @both_strategies
    def test_freeze_fails_every_queue_entry_from_back_to_front(
        self, harness: Harness, build: Builder, strategy: str
    ) -> None:
        pulls = queued(harness, build, strategy, "web")["web"]
        before = groups(harness, "web")
        harness.freeze()
        assert harness.reconciler.run_pass()
        assert failed(harness, before) == before[::-1]
        assert groups(harness, "web") == []
        work(harness)
        assert open_numbers(pulls) == [pull.number for pull in pulls]

    @both_strategies
    def test_freeze_revokes_success_of_entries_that_wait_for_another_check(
        self, harness: Harness, build: Builder, webhook_queue: WebhookQueue, strategy: str
    ) -> None:
        web = harness.fake_github.organization("acme").repository("web").requires("build", "main")
        pulls = build("web", pulls=3)
        web.merge_queue(strategy=strategy)
        for pull in pulls:
            build_succeeds(harness, pull.head_sha)
        work(harness)
        enqueue(harness, "web", *pulls)
        webhook_queue.run()
        before = groups(harness, "web")
        assert {write["conclusion"] for write in harness.fake_github.calls.writes} == {"success"}
        harness.fake_github.calls.reset()
        harness.freeze()
        work(harness)
        assert failed(harness, before) == before[::-1]
        for sha in before:
            build_succeeds(harness, sha)
        assert open_numbers(pulls) == [1, 2, 3]

    @both_strategies
    def test_freeze_blocks_many_queues_in_one_pass(self, harness: Harness, build: Builder, strategy: str) -> None:
        names = [f"service-{number}" for number in range(12)]
        pulls = queued(harness, build, strategy, *names, pulls=3)
        before = {name: groups(harness, name) for name in names}
        harness.freeze()
        assert harness.reconciler.run_pass()
        for name in names:
            assert failed(harness, before[name]) == before[name][::-1]
            assert open_numbers(pulls[name]) == [1, 2, 3]

    def test_freeze_blocks_a_queue_longer_than_a_page(self, harness: Harness, build: Builder) -> None:
        pulls = queued(harness, build, "ALLGREEN", "web", pulls=105)["web"]
        before = groups(harness, "web")
        assert len(before) == 105
        harness.freeze()
        work(harness)
        assert failed(harness, before) == before[::-1]
        assert len(open_numbers(pulls)) == 105


class TestAfterTheLift:
    @both_strategies
    def test_removed_entry_can_be_queued_and_merged_after_the_lift(
        self, harness: Harness, build: Builder, webhook_queue: WebhookQueue, strategy: str
    ) -> None:
        pulls = queued(harness, build, strategy, "web")["web"]
        freeze = harness.freeze()
        webhook_queue.run()
        work(harness)
        with pytest.raises(Refusal, match="is failing"):
            enqueue(harness, "web", pulls[0])
        harness.lift(freeze)
        work(harness)
        enqueue(harness, "web", *pulls)
        webhook_queue.run()
        assert open_numbers(pulls) == []

    def test_full_resync_merges_entries_queued_while_webhooks_were_lost(
        self, harness: Harness, build: Builder, webhook_queue: WebhookQueue
    ) -> None:
        pulls = queued(harness, build, "ALLGREEN", "web")["web"]
        webhook_queue.take()
        full_resync(harness)
        assert open_numbers(pulls) == []


class TestEvaluation:
    """By every member up to and including its position: all of them land with it."""

    def updates(self, harness: Harness, *numbers: int | None) -> list[CheckUpdate]:
        """Evaluate a queue of these pull requests; the one at place n has the commit n."""
        entries = tuple(QueueEntry(place, number, f"{place:040x}") for place, number in enumerate(numbers, 1))
        started = leased_pass(harness)
        [(branch, shown)], read_at = started.reading.fetch()
        read = ([(branch, replace(shown, pulls=(), queue=entries[::-1]))], read_at)
        started.reading.mirror(read)
        with started.state.leased(started.state.pending) as leased:
            return evaluate(leased, heads_of(leased.uow, started.state.batch.checks, {}), started.texts)

    def members(self, harness: Harness, *numbers: int | None) -> dict[str, Sequence[int] | None]:
        updates = self.updates(harness, *numbers)
        return {update.head.key.sha[-1]: update.head.paths[0].numbers for update in updates}

    def test_entry_is_evaluated_with_all_entries_before_it(self, harness: Harness, build: Builder) -> None:
        build("web")
        members = self.members(harness, 7, 8, 9)
        assert members == {"3": [7, 8, 9], "2": [7, 8], "1": [7]}
        assert list(members) == ["3", "2", "1"]

    def test_entry_behind_an_unknown_member_has_unknown_members(self, harness: Harness, build: Builder) -> None:
        build("web")
        assert self.members(harness, 7, None, 9) == {"1": [7], "2": None, "3": None}

    @pytest.mark.parametrize("frozen", [True, False])
    def test_entry_with_unknown_members_fails_while_frozen(
        self, harness: Harness, build: Builder, frozen: bool
    ) -> None:
        build("web")
        if frozen:
            harness.freeze()
        [update] = self.updates(harness, None)
        assert update.conclusion == ("failure" if frozen else "success")


class Crowd:
    """People who do whatever they can with a queue, and webhooks that arrive as they like."""

    def __init__(
        self, harness: Harness, webhook_queue: WebhookQueue, pulls: list[PullRequest], chance: random.Random
    ) -> None:
        self.harness, self.webhook_queue, self.pulls, self.chance = harness, webhook_queue, pulls, chance
        self.held = list(webhook_queue.take())

    def act(self) -> None:
        pull = self.chance.choice(self.pulls)
        try:
            self.chance.choice([self.enqueue, self.jump, self.leave, self.push])(pull)
        except Refusal:
            return

    def enqueue(self, pull: PullRequest) -> None:
        enqueue(self.harness, "web", pull)

    def jump(self, pull: PullRequest) -> None:
        enqueue(self.harness, "web", pull, jump=True)

    def leave(self, pull: PullRequest) -> None:
        self.harness.act(queue.dequeue, self.harness.record(), pull)

    def push(self, pull: PullRequest) -> None:
        Contributors(self.harness).push(self.harness.record(), pull)

    def deliver(self) -> None:
        """Hand over some of what is held back, in any order; some of it twice, some of it never."""
        self.held += self.webhook_queue.take()
        self.chance.shuffle(self.held)
        some = [self.held.pop() for _ in range(self.chance.randrange(len(self.held) + 1))]
        self.held += self.chance.sample(some, len(some) // 3)
        self.webhook_queue.deliver(delivery for delivery in some if self.chance.random() < 0.7)

    def deliver_the_rest(self) -> None:
        self.webhook_queue.deliver(self.held)
        self.webhook_queue.run()


@both_strategies
@pytest.mark.parametrize("round_number", [0, *(pytest.param(number, marks=pytest.mark.check) for number in (1, 2, 3))])
def test_frozen_queue_merges_nothing_in_any_order_of_webhooks(
    harness: Harness, build: Builder, webhook_queue: WebhookQueue, strategy: str, round_number: int
) -> None:
    chance = random.Random(chosen_seed() + round_number)
    pulls = queued(harness, build, strategy, "web", pulls=6)["web"]
    crowd = Crowd(harness, webhook_queue, pulls, chance)
    freeze = harness.freeze()
    for _ in range(40):
        chance.choice([crowd.act, crowd.act, crowd.deliver, harness.reconciler.run_pass])()
        assert len(open_numbers(pulls)) == 6
    harness.lift(freeze)
    crowd.deliver_the_rest()
    full_resync(harness)
    enqueue(
        harness,
        "web",
        *(pull for pull in pulls if not pull.merged_at and not harness.fake_github.world.queue_entry(pull)),
    )
    webhook_queue.run()
    work(harness)
    assert open_numbers(pulls) == []


def test_closed_pull_request_is_demoted_without_queue_permission(harness: Harness, build: Builder) -> None:
    """Reopened in silence during a freeze, it could be merged with the success that it had."""
    [pull] = build("web", pulls=1)
    installation = harness.installed
    installation.permissions = {
        name: level for name, level in installation.permissions.items() if name != "merge_queues"
    }
    harness.run_until_idle()
    edit(harness, pull.number, state="closed")
    harness.freeze()
    harness.run_until_idle()
    edit(harness, pull.number, state="open")
    assert harness.merge("acme/web", pull.number).status_code == 405


class TestSiblingBranch:
    def test_reading_a_branch_leaves_the_queue_of_its_sibling_alone(
        self, harness: Harness, build: Builder, webhook_queue: WebhookQueue
    ) -> None:
        web = harness.fake_github.organization("acme").repository("web").requires("build", "main")
        pulls = build("web", pulls=2)
        web.branch("release/8")
        web.pull_request(base="release/8")
        sibling = harness.watch("release/8", "change-freeze/**")
        web.merge_queue(strategy="ALLGREEN")
        for pull in pulls:
            build_succeeds(harness, pull.head_sha)
        harness.make_due()
        work(harness)
        enqueue(harness, "web", *pulls)
        webhook_queue.run()
        assert len(groups(harness, "web")) == 2
        harness.fake_github.calls.reset()
        harness.sql("UPDATE checks SET due_at = now() - interval '1 s' WHERE branch_id = :id", id=sibling.id)
        harness.run_until_idle()
        assert harness.fake_github.calls.writes == []
        assert len(groups(harness, "web")) == 2
