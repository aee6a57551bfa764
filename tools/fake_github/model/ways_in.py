"""Every way by which something could be put into a branch now: what GitHub would accept, without doing it.

Nothing is changed by asking. Each answer is that of the function by which the act itself is refused (`refuse_merge`,
`refuse_push` …), so that the question and the act cannot differ.

Who is asked: a person with write access, an administrator of the repository, an owner of the organisation, another App
whose token may write contents, and whoever a bypass list names, except the App that is simulated here. `github` is
GitHub itself: auto-merge, and a merge queue that goes on.

What a way takes besides the act is its `first` step: `delete` the branch; mark a draft `ready`; `reopen` a closed pull
request; `retarget` one of another branch; `open` a new one. A pull request that has to be queued counts only if its
merge group would be merged at once: the group is a new commit, whose checks are reported on it.

Not asked: what takes a change of the rules or of who may do what, a check that somebody else reports under a name that
is required of any App, a review, a pull request of a fork into another branch, and steps by several people, such as a
deletion by one and a creation by another.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from tools.fake_github.model.branches import descends, refuse_creation, refuse_deletion, refuse_push
from tools.fake_github.model.enforcement import rulesets_in_force
from tools.fake_github.model.merges import is_waiting_to_merge, refuse_merge
from tools.fake_github.model.queue import entries_to_merge, refuse_enqueuing, state_of_commit
from tools.fake_github.model.records import Account, PullRequest, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.renames import refuse_rename
from tools.fake_github.model.roles import has_level, owns
from tools.fake_github.model.world import Actor, Standing, World

INVENTED = "f" * 40
"""A commit that is nowhere yet, and has no check."""
QUEUE_PREFIX = "gh-readonly-queue/"
UNNAMED_APP = 0
"""The id of an App that no bypass list names."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Somebody who is asked for: `kind` is write, admin, organization_admin or app."""

    kind: str
    actor: Actor
    login: str | None = None  # of one who is named by a bypass list


@dataclass(frozen=True, slots=True)
class WayIn:
    """One way into a branch that GitHub would accept now."""

    way: str  # merge | auto_merge | queue | push | force_push | delete | create | rename_away | rename_into
    actor: str  # write | admin | organization_admin | app | github
    login: str | None = None  # of one who is named by a bypass list
    number: int | None = None  # of the pull request
    sha: str | None = None  # the commit concerned: a head, a tip, or the commit of a merge group
    other: str | None = None  # the other branch of a rename, or the head of a new pull request
    first: str | None = None  # delete | ready | reopen | retarget | open
    by_bypass: bool = False  # accepted only because the actor bypasses rules

    def as_json(self) -> dict[str, Any]:
        """Return what is known of it, with camelCase names."""
        shown = {name: value for name, value in asdict(self).items() if value is not None}
        return {"byBypass": shown.pop("by_bypass"), **shown}


Refuse = Callable[[Actor], None]
"""Raises what GitHub answers to an actor, if it refuses."""
Question = tuple[WayIn, Refuse]
"""A way, still without its actor, and what refuses it."""


def list_ways_in(world: World, repository: Repository, branch: str, own_app_id: int | None = None) -> list[WayIn]:
    """List every way into a branch, which need not exist, that GitHub would accept now.

    `own_app_id`: the App that is not asked.
    """
    questions = [*_by_pull_request(world, repository, branch), *_by_push(world, repository, branch)]
    questions += _by_reference(world, repository, branch)
    found = list(_by_github(world, repository, branch))
    for asker in askers(world, repository, own_app_id):
        without = replace(asker.actor, bypassing=False)
        for way, refuse in questions:
            if not _accepts(refuse, asker.actor):
                continue
            by_bypass = not _accepts(refuse, without)
            if by_bypass or asker.login is None:
                found.append(replace(way, actor=asker.kind, login=asker.login, by_bypass=by_bypass))
    return found


def askers(world: World, repository: Repository, own_app_id: int | None = None) -> list[Asker]:
    """List those who are asked: one of each kind, and those whom bypass lists name, except an App of this id."""
    found = [
        Asker("write", _person(Standing("push"))),
        Asker("admin", _person(Standing("admin"))),
        Asker("organization_admin", _person(Standing("admin", owner=True))),
        Asker("app", Actor(Account(0, "", "another-app[bot]", "Bot"), UNNAMED_APP)),
    ]
    named: dict[str, Asker] = {}
    for ruleset in rulesets_in_force(world, repository):
        for entry in ruleset.bypass_actors:
            for asker in _named(world, entry, repository):
                if asker.actor.app_id is None or asker.actor.app_id != own_app_id:
                    named.setdefault(asker.login or "", asker)
    return found + list(named.values())


def _person(standing: Standing) -> Actor:
    return Actor(Account(0, "", "somebody", "User"), standing=standing)


def _named(world: World, entry: dict[str, object], repository: Repository) -> Iterator[Asker]:
    """Yield whom an entry of a bypass list names."""
    number = entry.get("actor_id")
    if not isinstance(number, int):
        return
    if entry["actor_type"] == "Integration":
        login = f"app {number}"
        yield Asker("app", Actor(Account(0, "", f"{login}[bot]", "Bot"), number), login)
        return
    members = world.teams.get(number, []) if entry["actor_type"] == "Team" else []
    people = [world.logins[login] for login in members]
    if entry["actor_type"] == "User" and number in world.accounts:
        people.append(world.accounts[number])
    for account in people:
        yield Asker(_kind(world, Actor(account), repository), Actor(account), account.login)


def _kind(world: World, actor: Actor, repository: Repository) -> str:
    if owns(world, actor, repository):
        return "organization_admin"
    return "admin" if has_level(world, actor, repository, "admin") else "write"


