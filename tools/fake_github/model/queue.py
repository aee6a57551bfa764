"""The merge queue of a base branch.

Each entry has a merge group: a commit on top of the entry before it, on a `gh-readonly-queue/` branch, which has to
pass the required checks. With ALLGREEN every entry's group must pass; with HEADGREEN the last passing one takes those
before it along. A failing group leaves the queue and those behind it are rebuilt.
"""

from tools.fake_github.model import branches, merges, pulls
from tools.fake_github.model.classic import find_protection
from tools.fake_github.model.enforcement import rules_in_force
from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.protection import SATISFYING, merge_violations, required_checks
from tools.fake_github.model.records import PullRequest, QueueEntry, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.roles import refuse_changes
from tools.fake_github.model.world import Actor, Event, World


def queue_rule(world: World, repository: Repository, base: str) -> dict[str, object] | None:
    """Return the parameters of the merge queue rule of a branch, or None without one."""
    for _, rule in rules_in_force(world, repository, base):
        if rule["type"] == "merge_queue":
            parameters: dict[str, object] = rule.get("parameters", {})
            return parameters
    return None


def enqueue(world: World, actor: Actor, repository: Repository, pull: PullRequest, *, jump: bool = False) -> QueueEntry:
    """Put a pull request into the queue of its base branch."""
    refuse_enqueuing(world, actor, repository, pull)
    number = world.next_id()
    entry = QueueEntry(
        number,
        node_id("MQE", number),
        repository.id,
        pull.base_ref,
        pull.number,
        actor.account.id,
        world.now(),
        jump=jump,
    )
    world.index_queue([entry])
    queue = world.queues[repository.id, pull.base_ref]
    if jump:
        queue.insert(0, queue.pop())
    pulls.announce(world, actor, repository, pull, "enqueued")
    _build_groups(world, actor, repository, pull.base_ref, start=queue.index(entry))
    advance(world, repository, pull.base_ref)
    return entry


def refuse_enqueuing(world: World, actor: Actor, repository: Repository, pull: PullRequest) -> None:
    """Raise what GitHub answers if a pull request cannot be put into the queue of its base branch now."""
    refuse_changes(world, actor, repository)
    if queue_rule(world, repository, pull.base_ref) is None:
        raise Refusal(422, "Pull request Merge queue is not enabled for this branch")
    if pull.state != "open" or pull.draft or pull.mergeable is False:
        raise Refusal(422, "Pull request is not in a mergeable state")
    if world.queue_entry(pull):
        raise Refusal(422, "Pull request is already in the queue")
    found = merge_violations(world, actor, repository, pull.base_ref, pull.head_sha, pull.review_decision, queued=True)
    if found:
        raise Refusal(422, f"Pull request {found[0]}")


def dequeue(
    world: World, actor: Actor, repository: Repository, pull: PullRequest, reason: str = "MANUAL"
) -> QueueEntry:
    """Take a pull request out of the queue; those behind it get new groups."""
    entry = world.queue_entry(pull)
    if entry is None:
        raise Refusal(422, "Pull request is not in the merge queue")
    queue = world.queues[repository.id, entry.base_ref]
    place = queue.index(entry)
    queue.remove(entry)
    _drop_group(world, actor, repository, entry, "dequeued" if reason == "MANUAL" else "invalidated")
    world.nodes.pop(entry.node_id, None)
    pulls.announce(world, actor, repository, pull, "dequeued", reason=reason)
    _build_groups(world, actor, repository, entry.base_ref, start=place)
    return entry


def leave_when_changed(world: World, actor: Actor, repository: Repository, pull: PullRequest) -> None:
    """Leave the queue because the pull request was pushed to, retargeted or closed."""
    for (repository_id, _), queue in list(world.queues.items()):
        if repository_id != repository.id:
            continue
        for entry in [entry for entry in queue if entry.number == pull.number]:
            place = queue.index(entry)
            queue.remove(entry)
            _drop_group(world, actor, repository, entry, "dequeued")
            world.nodes.pop(entry.node_id, None)
            pulls.announce(world, actor, repository, pull, "dequeued", reason="BRANCH_PROTECTIONS")
            _build_groups(world, actor, repository, entry.base_ref, start=place)


def group_state(world: World, repository: Repository, entry: QueueEntry) -> str:
    """Return whether an entry's group passes, fails or waits."""
    return state_of_commit(world, repository, entry.base_ref, entry.head_sha or "")


