"""Merge queues: entries that wait when a freeze begins fail at once, from back to front, and stay out."""

import random
from collections.abc import Sequence

import pytest

from integrations.github import BranchHeads, QueueEntry
from models.repositories import Repository as StoredRepository
from services.core.unit_of_work import SYSTEM_CALLER
from services.reconcile.evaluation import evaluate
from services.reconcile.heads import gather_heads
from services.reconcile.leases import LeasedBranch, acquire, leased_transaction
from tests import factories
from tests.harness.random_seed import chosen_seed
from tests.harness.webhook_queue import Post, look_everywhere, work
from tests.jobs.conftest import Builder, Town
from tools.fake_github.model import branches, checks, queue
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor

CHECK = "change-freeze/main"
STRATEGIES = ["ALLGREEN", "HEADGREEN"]
both_strategies = pytest.mark.parametrize("strategy", STRATEGIES)


def record_of(town: Town, name: str) -> Repository:
    return town.host.organization("acme").repository(name).record


def person(town: Town) -> Actor:
    return Actor(town.host.maintainer)


def enqueue(town: Town, name: str, *pulls: PullRequest, jump: bool = False) -> None:
    with town.host.world.lock:
        for pull in pulls:
            queue.enqueue(town.host.world, person(town), record_of(town, name), pull, jump=jump)


def groups(town: Town, name: str) -> list[str]:
    """Return the queue's own commits, from front to back."""
    entries = town.host.world.queues.get((record_of(town, name).id, "main"), [])
    return [entry.head_sha or "" for entry in entries]


def report(town: Town, name: str, context: str, sha: str, conclusion: str) -> None:
    """Report a check of another kind, as a build server does."""
    bot = Actor(town.host.world.accounts[town.host.app.bot_id], town.host.app_id)
    fields = {"name": context, "head_sha": sha, "conclusion": conclusion}
    with town.host.world.lock:
        checks.create_check_run(town.host.world, bot, town.host.app_id, record_of(town, name), fields)


def failed(town: Town, shas: Sequence[str]) -> list[str]:
    """Return which of these commits were written to, in the order of the writes; each got one `failure`."""
    writes = [write for write in town.host.calls.writes if write["headSha"] in shas and write["name"] == CHECK]
    assert {write["conclusion"] for write in writes} <= {"failure"}
    return [write["headSha"] for write in writes]


def open_numbers(pulls: Sequence[PullRequest]) -> list[int]:
    return [pull.number for pull in pulls if pull.merged_at is None]


@pytest.fixture
def post(town: Town) -> Post:
    return Post(town)


def queued(town: Town, build: Builder, strategy: str, *names: str, pulls: int = 4) -> dict[str, list[PullRequest]]:
    """Build repositories whose pull requests are all green and have just been queued; nobody was told."""
    made = build(*names, pulls=pulls)
    waiting = {name: made[place * pulls : (place + 1) * pulls] for place, name in enumerate(names)}
    for name in names:
        town.host.organization("acme").repository(name).merge_queue(strategy=strategy)
    work(town)
    for name, some in waiting.items():
        enqueue(town, name, *some)
    town.host.calls.reset()
    return waiting


