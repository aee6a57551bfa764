"""The merge queue: groups that must pass, entries that leave, and the two grouping strategies."""

from typing import Any

import pytest
from githubkit import GitHub

from tests.tools.fake_github.conftest import CHECK, PLACE, refused
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model import queue
from tools.fake_github.model.records import PullRequest, QueueEntry
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor

ENTRIES = """query($owner:String!,$name:String!){repository(owner:$owner,name:$name){mergeQueue(branch:"main"){
 configuration{mergingStrategy} entries(first:10){totalCount nodes{position state jump
  headCommit{oid parents(first:2){nodes{oid}}}
  baseCommit{oid} pullRequest{number mergeQueueEntry{position}}}}}}}"""


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web").requires(CHECK)


def enqueue(web: RepositoryBuilder, pull: PullRequest, *, jump: bool = False) -> None:
    queue.enqueue(web.github.world, Actor(web.github.maintainer), web.record, pull, jump=jump)


def entry(web: RepositoryBuilder, pull: PullRequest) -> QueueEntry:
    found = web.github.world.queue_entry(pull)
    assert found is not None
    return found


def report(bot: GitHub[Any], sha: str | None, conclusion: Any) -> None:
    bot.rest.checks.create(*PLACE, name=CHECK, head_sha=sha or "", status="completed", conclusion=conclusion)


def queued(web: RepositoryBuilder, count: int) -> list[PullRequest]:
    pulls = [web.pull_request(checks={CHECK: "success"}) for _ in range(count)]
    for pull in pulls:
        enqueue(web, pull)
    return pulls


def merged(pulls: list[PullRequest]) -> list[bool]:
    return [pull.merged_at is not None for pull in pulls]


def test_merge_group_is_based_on_the_group_before(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    first, second = queued(web.merge_queue(), 2)
    shown = person.graphql(ENTRIES, {"owner": "acme", "name": "web"})["repository"]["mergeQueue"]["entries"]
    assert shown["totalCount"] == 2
    ahead, behind = shown["nodes"]
    assert (ahead["position"], behind["position"]) == (1, 2)
    assert ahead["headCommit"]["parents"]["nodes"] == [{"oid": web.record.branches["main"]}, {"oid": first.head_sha}]
    parents = [{"oid": ahead["headCommit"]["oid"]}, {"oid": second.head_sha}]
    assert behind["headCommit"]["parents"]["nodes"] == parents
    assert behind["baseCommit"]["oid"] == ahead["headCommit"]["oid"]
    assert entry(web, first).head_ref == f"gh-readonly-queue/main/pr-{first.number}-{web.record.branches['main']}"


def test_passing_merge_group_is_merged(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    pulls = queued(web.merge_queue(), 2)
    group = entry(web, pulls[0]).head_sha
    report(bot, group, "success")
    assert merged(pulls) == [True, False]
    assert web.record.branches["main"] == group


def test_allgreen_group_waits_for_earlier_groups(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    pulls = queued(web.merge_queue(strategy="ALLGREEN"), 2)
    report(bot, entry(web, pulls[1]).head_sha, "success")
    assert merged(pulls) == [False, False]
    report(bot, entry(web, pulls[0]).head_sha, "success")
    assert merged(pulls) == [True, True]


def test_headgreen_merges_all_groups_up_to_the_last_passing(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    pulls = queued(web.merge_queue(strategy="HEADGREEN"), 3)
    report(bot, entry(web, pulls[0]).head_sha, "failure")
    report(bot, entry(web, pulls[1]).head_sha, "success")
    assert merged(pulls) == [True, True, False]


def test_failing_group_leaves_the_queue_and_later_groups_are_rebuilt(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    first, second = queued(web.merge_queue(), 2)
    before = entry(web, second).head_sha
    report(bot, entry(web, first).head_sha, "failure")
    assert web.github.world.queue_entry(first) is None
    assert first.state == "open"
    assert entry(web, second).head_sha != before
    assert entry(web, second).base_sha == web.record.branches["main"]


def test_push_removes_a_pull_request_from_the_queue(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    (pull,) = queued(web.merge_queue(), 1)
    person.rest.repos.create_or_update_file_contents(
        *PLACE, "a.txt", message="More", content="aGVsbG8=", branch=pull.head_ref
    )
    assert web.github.world.queue_entry(pull) is None


def test_queued_pull_request_can_jump_and_be_removed(web: RepositoryBuilder) -> None:
    first, second = queued(web.merge_queue(), 2)
    urgent = web.pull_request(checks={CHECK: "success"})
    enqueue(web, urgent, jump=True)
    queue.dequeue(web.github.world, Actor(web.github.maintainer), web.record, first)
    left = [each.number for each in web.github.world.queues[web.record.id, "main"]]
    assert left == [urgent.number, second.number]


def test_pull_request_is_queued_only_when_its_checks_pass(web: RepositoryBuilder) -> None:
    pull = web.merge_queue().pull_request()
    with pytest.raises(Refusal, match="is expected"):
        enqueue(web, pull)


def test_direct_merge_is_rejected_when_a_queue_is_required(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    pull = web.merge_queue().pull_request(checks={CHECK: "success"})
    assert "Changes must be made through the merge queue" in refused(person.rest.pulls.merge, *PLACE, pull.number)[1]


def test_deleting_the_base_empties_its_queue(github: FakeGitHub, person: GitHub[Any], bot: GitHub[Any]) -> None:
    web = github.organization("acme").repository("web", branches=("next",))
    web.merge_queue("next")
    pulls = [web.pull_request(base="next") for _ in range(2)]
    for pull in pulls:
        enqueue(web, pull)
    assert person.rest.git.delete_ref(*PLACE, "heads/next").status_code == 204
    assert [pull.state for pull in pulls] == ["closed", "closed"]
    assert all(web.github.world.queue_entry(pull) is None for pull in pulls)
