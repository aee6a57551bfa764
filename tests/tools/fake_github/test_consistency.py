"""Whatever happens in whatever order, the indexes say what the records say, and a restored world is the same world."""

import contextlib
from collections import defaultdict
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.tools.fake_github.conftest import CHECK
from tools.fake_github import FakeGitHub, persistence
from tools.fake_github.model import branches, checks, labels, merges, pulls, queue
from tools.fake_github.model.protection import merge_violations
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor, World

pytestmark = pytest.mark.check

BRANCHES = ("main", "next", "change-1", "change-2", "change-3")


def recomputed(world: World) -> dict[str, dict[Any, set[int]]]:
    """Work the indexes of open pull requests out from the records."""
    found: dict[str, dict[Any, set[int]]] = {"into": defaultdict(set), "from": defaultdict(set), "at": defaultdict(set)}
    for repository in world.repositories.values():
        for pull in repository.pulls.values():
            if pull.state == "open":
                found["into"][repository.id, pull.base_ref].add(pull.number)
                found["from"][repository.id, pull.head_ref].add(pull.number)
                found["at"][repository.id, pull.head_sha].add(pull.number)
    return found


def indexed(index: dict[Any, dict[int, PullRequest]]) -> dict[Any, set[int]]:
    return {key: set(pulls) for key, pulls in index.items() if pulls}