class TestNewFreeze:
    def test_freeze_blocks_queue_commits_before_anything_else(self, town: Town, build: Builder) -> None:
        """A queued pull request's own head cannot be merged past the queue; its group can, at any moment."""
        pulls = queued(town, build, "ALLGREEN", "api", "web", pulls=20)
        before = {sha for name in pulls for sha in groups(town, name)}
        town.freeze()
        assert town.reconciler.run_pass()
        written = [write["headSha"] for write in town.host.calls.writes]
        assert set(written[: len(before)]) == before

    @both_strategies
    def test_freeze_fails_every_queue_entry_from_back_to_front(self, town: Town, build: Builder, strategy: str) -> None:
        pulls = queued(town, build, strategy, "web")["web"]
        before = groups(town, "web")
        town.freeze()
        assert town.reconciler.run_pass()
        assert failed(town, before) == before[::-1]
        assert groups(town, "web") == []
        work(town)
        assert open_numbers(pulls) == [pull.number for pull in pulls]

    @both_strategies
    def test_freeze_revokes_success_of_entries_that_wait_for_another_check(
        self, town: Town, build: Builder, post: Post, strategy: str
    ) -> None:
        web = town.host.organization("acme").repository("web").requires("build", "main")
        pulls = build("web", pulls=3)
        web.merge_queue(strategy=strategy)
        for pull in pulls:
            report(town, "web", "build", pull.head_sha, "success")
        work(town)
        enqueue(town, "web", *pulls)
        post.run()
        before = groups(town, "web")
        assert {write["conclusion"] for write in town.host.calls.writes} == {"success"}
        town.host.calls.reset()
        town.freeze()
        work(town)
        assert failed(town, before) == before[::-1]
        for sha in before:
            report(town, "web", "build", sha, "success")
        assert open_numbers(pulls) == [1, 2, 3]

    @both_strategies
    def test_freeze_blocks_many_queues_in_one_pass(self, town: Town, build: Builder, strategy: str) -> None:
        names = [f"service-{number}" for number in range(12)]
        pulls = queued(town, build, strategy, *names, pulls=3)
        before = {name: groups(town, name) for name in names}
        town.freeze()
        assert town.reconciler.run_pass()
        for name in names:
            assert failed(town, before[name]) == before[name][::-1]
            assert open_numbers(pulls[name]) == [1, 2, 3]

    def test_freeze_blocks_a_queue_longer_than_a_page(self, town: Town, build: Builder) -> None:
        pulls = queued(town, build, "ALLGREEN", "web", pulls=105)["web"]
        before = groups(town, "web")
        assert len(before) == 105
        town.freeze()
        work(town)
        assert failed(town, before) == before[::-1]
        assert len(open_numbers(pulls)) == 105


class TestAfterTheLift:
    @both_strategies
    def test_removed_entry_can_be_queued_and_merged_after_the_lift(
        self, town: Town, build: Builder, post: Post, strategy: str
    ) -> None:
        pulls = queued(town, build, strategy, "web")["web"]
        freeze = town.freeze()
        post.run()
        work(town)
        with pytest.raises(Refusal, match="is failing"):
            enqueue(town, "web", pulls[0])
        town.lift(freeze)
        work(town)
        enqueue(town, "web", *pulls)
        post.run()
        assert open_numbers(pulls) == []

    def test_full_resync_merges_entries_queued_while_webhooks_were_lost(
        self, town: Town, build: Builder, post: Post
    ) -> None:
        pulls = queued(town, build, "ALLGREEN", "web")["web"]
        post.take()
        look_everywhere(town)
        assert open_numbers(pulls) == []


class TestEvaluation:
    """By every member up to and including its position: all of them land with it."""

    def heads(self, branch: LeasedBranch, *numbers: int | None) -> dict[str, tuple[int, ...] | None]:
        entries = tuple(
            QueueEntry(place, number, f"{place:040x}", "awaiting_checks") for place, number in enumerate(numbers, 1)
        )
        shown = BranchHeads(branch.repository_node_id, branch.name, None, queue=entries[::-1])
        return {key.sha[-1]: head.paths[0].numbers for key, head in gather_heads([(branch, shown)]).items()}

    def claimed(self, town: Town) -> LeasedBranch:
        with town.jobs.open(SYSTEM_CALLER) as uow:
            found = acquire(uow)
        assert found is not None
        return found.branches[0]

    def test_entry_is_evaluated_with_all_entries_before_it(self, town: Town, build: Builder) -> None:
        build("web")
        members = self.heads(self.claimed(town), 7, 8, 9)
        assert members == {"3": (7, 8, 9), "2": (7, 8), "1": (7,)}
        assert list(members) == ["3", "2", "1"]

    def test_entry_behind_an_unknown_member_has_unknown_members(self, town: Town, build: Builder) -> None:
        build("web")
        assert self.heads(self.claimed(town), 7, None, 9) == {"1": (7,), "2": None, "3": None}

    @pytest.mark.parametrize("frozen", [True, False])
    def test_entry_with_unknown_members_fails_while_frozen(self, town: Town, build: Builder, frozen: bool) -> None:
        build("web")
        if frozen:
            town.freeze()
        with town.jobs.open(SYSTEM_CALLER) as uow:
            found = acquire(uow)
            assert found is not None
            assert found.lease is not None
            [branch] = found.branches
            entry = QueueEntry(1, None, f"{1:040x}", "awaiting_checks")
            shown = BranchHeads(branch.repository_node_id, branch.name, None, queue=(entry,))
        with leased_transaction(town.jobs, found.lease, [branch.id]) as leased:
            [update] = evaluate(leased, list(gather_heads([(branch, shown)]).values()))
        assert update.conclusion == ("failure" if frozen else "success")