def state_of_commit(world: World, repository: Repository, base: str, sha: str) -> str:
    """Return whether the commit of a merge group passes, fails or waits.

    The queue merges as GitHub's own actor, which nothing exempts: a restriction of updates, or a locked branch, rejects
    the merge after all checks have passed.
    """
    rules, classic = rules_in_force(world, repository, base), find_protection(world, repository, base)
    waiting = False
    for context, app_id in required_checks(rules, classic):
        run = world.newest_run(repository.id, sha, context, app_id)
        if run is None or run.status != "completed":
            waiting = True
        elif run.conclusion not in SATISFYING:
            return "fails"
    if waiting:
        return "waits"
    restricted = any(rule["type"] == "update" for _, rule in rules) or (classic is not None and classic.locked)
    return "fails" if restricted else "passes"


def entries_to_merge(world: World, repository: Repository, base: str) -> list[QueueEntry]:
    """List the entries that the queue would merge at its next step, in order."""
    if repository.archived:
        return []
    queue = world.queues.get((repository.id, base), [])
    return queue[: _ready(world, repository, base, [group_state(world, repository, entry) for entry in queue])]


def advance(world: World, repository: Repository, base: str) -> None:
    """Merge what passes and drop what fails, until nothing changes."""
    while queue := world.queues.get((repository.id, base)):
        states = [group_state(world, repository, entry) for entry in queue]
        for entry, state in zip(queue, states, strict=True):
            entry.state = {"passes": "MERGEABLE", "fails": "UNMERGEABLE"}.get(state, "AWAITING_CHECKS")
        count = _ready(world, repository, base, states)
        if count:
            _merge_first(world, repository, base, count)
            continue
        failed = next((entry for entry, state in zip(queue, states, strict=True) if state == "fails"), None)
        if failed is None or (_is_headgreen(world, repository, base) and states[-1] == "waits"):
            return
        actor = Actor(world.accounts[failed.enqueuer_id])
        dequeue(world, actor, repository, repository.pulls[failed.number], "CI_FAILURE")


def _is_headgreen(world: World, repository: Repository, base: str) -> bool:
    rule = queue_rule(world, repository, base) or {}
    return rule.get("grouping_strategy", "ALLGREEN") == "HEADGREEN"


def _ready(world: World, repository: Repository, base: str, states: list[str]) -> int:
    """How many entries from the front can be merged now."""
    if _is_headgreen(world, repository, base):
        return max((place + 1 for place, state in enumerate(states) if state == "passes"), default=0)
    return next((place for place, state in enumerate(states) if state != "passes"), len(states))


def _merge_first(world: World, repository: Repository, base: str, count: int) -> None:
    queue = world.queues[repository.id, base]
    merged, queue[:count] = queue[:count], []
    for entry in merged:
        actor, pull = Actor(world.accounts[entry.enqueuer_id]), repository.pulls[entry.number]
        world.nodes.pop(entry.node_id, None)
        pulls.announce(world, actor, repository, pull, "dequeued", reason="MERGE")
        merges.complete_merge(world, actor, repository, pull, sha=entry.head_sha)
        _drop_group(world, actor, repository, entry, "merged")


def _build_groups(world: World, actor: Actor, repository: Repository, base: str, start: int) -> None:
    """Make the groups from a place to the end, each on top of the one before it."""
    queue = world.queues.get((repository.id, base), [])
    if base not in repository.branches:
        return  # it is being deleted, and its pull requests leave the queue one after the other
    for place in range(start, len(queue)):
        entry = queue[place]
        pull = repository.pulls[entry.number]
        below = queue[place - 1].head_sha if place else None
        parent = below or repository.branches[base]
        if entry.head_sha:
            _drop_group(world, actor, repository, entry, "invalidated")
        message = f"Merge pull request #{pull.number} from {pull.head_ref}"
        commit = branches.make_commit(world, repository, actor.account.id, message, [parent, pull.head_sha])
        entry.base_sha, entry.head_sha = parent, commit.sha
        entry.head_ref = f"gh-readonly-queue/{base}/pr-{pull.number}-{parent}"
        entry.state = "AWAITING_CHECKS"
        world.groups[repository.id, commit.sha] = entry
        repository.branches[entry.head_ref] = commit.sha
        world.emit(Event("merge_group", "checks_requested", actor.account, repository, {"entry": entry}))


def _drop_group(world: World, actor: Actor, repository: Repository, entry: QueueEntry, reason: str) -> None:
    """Destroy the group of an entry."""
    if entry.head_sha is None or entry.head_ref is None:
        return
    repository.branches.pop(entry.head_ref, None)
    world.groups.pop((repository.id, entry.head_sha), None)
    facts = {"entry": entry, "reason": reason}
    world.emit(Event("merge_group", "destroyed", actor.account, repository, facts))
