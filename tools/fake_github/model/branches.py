"""Commits and branches: creating, pushing, deleting, and what follows for pull requests."""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

from tools.fake_github.model import pulls
from tools.fake_github.model.identifiers import digest, node_id
from tools.fake_github.model.protection import deletion_violations, push_violations, refuse
from tools.fake_github.model.records import Activity, Commit, Repository
from tools.fake_github.model.refusals import Refusal, invalid_request
from tools.fake_github.model.roles import refuse_changes
from tools.fake_github.model.world import Actor, Event, World

ZERO = "0" * 40
REFS = "https://docs.github.com/rest/git/refs"
FORBIDDEN_NAME = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(/|$)|^[/.-]|[/.]$|/\.")


def refuse_when_archived(repository: Repository) -> None:
    """Refuse a change to an archived repository."""
    if repository.archived:
        raise Refusal(403, "Repository was archived so is read-only.")


def make_commit(
    world: World,
    repository: Repository,
    author_id: int,
    message: str,
    parents: list[str],
    files: dict[str, str | None] | None = None,
) -> Commit:
    """Add a commit; it is on no branch yet."""
    sha = digest(repository.id, world.next_id(), message, *parents)
    commit = Commit(sha, parents, message, author_id, world.now(), files or {})
    repository.commits[sha] = commit
    return commit


def require_commit(repository: Repository, sha: object) -> str:
    """Check that a commit is there."""
    if not isinstance(sha, str) or sha not in repository.commits:
        raise Refusal(422, "Object does not exist", documentation=REFS)
    return sha


def descends(repository: Repository, sha: str, ancestor: str) -> bool:
    """Return whether a commit has another among its ancestors (or is it)."""
    waiting, seen = [sha], set()
    while waiting:
        current = waiting.pop()
        if current == ancestor:
            return True
        if current not in seen and current in repository.commits:
            seen.add(current)
            waiting.extend(repository.commits[current].parents)
    return False


def create_branch(world: World, actor: Actor, repository: Repository, name: str, sha: str) -> None:
    """Create a branch at a commit."""
    refuse_creation(world, actor, repository, name, sha)
    repository.branches[name] = sha
    world.emit(Event("create", None, actor.account, repository, {"branch": name}))
    announce_push(world, actor, repository, name, (ZERO, sha), "branch_creation")


def refuse_creation(
    world: World, actor: Actor, repository: Repository, name: str, sha: str, *, deleted: bool = False
) -> None:
    """Raise what GitHub answers if a branch cannot be created at a commit now; `deleted`: if it were gone."""
    refuse_changes(world, actor, repository)
    if FORBIDDEN_NAME.search(name) or not name:
        raise Refusal(422, f"refs/heads/{name} is not a valid ref name.", documentation=REFS)
    if name in repository.branches and not deleted:
        raise Refusal(422, "Reference already exists", documentation=f"{REFS}#create-a-reference")
    refuse(push_violations(world, actor, repository, name, sha, creating=True), 422, f"{REFS}#create-a-reference")


def push(
    world: World,
    actor: Actor,
    repository: Repository,
    name: str,
    sha: str,
    *,
    force: bool = False,
    refused_with: int = 422,
) -> None:
    """Move a branch to a commit, as a direct push does."""
    refuse_when_archived(repository)
    forced = not descends(repository, sha, repository.branches.get(name, sha))
    if forced and not force:
        raise Refusal(422, "Update is not a fast forward", documentation=f"{REFS}#update-a-reference")
    refuse_push(world, actor, repository, name, sha, forced=forced, refused_with=refused_with)
    move(world, actor, repository, name, sha, "force_push" if forced else "push")


def refuse_push(
    world: World,
    actor: Actor,
    repository: Repository,
    name: str,
    sha: str,
    *,
    forced: bool = False,
    refused_with: int = 422,
) -> None:
    """Raise what GitHub answers if a branch cannot be moved to a commit now; `forced`: away from its history."""
    refuse_changes(world, actor, repository)
    if name not in repository.branches:
        raise Refusal(422, "Reference does not exist", documentation=f"{REFS}#update-a-reference")
    violations = push_violations(world, actor, repository, name, sha, forced=forced)
    refuse(violations, refused_with, f"{REFS}#update-a-reference")


