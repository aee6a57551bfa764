"""Rules and merge queues, asked of GitHub: a group is merged only while a rule lets in each of its members."""

from collections.abc import Callable, Collection, Sequence

import pytest

from services.exception_rules.changes import change, delete
from tests.faults.test_merge_queue import build_succeeds, enqueue, groups
from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import HOTFIX, People, edits
from tools.fake_github.model.refusals import Refusal

both_strategies = pytest.mark.parametrize("strategy", ["ALLGREEN", "HEADGREEN"])


class Queue:
    """Pull requests in the merge queue of a branch, whose groups wait for a build as well."""

    def __init__(self, harness: Harness, build: Builder, people: People, strategy: str) -> None:
        self.harness, self.people = harness, people
        web = harness.fake_github.organization("acme").repository("web").requires("build", "main")
        self.pulls = build("web", pulls=3)
        web.merge_queue(strategy=strategy)
        self.webhooks = WebhookQueue(harness)
        for pull in self.pulls:
            people.write(pull, "author")
            build_succeeds(harness, pull.head_sha)
        harness.run_until_idle()

    def enter(self, size: int, labelled: Collection[int]) -> list[str]:
        """Have the first so many enter the queue; return the commits of their groups, from front to back."""
        for number in labelled:
            self.people.label(self.pulls[number - 1], "captain")
        self.webhooks.run()
        enqueue(self.harness, "web", *self.pulls[:size])
        self.webhooks.run()
        return groups(self.harness, "web")

    def shown(self, commits: Sequence[str]) -> list[str | None]:
        """Return what GitHub shows on commits under the name of our check."""
        github, repository = self.harness.fake_github, self.pulls[0].repository_id
        runs = [github.world.newest_run(repository, sha, "change-freeze/main", github.app_id) for sha in commits]
        return [run.conclusion if run is not None else None for run in runs]

    def merged_after_builds(self) -> list[int]:
        """Have the build of every group that still waits succeed; return the numbers that GitHub has merged."""
        for sha in groups(self.harness, "web"):
            build_succeeds(self.harness, sha)
        return [pull.number for pull in self.pulls if pull.merged_at is not None]

    def one_pass(self) -> None:
        """Deliver what GitHub has sent, and run one pass."""
        self.webhooks.deliver(self.webhooks.take())
        assert self.harness.reconciler.run_pass()


@pytest.fixture
def strategy() -> str:
    return "ALLGREEN"


@pytest.fixture
def queue(harness: Harness, build: Builder, people: People, strategy: str) -> Queue:
    return Queue(harness, build, people, strategy)


@pytest.mark.parametrize(
    ("strategy", "size", "labelled", "in_front"),
    [
        pytest.param(strategy, *row, id=f"{name}, {strategy}", marks=[pytest.mark.check] if rest else [])
        for number, (name, *row) in enumerate(
            [
                ("all of two", 2, (1, 2), 2),
                ("the first of two", 2, (1,), 1),
                ("the last of two", 2, (2,), 0),
                ("none of two", 2, (), 0),
                ("all of three", 3, (1, 2, 3), 3),
                ("the outer ones of three", 3, (1, 3), 1),
                ("the last ones of three", 3, (2, 3), 0),
                ("none of three", 3, (), 0),
            ]
        )
        for strategy, rest in (("ALLGREEN", number % 2), ("HEADGREEN", not number % 2))
    ],
)
def test_freeze_leaves_the_groups_whose_members_all_meet_a_rule(
    harness: Harness, queue: Queue, add_rule: AddRule, size: int, labelled: Collection[int], in_front: int
) -> None:
    """`in_front` members are let in, with nobody before them who is not."""
    commits = queue.enter(size, labelled)
    assert queue.shown(commits) == ["success"] * size
    add_rule(HOTFIX)
    harness.freeze()

    queue.one_pass()

    assert queue.shown(commits) == ["success"] * in_front + ["failure"] * (size - in_front)
    assert queue.merged_after_builds() == list(range(1, in_front + 1))


def take_label(queue: Queue, _rule_id: str) -> None:
    queue.people.unlabel(queue.pulls[1], "captain")


def rename_label(queue: Queue, _rule_id: str) -> None:
    queue.harness.person("PATCH", "/repos/acme/web/labels/hotfix", {"new_name": "other"})


def empty_team(queue: Queue, _rule_id: str) -> None:
    queue.people.set_captains("nobody")


def delete_the_team(queue: Queue, _rule_id: str) -> None:
    queue.people.delete_captains()


def disable_rule(queue: Queue, rule_id: str) -> None:
    with edits(queue.harness) as uow:
        change(uow, rule_id, {"enabled": False})


def delete_rule(queue: Queue, rule_id: str) -> None:
    with edits(queue.harness) as uow:
        delete(uow, rule_id)


@pytest.mark.parametrize(
    ("end", "stays"),
    [
        (take_label, 1),
        (rename_label, 0),
        (empty_team, 0),
        (delete_the_team, 0),
        (disable_rule, 0),
        (delete_rule, 0),
    ],
)
def test_group_fails_in_the_pass_that_sees_that_a_fact_of_a_member_ends(
    harness: Harness, queue: Queue, add_rule: AddRule, end: Callable[[Queue, str], None], stays: int
) -> None:
    rule = add_rule(HOTFIX)
    harness.freeze()
    harness.run_until_idle()
    commits = queue.enter(3, (1, 2, 3))
    assert queue.shown(commits) == ["success"] * 3

    end(queue, rule.id)
    queue.one_pass()

    assert queue.shown(commits) == ["success"] * stays + ["failure"] * (3 - stays)
    assert queue.merged_after_builds() == list(range(1, stays + 1))


@both_strategies
def test_members_behind_one_that_has_left_are_merged_in_a_new_group(
    harness: Harness, queue: Queue, add_rule: AddRule
) -> None:
    add_rule(HOTFIX)
    harness.freeze()
    harness.run_until_idle()
    queue.enter(3, (1, 2, 3))
    queue.people.unlabel(queue.pulls[1], "captain")
    queue.webhooks.run()
    with pytest.raises(Refusal, match="is failing"):
        enqueue(harness, "web", queue.pulls[1])

    enqueue(harness, "web", queue.pulls[2])
    queue.webhooks.run()

    assert queue.merged_after_builds() == [1, 3]


def test_members_may_meet_different_rules(harness: Harness, queue: Queue, add_rule: AddRule) -> None:
    add_rule(HOTFIX)
    add_rule({"label": {"name": "docs", "setBy": {"accounts": ["deputy"]}}})
    harness.freeze()
    harness.run_until_idle()
    queue.people.label(queue.pulls[1], "deputy", "docs")

    queue.enter(2, (1,))

    assert queue.merged_after_builds() == [1, 2]


def test_group_is_merged_only_as_far_as_the_limit_of_the_rule_goes(
    harness: Harness, queue: Queue, add_rule: AddRule
) -> None:
    commits = queue.enter(3, (1, 2, 3))
    add_rule(HOTFIX, per_freeze=2)
    harness.freeze()

    queue.one_pass()

    assert queue.shown(commits) == ["success", "success", "failure"]
    assert queue.merged_after_builds() == [1, 2]