class LifeOfARepository(RuleBasedStateMachine):
    """People and the App do things to one repository, some of which are refused."""

    @initialize(strategy=st.sampled_from(["ALLGREEN", "HEADGREEN"]))
    def begin(self, strategy: str) -> None:
        self.github = FakeGitHub()
        builder = self.github.organization("acme").repository("web", branches=BRANCHES[1:2])
        builder.requires(CHECK).merge_queue("next", strategy).requires("change-freeze/next", "next")
        for base in ("main", "next", "next", "main"):
            builder.pull_request(base=base)
        builder.pull_request(base="next", sharesHeadWith=1)
        self.github.organization("acme").team_named("captains", "ada")
        self.repository = builder.record
        self.world = self.github.world
        self.actor = Actor(self.github.maintainer)
        self.bot = Actor(self.world.accounts[self.github.app.bot_id], self.github.app_id)

    def pull(self, number: int) -> PullRequest | None:
        everything = list(self.repository.pulls.values())
        return everything[number % len(everything)] if everything else None

    @rule(head=st.sampled_from(BRANCHES), base=st.sampled_from(BRANCHES))
    def open(self, head: str, base: str) -> None:
        with contextlib.suppress(Refusal):
            wanted = pulls.Proposal("A change", head, base)
            pulls.open_pull_request(self.world, self.actor, self.repository, wanted)

    @rule(branch=st.sampled_from(BRANCHES))
    def push(self, branch: str) -> None:
        with contextlib.suppress(Refusal):
            change = branches.FileChange(f"file-{self.world.next_id()}", "aGVsbG8=", "Change")
            branches.put_file(self.world, self.actor, self.repository, branch, change)

    @rule(branch=st.sampled_from(BRANCHES))
    def recreate(self, branch: str) -> None:
        with contextlib.suppress(Refusal):
            branches.delete_branch(self.world, self.actor, self.repository, branch)
        sha = next(iter(self.repository.branches.values()), None)
        if sha is not None:
            with contextlib.suppress(Refusal):
                branches.create_branch(self.world, self.actor, self.repository, branch, sha)

    @rule(number=st.integers(0, 9), base=st.sampled_from(BRANCHES))
    def retarget(self, number: int, base: str) -> None:
        if pull := self.pull(number):
            with contextlib.suppress(Refusal):
                pulls.edit(self.world, self.actor, self.repository, pull, base=base)

    @rule(number=st.integers(0, 9), opening=st.booleans())
    def close_or_reopen(self, number: int, opening: bool) -> None:
        if pull := self.pull(number):
            with contextlib.suppress(Refusal):
                change = pulls.reopen if opening else pulls.close
                change(self.world, self.actor, self.repository, pull)

    @rule(
        number=st.integers(0, 9),
        name=st.sampled_from([CHECK, "change-freeze/next"]),
        conclusion=st.sampled_from(["success", "failure"]),
        group=st.booleans(),
    )
    def report(self, number: int, name: str, conclusion: str, group: bool) -> None:
        pull = self.pull(number)
        if pull is None:
            return
        entry = self.world.queue_entry(pull)
        sha = entry.head_sha if group and entry else pull.head_sha
        fields = {"name": name, "head_sha": sha, "conclusion": conclusion}
        checks.create_check_run(self.world, self.bot, self.github.app_id, self.repository, fields)

    @rule(number=st.integers(0, 9), name=st.sampled_from(["hotfix", "docs"]), setting=st.booleans())
    def label(self, number: int, name: str, setting: bool) -> None:
        if pull := self.pull(number):
            with contextlib.suppress(Refusal):
                change = labels.add_label if setting else labels.remove_label
                change(self.world, self.actor, self.repository, pull, name)

    def approve(self, pull: PullRequest) -> None:
        """Let every check pass on the head of a pull request."""
        for name in (CHECK, "change-freeze/next"):
            fields = {"name": name, "head_sha": pull.head_sha, "conclusion": "success"}
            checks.create_check_run(self.world, self.bot, self.github.app_id, self.repository, fields)

    @rule(number=st.integers(0, 9), green=st.booleans())
    def merge(self, number: int, green: bool) -> None:
        pull = self.pull(number)
        if pull is None:
            return
        if green:
            self.approve(pull)
        forbidden = merge_violations(self.world, self.actor, self.repository, pull.base_ref, pull.head_sha, None)
        try:
            merges.merge(self.world, self.actor, self.repository, pull)
        except Refusal:
            return
        assert not forbidden

    @rule(number=st.integers(0, 9), leaving=st.booleans())
    def queue_up(self, number: int, leaving: bool) -> None:
        if pull := self.pull(number):
            if not leaving:
                self.approve(pull)
            with contextlib.suppress(Refusal):
                change = queue.dequeue if leaving else queue.enqueue
                change(self.world, self.actor, self.repository, pull)

    @invariant()
    def the_indexes_say_what_the_records_say(self) -> None:
        expected = recomputed(self.world)
        assert indexed(self.world.open_into) == expected["into"]
        assert indexed(self.world.open_from) == expected["from"]
        assert indexed(self.world.open_at) == expected["at"]

    @invariant()
    def only_open_pull_requests_are_queued_each_with_a_group(self) -> None:
        entries = [entry for each in self.world.queues.values() for entry in each]
        assert {entry.head_sha for entry in entries} == {sha for _, sha in self.world.groups}
        for entry in entries:
            assert self.repository.pulls[entry.number].state == "open"
            assert self.repository.branches[entry.head_ref or ""] == entry.head_sha
        groups = [name for name in self.repository.branches if name.startswith("gh-readonly-queue/")]
        assert len(groups) == len(entries)

    def teardown(self) -> None:
        if not hasattr(self, "github"):
            return
        before = persistence.dump(self.github)
        again = World()
        persistence.restore(again, orjson.loads(before))
        assert indexed(again.open_into) == indexed(self.world.open_into)
        assert {key: run.id for key, run in again.newest.items()} == {
            key: run.id for key, run in self.world.newest.items()
        }
        assert again.groups.keys() == self.world.groups.keys()
        assert again.repositories == self.world.repositories
        assert (again.teams, again.team_slugs) == (self.world.teams, self.world.team_slugs)


TestLifeOfARepository = LifeOfARepository.TestCase
TestLifeOfARepository.settings = settings(max_examples=60, stateful_step_count=50, deadline=None, print_blob=True)