def _accepts(refuse: Refuse, actor: Actor) -> bool:
    try:
        refuse(actor)
    except Refusal:
        return False
    return True


def _by_github(world: World, repository: Repository, branch: str) -> Iterator[WayIn]:
    """Yield what GitHub merges by itself as soon as a check completes: auto-merge, and the queue."""
    for pull in world.open_into[repository.id, branch].values():
        if is_waiting_to_merge(world, repository, pull):
            yield WayIn("auto_merge", "github", number=pull.number, sha=pull.head_sha)
    for entry in entries_to_merge(world, repository, branch):
        yield WayIn("queue", "github", number=entry.number, sha=entry.head_sha)


def proposals(world: World, repository: Repository, branch: str) -> Iterator[tuple[str | None, PullRequest]]:
    """Yield each pull request that is or could be one into a branch, with the step that it takes first.

    Those that are not there yet are copies, or made up with the number 0.
    """
    if branch not in repository.branches:
        return
    tip = repository.branches[branch]
    proposed = {pull.head_ref for pull in world.open_into[repository.id, branch].values()}
    for pull in repository.pulls.values():
        if pull.state == "open" and pull.base_ref == branch:
            yield (None, pull)
            if pull.draft:
                yield ("ready", replace(pull, draft=False))
        elif not _is_from_branch(repository, pull) or pull.head_ref in {*proposed, branch}:
            continue
        elif pull.state == "open":
            yield ("retarget", replace(pull, base_ref=branch, draft=False))
        elif pull.merged_at is None and pull.base_ref == branch:
            head = repository.branches[pull.head_ref]
            yield ("reopen", replace(pull, state="open", head_sha=head, draft=False))
    for name, sha in repository.branches.items():
        if name not in proposed and sha != tip and not name.startswith(QUEUE_PREFIX):
            made_up = PullRequest(0, "", repository.id, 0, "", 0, name, sha, branch, tip, "", "")
            yield ("open", made_up)


def _is_from_branch(repository: Repository, pull: PullRequest) -> bool:
    """True if the head is a branch of the repository itself."""
    return pull.fork_id is None and pull.head_ref in repository.branches


def _by_pull_request(world: World, repository: Repository, branch: str) -> Iterator[Question]:
    """Yield merges, and entries into the queue whose groups would be merged at once."""

    def merge(pull: PullRequest) -> Refuse:
        return lambda actor: refuse_merge(world, actor, repository, pull)

    def enqueue(pull: PullRequest) -> Refuse:
        return lambda actor: refuse_enqueuing(world, actor, repository, pull)

    passes = state_of_commit(world, repository, branch, INVENTED) == "passes"
    for first, pull in proposals(world, repository, branch):
        head = None if pull.number else pull.head_ref
        way = WayIn("merge", "", number=pull.number or None, sha=pull.head_sha, other=head, first=first)
        yield way, merge(pull)
        if passes:
            yield replace(way, way="queue"), enqueue(pull)


def commits_asked(world: World, repository: Repository) -> list[str]:
    """List the commits that one could push: heads of pull requests, tips, groups of queues, and an invented one."""
    heads = [pull.head_sha for pull in repository.pulls.values()]
    groups = [sha for number, sha in world.groups if number == repository.id]
    return list(dict.fromkeys([*heads, *repository.branches.values(), *groups, INVENTED]))


def _by_push(world: World, repository: Repository, branch: str) -> Iterator[Question]:
    """Yield pushes of each commit to a branch that exists; the invented one could be on top of it, or elsewhere."""
    tip = repository.branches.get(branch)
    if tip is None:
        return

    def push(sha: str, *, forced: bool) -> Refuse:
        return lambda actor: refuse_push(world, actor, repository, branch, sha, forced=forced)

    for sha in commits_asked(world, repository):
        forced = not descends(repository, sha, tip)
        if sha == INVENTED:
            yield WayIn("push", "", sha=sha), push(sha, forced=False)
        if sha != tip:
            yield WayIn("force_push" if forced else "push", "", sha=sha), push(sha, forced=forced)


def _by_reference(world: World, repository: Repository, branch: str) -> Iterator[Question]:
    """Yield deletion, creation at each commit, and renames away from the name and to it."""
    tip = repository.branches.get(branch)
    first = None if tip is None else "delete"

    def delete(actor: Actor) -> None:
        if tip is not None:
            refuse_deletion(world, actor, repository, branch)

    def create(sha: str) -> Refuse:
        return lambda actor: refuse_creation(world, actor, repository, branch, sha, deleted=True)

    def rename(name: str, new: str) -> Refuse:
        return lambda actor: refuse_rename(world, actor, repository, name, new, deleted=True)

    if tip is not None:
        away = free_name(repository, branch)
        yield WayIn("delete", "", sha=tip), delete
        yield WayIn("rename_away", "", sha=tip, other=away), rename(branch, away)
    for sha in commits_asked(world, repository):
        if sha != tip:
            yield WayIn("create", "", sha=sha, first=first), _both(delete, create(sha))
    for name, sha in repository.branches.items():
        if name != branch and not name.startswith(QUEUE_PREFIX):
            yield WayIn("rename_into", "", sha=sha, other=name, first=first), _both(delete, rename(name, branch))


def _both(first: Refuse, second: Refuse) -> Refuse:
    """Refuse what either refuses."""

    def refuse(actor: Actor) -> None:
        first(actor)
        second(actor)

    return refuse


def free_name(repository: Repository, branch: str) -> str:
    """Return a name that no branch has, which a branch could be renamed to."""
    number = next(number for number in range(1, 1000) if f"{branch}-{number}" not in repository.branches)
    return f"{branch}-{number}"
