"""Merging: by a person, by auto-merge or by a queue, and what it does to the base branch."""

from contextlib import suppress

from tools.fake_github.model import branches, pulls
from tools.fake_github.model.protection import PULLS, merge_violations, refuse
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.roles import refuse_changes
from tools.fake_github.model.world import Actor, World


def merge(
    world: World,
    actor: Actor,
    repository: Repository,
    pull: PullRequest,
    sha: str | None = None,
    title: str | None = None,
) -> str:
    """Merge a pull request as a person does; return the merge commit."""
    refuse_merge(world, actor, repository, pull, sha)
    return complete_merge(world, actor, repository, pull, title=title)


def refuse_merge(world: World, actor: Actor, repository: Repository, pull: PullRequest, sha: str | None = None) -> None:
    """Raise what GitHub answers if a pull request cannot be merged now.

    403 (archived), 405 (not open, draft, conflicts, rule violations) or 409 (another head than expected).
    """
    refuse_changes(world, actor, repository)
    if pull.state != "open":
        raise Refusal(405, "Pull Request is not mergeable", documentation=PULLS)
    if pull.draft:
        raise Refusal(405, "Pull Request is still a draft", documentation=PULLS)
    if sha is not None and sha != pull.head_sha:
        raise Refusal(409, "Head branch was modified. Review and try the merge again.", documentation=PULLS)
    if pull.mergeable is False:
        raise Refusal(405, "Pull Request has merge conflicts", documentation=PULLS)
    found = merge_violations(world, actor, repository, pull.base_ref, pull.head_sha, pull.review_decision)
    refuse(found, 405, PULLS)


def complete_merge(
    world: World,
    actor: Actor,
    repository: Repository,
    pull: PullRequest,
    sha: str | None = None,
    title: str | None = None,
) -> str:
    """Put the pull request on its base branch, with a merge commit or the given one of its queue, and close it."""
    how = "merge_queue_merge" if sha else "pr_merge"
    if sha is None:
        tip = repository.branches[pull.base_ref]
        message = title or f"Merge pull request #{pull.number} from {world.owner(repository).login}/{pull.head_ref}"
        sha = branches.make_commit(world, repository, actor.account.id, message, [tip, pull.head_sha]).sha
    branches.move(world, actor, repository, pull.base_ref, sha, how)
    pulls.close(world, actor, repository, pull, merge_sha=sha)
    if repository.delete_branch_on_merge:
        _delete_head(world, actor, repository, pull)
    return sha


def _delete_head(world: World, actor: Actor, repository: Repository, pull: PullRequest) -> None:
    """Delete the head branch of a merged pull request, unless a rule keeps who merged from it, or others are open.

    Pull requests into it are retargeted to the base of the merged one, as documented. That a rule silently keeps the
    branch, unless who merged bypasses it, is what people report.
    """
    if pull.fork_id is not None or world.open_from[world.head_of(pull)]:
        return
    try:
        branches.refuse_deletion(world, actor, repository, pull.head_ref)
    except Refusal:
        return
    for other in list(world.open_into[repository.id, pull.head_ref].values()):
        with suppress(Refusal):
            pulls.edit(world, actor, repository, other, base=pull.base_ref)
            other.timeline[-1].kind = "AutomaticBaseChangeSucceededEvent"
    branches.delete_branch(world, actor, repository, pull.head_ref)


def merge_state(world: World, actor: Actor, repository: Repository, pull: PullRequest) -> str:
    """GitHub's `mergeable_state`: draft, dirty, blocked, clean or unknown."""
    if pull.mergeable is None:
        return "unknown"
    if pull.draft:
        return "draft"
    if not pull.mergeable:
        return "dirty"
    found = merge_violations(world, actor, repository, pull.base_ref, pull.head_sha, pull.review_decision, queued=True)
    return "blocked" if found else "clean"


def merge_waiting(world: World, repository: Repository, sha: str) -> None:
    """Merge the pull requests with this head and auto-merge that nothing blocks any more."""
    for pull in list(world.open_at.get((repository.id, sha), {}).values()):
        if is_waiting_to_merge(world, repository, pull) and pull.auto_merge:
            complete_merge(world, Actor(world.accounts[pull.auto_merge.enabled_by_id]), repository, pull)


def is_waiting_to_merge(world: World, repository: Repository, pull: PullRequest) -> bool:
    """Return whether auto-merge would merge a pull request as soon as a check on its head completes.

    It does not use the bypass of the person who armed it. A change of the rules alone does not wake it.
    """
    if pull.auto_merge is None:
        return False
    actor = Actor(world.accounts[pull.auto_merge.enabled_by_id], bypassing=False)
    try:
        refuse_merge(world, actor, repository, pull)
    except Refusal:
        return False
    return True