def move(world: World, actor: Actor, repository: Repository, name: str, sha: str, how: str) -> None:
    """Move a branch without asking the rules, and update the pull requests from it; `how` as in `Activity`."""
    before = repository.branches.get(name, ZERO)
    if before == sha:
        return
    repository.branches[name] = sha
    repository.pushed_at = world.now()
    announce_push(world, actor, repository, name, (before, sha), how)
    if how == "force_push":
        for pull in world.open_into[repository.id, name].values():
            pulls.note(world, actor, pull, "BaseRefForcePushedEvent")
    for pull in list(world.open_from[repository.id, name].values()):
        target = world.repositories[pull.repository_id]
        bring(target, repository, sha)
        if how == "force_push":
            pulls.note(world, actor, pull, "HeadRefForcePushedEvent")
        pulls.synchronize(world, actor, target, pull, sha)


def bring(target: Repository, fork: Repository, sha: str) -> None:
    """Bring a commit of a fork, and those behind it, into the repository that it is proposed to."""
    waiting = [sha]
    while waiting:
        current = waiting.pop()
        if current not in target.commits:
            target.commits[current] = fork.commits[current]
            waiting.extend(fork.commits[current].parents)


def delete_branch(world: World, actor: Actor, repository: Repository, name: str) -> None:
    """Delete a branch; pull requests from it or into it are closed."""
    refuse_deletion(world, actor, repository, name)
    before = repository.branches.pop(name)
    world.emit(Event("delete", None, actor.account, repository, {"branch": name}))
    announce_push(world, actor, repository, name, (before, ZERO), "branch_deletion")
    for index in (world.open_from, world.open_into):
        for pull in list(index[repository.id, name].values()):
            pulls.close(world, actor, world.repositories[pull.repository_id], pull)


def refuse_deletion(world: World, actor: Actor, repository: Repository, name: str) -> None:
    """Raise what GitHub answers if a branch cannot be deleted now."""
    refuse_changes(world, actor, repository)
    if name not in repository.branches:
        raise Refusal(422, "Reference does not exist", documentation=f"{REFS}#delete-a-reference")
    if name == repository.default_branch:  # GitHub documents that it cannot be deleted, not the words
        raise Refusal(422, "Cannot delete the default branch", documentation=f"{REFS}#delete-a-reference")
    refuse(deletion_violations(world, actor, repository, name), 422, f"{REFS}#delete-a-reference")


def file_at(repository: Repository, sha: str, path: str) -> str | None:
    """Return the base64 content of a file at a commit, along first parents; None when there is none."""
    current: str | None = sha
    while current is not None and current in repository.commits:
        commit = repository.commits[current]
        if path in commit.files:
            return commit.files[path]
        current = commit.parents[0] if commit.parents else None
    return None


def blob_sha(content: str) -> str:
    """Git's own id of a file's content, given in base64."""
    raw = base64.b64decode(content)
    return hashlib.sha1(b"blob %d\0%b" % (len(raw), raw), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file to write: its base64 content, and the blob id of the content it replaces."""

    path: str
    content: str
    message: str
    sha: str | None = None


def put_file(
    world: World, actor: Actor, repository: Repository, branch: str, change: FileChange
) -> tuple[Commit, bool]:
    """Write a file with a commit on a branch. Returns the commit and whether the file is new."""
    refuse_when_archived(repository)
    tip = repository.branches.get(branch)
    if tip is None:
        raise Refusal(404, f"Branch {branch} not found")
    try:
        base64.b64decode(change.content, validate=False)
    except binascii.Error as error:
        raise Refusal(422, "content is not valid Base64") from error
    present = file_at(repository, tip, change.path)
    if present is not None and change.sha is None:
        raise invalid_request('"sha" wasn\'t supplied.')
    if present is not None and change.sha != blob_sha(present):
        raise Refusal(409, f"{change.path} does not match {change.sha}")
    files: dict[str, str | None] = {change.path: change.content}
    commit = make_commit(world, repository, actor.account.id, change.message, [tip], files)
    try:
        push(world, actor, repository, branch, commit.sha, refused_with=409)
    except Refusal:
        del repository.commits[commit.sha]
        raise
    return commit, present is None


def announce_push(
    world: World, actor: Actor, repository: Repository, branch: str, moved: tuple[str, str], how: str
) -> None:
    """Announce that a branch points elsewhere (`moved`: from a commit to a commit), and put it into the activity."""
    (before, after), number = moved, world.next_id()
    found = Activity(number, node_id("ACT", number), branch, before, after, world.now(), how, actor.account.id)
    repository.activities.append(found)
    facts = {"branch": branch, "before": before, "after": after, "forced": how == "force_push"}
    world.emit(Event("push", None, actor.account, repository, facts))