class Crowd:
    """People who do whatever they can with a queue, and webhooks that arrive as they like."""

    def __init__(self, town: Town, post: Post, pulls: list[PullRequest], chance: random.Random) -> None:
        self.town, self.post, self.pulls, self.chance = town, post, pulls, chance
        self.held = list(post.take())

    def act(self) -> None:
        pull = self.chance.choice(self.pulls)
        try:
            self.chance.choice([self.enqueue, self.jump, self.leave, self.push])(pull)
        except Refusal:
            return

    def enqueue(self, pull: PullRequest) -> None:
        enqueue(self.town, "web", pull)

    def jump(self, pull: PullRequest) -> None:
        enqueue(self.town, "web", pull, jump=True)

    def leave(self, pull: PullRequest) -> None:
        with self.town.host.world.lock:
            queue.dequeue(self.town.host.world, person(self.town), record_of(self.town, "web"), pull)

    def push(self, pull: PullRequest) -> None:
        world, record = self.town.host.world, record_of(self.town, "web")
        with world.lock:
            tip = record.branches[pull.head_ref]
            commit = branches.make_commit(world, record, person(self.town).account.id, "More", [tip])
            branches.push(world, person(self.town), record, pull.head_ref, commit.sha)

    def deliver(self) -> None:
        """Hand over some of what is held back, in any order; some of it twice, some of it never."""
        self.held += self.post.take()
        self.chance.shuffle(self.held)
        some = [self.held.pop() for _ in range(self.chance.randrange(len(self.held) + 1))]
        self.held += self.chance.sample(some, len(some) // 3)
        self.post.hand_over(delivery for delivery in some if self.chance.random() < 0.7)

    def deliver_the_rest(self) -> None:
        self.post.hand_over(self.held)
        self.post.run()


@both_strategies
@pytest.mark.parametrize("round_number", range(4))
def test_frozen_queue_merges_nothing_in_any_order_of_webhooks(
    town: Town, build: Builder, post: Post, strategy: str, round_number: int
) -> None:
    chance = random.Random(chosen_seed() + round_number)
    pulls = queued(town, build, strategy, "web", pulls=6)["web"]
    crowd = Crowd(town, post, pulls, chance)
    freeze = town.freeze()
    for _ in range(40):
        chance.choice([crowd.act, crowd.act, crowd.deliver, town.reconciler.run_pass])()
        assert len(open_numbers(pulls)) == 6
    town.lift(freeze)
    crowd.deliver_the_rest()
    look_everywhere(town)
    enqueue(town, "web", *(pull for pull in pulls if not pull.merged_at and not town.host.world.queue_entry(pull)))
    post.run()
    work(town)
    assert open_numbers(pulls) == []


def test_closed_pull_request_is_demoted_without_queue_permission(town: Town, build: Builder) -> None:
    """Reopened in silence during a freeze, it could be merged with the success that it had."""
    [pull] = build("web", pulls=1)
    installation = next(iter(town.host.world.installations.values()))
    installation.permissions = {
        name: level for name, level in installation.permissions.items() if name != "merge_queues"
    }
    town.settle()
    town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "closed"})
    town.freeze()
    town.settle()
    town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "open"})
    assert town.merge("acme/web", pull.number).status_code == 405


class TestSiblingBranch:
    def test_reading_a_branch_leaves_the_queue_of_its_sibling_alone(
        self, town: Town, build: Builder, post: Post
    ) -> None:
        web = town.host.organization("acme").repository("web").requires("build", "main")
        pulls = build("web", pulls=2)
        web.branch("release/8")
        web.pull_request(base="release/8")
        repository = town.session.get_one(StoredRepository, town.branches["acme/web"].repository_id)
        sibling = factories.branch(town.session, repository, "release/8", check_name=CHECK)
        town.session.commit()
        web.merge_queue(strategy="ALLGREEN")
        for pull in pulls:
            report(town, "web", "build", pull.head_sha, "success")
        town.make_due()
        work(town)
        enqueue(town, "web", *pulls)
        post.run()
        assert len(groups(town, "web")) == 2
        town.host.calls.reset()
        town.sql("UPDATE watched_branches SET due_at = now() - interval '1 s' WHERE id = :id", id=sibling.id)
        town.settle()
        assert town.host.calls.writes == []
        assert len(groups(town, "web")) == 2
