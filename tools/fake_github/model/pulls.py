"""Pull requests: opening, editing, closing, new heads."""

from dataclasses import dataclass

from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.records import Account, AutoMerge, PullRequest, Repository, Review, TimelineItem
from tools.fake_github.model.refusals import Refusal, validation_failed
from tools.fake_github.model.world import Actor, Event, World


def pull_numbered(repository: Repository, number: int) -> PullRequest:
    """Return the pull request of a number."""
    pull = repository.pulls.get(number)
    if pull is None:
        raise Refusal(404, "Not Found")
    return pull


def announce(
    world: World, actor: Actor, repository: Repository, pull: PullRequest, action: str, **facts: object
) -> None:
    """Announce an event of a pull request."""
    world.emit(Event("pull_request", action, actor.account, repository, {"pull": pull, **facts}))


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a pull request is opened with."""

    title: str
    head: str
    base: str
    body: str | None = None
    draft: bool = False
    fork: Repository | None = None
    """The repository that the head is in, if it is another one."""


def open_pull_request(world: World, actor: Actor, repository: Repository, wanted: Proposal) -> PullRequest:
    """Open a pull request from one branch into another."""
    if repository.archived:
        raise Refusal(403, "Repository was archived so is read-only.")
    for field, branch in (("head", wanted.head), ("base", wanted.base)):
        if branch not in repository.branches:
            raise validation_failed("PullRequest", field)
    if repository.branches[wanted.head] == repository.branches[wanted.base]:
        message = f"No commits between {wanted.base} and {wanted.head}"
        raise validation_failed("PullRequest", "base", message=message)
    if any(pull.base_ref == wanted.base for pull in world.open_from[repository.id, wanted.head].values()):
        name = f"{world.owner(repository).login}:{wanted.head}"
        raise validation_failed("PullRequest", "head", message=f"A pull request already exists for {name}.")
    pull = add_pull(world, repository, actor.account.id, wanted)
    announce(world, actor, repository, pull, "opened")
    return pull


def add_pull(world: World, repository: Repository, author_id: int, wanted: Proposal) -> PullRequest:
    """Add a pull request without checks and webhooks."""
    identifier, now, number = world.next_id(), world.now(), repository.next_number
    repository.next_number += 1
    pull = PullRequest(
        id=identifier,
        node_id=node_id("PR", identifier),
        repository_id=repository.id,
        number=number,
        title=wanted.title,
        author_id=author_id,
        head_ref=wanted.head,
        head_sha=(wanted.fork or repository).branches[wanted.head],
        base_ref=wanted.base,
        base_sha=repository.branches[wanted.base],
        created_at=now,
        updated_at=now,
        body=wanted.body,
        draft=wanted.draft,
        fork_id=wanted.fork.id if wanted.fork else None,
    )
    repository.pulls[number] = pull
    world.index_pull(pull)
    return pull


def synchronize(world: World, actor: Actor, repository: Repository, pull: PullRequest, sha: str) -> None:
    """Give a pull request a new head commit."""
    before = pull.head_sha
    world.unindex_pull(pull)
    pull.head_sha, pull.updated_at = sha, world.now()
    world.index_pull(pull)
    announce(world, actor, repository, pull, "synchronize", before=before, after=sha)


def note(world: World, actor: Actor, pull: PullRequest, kind: str, **facts: str) -> None:
    """Add an item to the timeline of a pull request."""
    number = world.next_id()
    item = TimelineItem(number, node_id(kind, number), kind, actor.account.id, world.now(), **facts)
    pull.timeline.append(item)
    pull.updated_at = item.created_at


def review(
    world: World, author: Account, repository: Repository, pull: PullRequest, state: str, body: str = ""
) -> Review:
    """Add a review, and take it into account: APPROVED or CHANGES_REQUESTED decide, COMMENTED does not."""
    number, now = world.next_id(), world.now()
    made = Review(number, node_id("PRR", number), author.id, state, body, pull.head_sha, now)
    pull.reviews.append(made)
    if state != "COMMENTED":
        pull.review_decision, pull.updated_at = state, now
    world.emit(Event("pull_request_review", "submitted", author, repository, {"pull": pull, "review": made}))
    return made


def dismiss(world: World, actor: Actor, repository: Repository, pull: PullRequest, review_id: int) -> Review:
    """Dismiss a review that approves or requests changes."""
    found = next((review for review in pull.reviews if review.id == review_id), None)
    if found is None:
        raise Refusal(404, "Not Found")
    if found.state not in {"APPROVED", "CHANGES_REQUESTED"}:
        raise Refusal(422, "Can not dismiss a commented pull request review")
    found.state, pull.updated_at = "DISMISSED", world.now()
    decided = [each.state for each in pull.reviews if each.state in {"APPROVED", "CHANGES_REQUESTED"}]
    pull.review_decision = decided[-1] if decided else None
    world.emit(Event("pull_request_review", "dismissed", actor.account, repository, {"pull": pull, "review": found}))
    return found


def close(world: World, actor: Actor, repository: Repository, pull: PullRequest, merge_sha: str | None = None) -> None:
    """Close a pull request; `merge_sha` is the commit that merged it."""
    if pull.state == "closed":
        return
    world.unindex_pull(pull)
    now = world.now()
    pull.state, pull.closed_at, pull.updated_at = "closed", now, now
    if merge_sha:
        pull.merged_at, pull.merge_commit_sha, pull.merged_by_id = now, merge_sha, actor.account.id
    elif pull.auto_merge:
        set_auto_merge(world, actor, repository, pull, None)
    announce(world, actor, repository, pull, "closed")


def reopen(world: World, actor: Actor, repository: Repository, pull: PullRequest) -> None:
    """Open a closed pull request again."""
    if pull.state == "open":
        return
    head = world.head_repository(pull)
    tip = head.branches.get(pull.head_ref) if head else None
    if pull.merged_at or tip is None or pull.base_ref not in repository.branches:
        raise validation_failed("PullRequest", "state", message="state cannot be changed.")
    if any(other.base_ref == pull.base_ref for other in world.open_from[world.head_of(pull)].values()):
        raise validation_failed("PullRequest", "state", message="state cannot be changed.")
    pull.state, pull.closed_at, pull.updated_at = "open", None, world.now()
    pull.head_sha = tip
    world.index_pull(pull)
    announce(world, actor, repository, pull, "reopened")


def edit(
    world: World,
    actor: Actor,
    repository: Repository,
    pull: PullRequest,
    *,
    title: str | None = None,
    body: str | None = None,
    base: str | None = None,
) -> None:
    """Change title, body or base branch."""
    changes: dict[str, object] = {}
    before = pull.base_ref
    if base is not None and base != pull.base_ref:
        if pull.state != "open":
            raise validation_failed(
                "PullRequest", "base", message="Cannot change the base branch of a closed pull request."
            )
        if base not in repository.branches or base == pull.head_ref:
            raise validation_failed("PullRequest", "base")
        if any(other.base_ref == base for other in world.open_from[world.head_of(pull)].values()):
            message = f"A pull request already exists for base branch '{base}' and head branch '{pull.head_ref}'"
            raise validation_failed("PullRequest", "base", message=message)
        changes["base"] = {"ref": {"from": pull.base_ref}, "sha": {"from": pull.base_sha}}
        world.unindex_pull(pull)
        pull.base_ref, pull.base_sha = base, repository.branches[base]
        world.index_pull(pull)
    if title is not None and title != pull.title:
        changes["title"], pull.title = {"from": pull.title}, title
    if body is not None and body != pull.body:
        changes["body"], pull.body = {"from": pull.body or ""}, body
    if "base" in changes:
        note(world, actor, pull, "BaseRefChangedEvent", before=before, after=pull.base_ref)
    if changes:
        pull.updated_at = world.now()
        announce(world, actor, repository, pull, "edited", changes=changes)


def set_draft(world: World, actor: Actor, repository: Repository, pull: PullRequest, *, draft: bool) -> None:
    """Convert to a draft or mark ready for review."""
    if pull.draft != draft:
        pull.draft, pull.updated_at = draft, world.now()
        announce(world, actor, repository, pull, "converted_to_draft" if draft else "ready_for_review")


def set_auto_merge(
    world: World, actor: Actor, repository: Repository, pull: PullRequest, auto_merge: AutoMerge | None
) -> None:
    """Enable auto-merge, or disable it with None."""
    former, pull.auto_merge, pull.updated_at = pull.auto_merge, auto_merge, world.now()
    if auto_merge:
        announce(world, actor, repository, pull, "auto_merge_enabled")
    elif former:
        announce(world, actor, repository, pull, "auto_merge_disabled", reason="disabled manually")
