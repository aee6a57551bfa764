"""Random repositories with rules, pull requests and a queue, and what can be tried on copies of them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
from hypothesis import strategies as st

from tests.tools.fake_github.conftest import CHECK
from tools.fake_github import FakeGitHub, persistence
from tools.fake_github.model import branches, checks, classic, merges, pulls, queue
from tools.fake_github.model.installations import register_app
from tools.fake_github.model.reactions import reactions
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.renames import rename_branch
from tools.fake_github.model.rulesets import create_ruleset, delete_ruleset
from tools.fake_github.model.ways_in import INVENTED, Asker, WayIn
from tools.fake_github.model.world import Actor, World
from tools.fake_github.seeding import required_check_rules

BRANCHES = ("main", "next", "release/1")
PATTERNS = ("refs/heads/main", "refs/heads/next", "refs/heads/release/*", "~ALL", "~DEFAULT_BRANCH")
OTHER_APP = 77
TEAM = 12
BYPASSING = (None, "person", "app", "team", "writers", "administrators", "owners", "key")
QUEUE = {
    "check_response_timeout_minutes": 60,
    "grouping_strategy": "ALLGREEN",
    "max_entries_to_build": 5,
    "max_entries_to_merge": 5,
    "merge_method": "MERGE",
    "min_entries_to_merge": 1,
    "min_entries_to_merge_wait_minutes": 5,
}
SIMPLE_RULES = ("creation", "deletion", "update", "non_fast_forward", "pull_request", "merge_queue")


def rules_of(kinds: list[str], *, on_create: bool) -> list[dict[str, Any]]:
    """Return the rules of a ruleset, by their kinds; `checks` requires ours."""
    found: list[dict[str, Any]] = []
    for kind in kinds:
        if kind == "checks":
            found += required_check_rules(CHECK, 1)
            found[-1]["parameters"]["do_not_enforce_on_create"] = not on_create
        elif kind == "merge_queue":
            found.append({"type": kind, "parameters": QUEUE})
        else:
            found.append({"type": kind})
    return found


@st.composite
def rulesets(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a ruleset, with the level that it is of."""
    kinds = draw(st.lists(st.sampled_from(("checks", "checks", *SIMPLE_RULES)), min_size=1, max_size=3, unique=True))
    above = draw(st.booleans()) and "merge_queue" not in kinds
    conditions: dict[str, Any] = {"ref_name": {"include": [draw(st.sampled_from(PATTERNS))], "exclude": []}}
    if above:
        conditions["repository_name"] = {"include": ["~ALL"], "exclude": []}
    return {
        "above": above,
        "enforcement": draw(st.sampled_from(("active", "active", "active", "disabled"))),
        "conditions": conditions,
        "rules": rules_of(kinds, on_create=draw(st.booleans())),
        "bypass": draw(st.sampled_from(BYPASSING)),
        "mode": draw(st.sampled_from(("always", "pull_request", "exempt"))),
    }


pull_requests = st.fixed_dictionaries(
    {
        "base": st.sampled_from(("main", "main", *BRANCHES)),
        "draft": st.sampled_from((False, False, True)),
        "mergeable": st.sampled_from((True, True, True, False, None)),
        "check": st.sampled_from((None, "success", "success", "failure")),
        "autoMerge": st.booleans(),
        "closed": st.sampled_from((False, False, True)),
        "queued": st.booleans(),
        "group": st.sampled_from(("success", "success", None, "failure")),
    }
)
protections = st.none() | st.fixed_dictionaries(
    {"enforce_admins": st.booleans(), "lock_branch": st.booleans(), "checks": st.booleans()}
)
worlds = st.fixed_dictionaries(
    {
        "rulesets": st.lists(rulesets(), max_size=3),
        "required": st.sampled_from((True, True, False)),
        "queue": st.sampled_from((None, "ALLGREEN", "HEADGREEN")),
        "pulls": st.lists(pull_requests, min_size=1, max_size=5),
        "protection": protections,
        "administrators_rename": st.booleans(),
        "archived": st.sampled_from((*[False] * 9, True)),
        "branch": st.sampled_from(("main", "main", *BRANCHES, "release/2")),
    }
)


def build(given: dict[str, Any]) -> tuple[FakeGitHub, Repository]:
    """Make the world that was drawn, without its reactions: what is possible at once has not happened yet."""
    github = FakeGitHub()
    organization = github.organization("acme")
    builder = organization.repository("web", branches=BRANCHES[1:])
    builder.pull_request(base="main")
    organization.account.administrators_rename = given["administrators_rename"]
    organization.team(TEAM, "ada", "bob")
    builder.person("ada", "write")
    builder.person("bob", "read")
    world, actor, repository = github.world, Actor(github.maintainer), builder.record
    with github.quietly():
        for wanted in given["pulls"]:
            details = {name: wanted[name] for name in ("draft", "mergeable", "autoMerge")}
            reported = {CHECK: wanted["check"]} if wanted["check"] else {}
            pull = builder.pull_request(base=wanted["base"], checks=reported, **details)
            if wanted["queued"]:
                _queue_up(github, repository, pull, wanted["group"])
            if wanted["closed"] and not wanted["queued"]:
                pulls.close(world, actor, repository, pull)
        for number, wanted in enumerate(given["rulesets"]):
            _add_ruleset(github, repository, number, wanted)
        if given["required"]:
            builder.requires(CHECK, "**/*")
        if given["queue"]:
            builder.merge_queue("main", given["queue"])
        if given["protection"]:
            _protect(github, repository, given["protection"])
        repository.archived = given["archived"]
    return github, repository


def _report(github: FakeGitHub, repository: Repository, sha: str, name: str, conclusion: str) -> None:
    actor = Actor(github.world.accounts[github.app.bot_id], github.app_id)
    fields = {"name": name, "head_sha": sha, "conclusion": conclusion}
    checks.create_check_run(github.world, actor, github.app_id, repository, fields)


def _queue_up(github: FakeGitHub, repository: Repository, pull: PullRequest, group: str | None) -> None:
    """Put a pull request into the queue of its base, if it can be, by a rule that is there for this moment only."""
    world, actor = github.world, Actor(github.maintainer)
    _report(github, repository, pull.head_sha, "now", "success")
    rules = [*rules_of(["merge_queue"], on_create=False), *required_check_rules("now", None)]
    conditions = {"ref_name": {"include": ["~ALL"], "exclude": []}}
    body = {"name": "Now", "enforcement": "active", "conditions": conditions, "rules": rules}
    made = create_ruleset(world, actor, "Repository", repository.id, body)
    with suppress(Refusal):
        entry = queue.enqueue(world, actor, repository, pull)
        if group:
            _report(github, repository, entry.head_sha or "", CHECK, group)
    delete_ruleset(world, actor, made)


def _add_ruleset(github: FakeGitHub, repository: Repository, number: int, wanted: dict[str, Any]) -> None:
    entry = {
        "person": {"actor_type": "User", "actor_id": github.maintainer.id},
        "app": {"actor_type": "Integration", "actor_id": OTHER_APP},
        "team": {"actor_type": "Team", "actor_id": TEAM},
        "writers": {"actor_type": "RepositoryRole", "actor_id": 4},
        "administrators": {"actor_type": "RepositoryRole", "actor_id": 5},
        "owners": {"actor_type": "OrganizationAdmin", "actor_id": None},
        "key": {"actor_type": "DeployKey", "actor_id": None},
        None: None,
    }[wanted["bypass"]]
    body = {
        "name": f"Rules {number}",
        "enforcement": wanted["enforcement"],
        "conditions": wanted["conditions"],
        "rules": wanted["rules"],
        "bypass_actors": [{**entry, "bypass_mode": wanted["mode"]}] if entry else [],
    }
    level = ("Organization", repository.owner_id) if wanted["above"] else ("Repository", repository.id)
    create_ruleset(github.world, Actor(github.maintainer), *level, body)


def _protect(github: FakeGitHub, repository: Repository, wanted: dict[str, Any]) -> None:
    required = {"strict": False, "contexts": [CHECK]} if wanted["checks"] else None
    body = {
        "required_status_checks": required,
        "required_pull_request_reviews": None,
        "restrictions": None,
        "enforce_admins": wanted["enforce_admins"],
        "lock_branch": wanted["lock_branch"],
    }
    classic.protect(github.world, Actor(github.maintainer), repository, "main", body)


class Copy:
    """A copy of a repository and its world, to try one thing on; everything that follows from it happens."""

    def __init__(self, saved: bytes) -> None:
        self.world = World()
        persistence.restore(self.world, orjson.loads(saved))
        self.world.listeners = [reactions(self.world)]
        self.repository = self.world.repository_named("acme/web")
        self.state = self.world.changes, self.world.last_id

    @property
    def is_changed(self) -> bool:
        """Return whether anything has happened."""
        return self.state != (self.world.changes, self.world.last_id)

    def pull(self, number: int) -> PullRequest:
        """Return a pull request."""
        return self.repository.pulls[number]

    def commit(self, sha: str, *parents: str) -> str:
        """Return the commit; the invented one is made."""
        if sha != INVENTED:
            return sha
        return branches.make_commit(self.world, self.repository, 0, "By hand", list(parents)).sha

    def propose(self, actor: Actor, branch: str, way: WayIn) -> PullRequest:
        """Take the first step, and return the pull request."""
        if way.first == "open":
            head = way.other or ""
            return pulls.open_pull_request(
                self.world, actor, self.repository, pulls.Proposal("Opened now", head, branch)
            )
        pull = self.pull(way.number or 0)
        if way.first == "reopen":
            pulls.reopen(self.world, actor, self.repository, pull)
        elif way.first == "retarget":
            pulls.edit(self.world, actor, self.repository, pull, base=branch)
        if way.first is not None:
            pulls.set_draft(self.world, actor, self.repository, pull, draft=False)
        return pull

    def act(self, actor: Actor, branch: str, way: WayIn) -> bool:
        """Do what a way says; return whether it was accepted."""
        if actor.account.id not in self.world.accounts:
            self.world.index_account(actor.account)
        try:
            return self._act(actor, branch, way)
        except Refusal:
            return False

    def _act(self, actor: Actor, branch: str, way: WayIn) -> bool:
        world, repository = self.world, self.repository
        if way.actor == "github":
            return self._wait(branch, way)
        if way.way in {"merge", "queue"}:
            pull = self.propose(actor, branch, way)
            act = merges.merge if way.way == "merge" else queue.enqueue
            act(world, actor, repository, pull)
            return pull.merged_at is not None
        tip = repository.branches.get(branch, "")
        if way.way in {"push", "force_push"}:
            sha = self.commit(way.sha or "", *([tip] if way.way == "push" else []))
            branches.push(world, actor, repository, branch, sha, force=way.way == "force_push")
        elif way.way == "rename_away":
            rename_branch(world, actor, repository, branch, way.other or "")
        if way.first == "delete" or way.way == "delete":
            branches.delete_branch(world, actor, repository, branch)
        if way.way == "create":
            branches.create_branch(world, actor, repository, branch, self.commit(way.sha or ""))
        elif way.way == "rename_into":
            rename_branch(world, actor, repository, way.other or "", branch)
        return True

    def _wait(self, branch: str, way: WayIn) -> bool:
        """Let GitHub look again, as it does when a check completes that nothing requires."""
        if self.repository.archived:
            return False
        if way.way == "queue":
            queue.advance(self.world, self.repository, branch)
        else:
            other = register_app(self.world, OTHER_APP, "other", None)
            actor = Actor(self.world.accounts[other.bot_id], other.id)
            fields = {"name": "lint", "head_sha": way.sha, "conclusion": "success"}
            checks.create_check_run(self.world, actor, other.id, self.repository, fields)
        return self.pull(way.number or 0).merged_at is not None


def everything(repository: Repository, branch: str, asker: Asker) -> Iterator[WayIn]:
    """Yield all that one could try with a branch, whether it is accepted or not."""
    whole = WayIn("", asker.kind, asker.login)
    for way in ("merge", "queue"):
        for pull in repository.pulls.values():
            yield from _with_pull(replace(whole, way=way, number=pull.number, sha=pull.head_sha), repository, branch)
        for name, sha in _other_branches(repository, branch):
            yield replace(whole, way=way, sha=sha, other=name, first="open")
    tip = repository.branches.get(branch)
    first = None if tip is None else "delete"
    for sha in {*repository.commits, INVENTED} - {tip}:
        if sha == INVENTED or (tip is not None and branches.descends(repository, sha, tip)):
            yield replace(whole, way="push", sha=sha)
        if sha == INVENTED or (tip is not None and not branches.descends(repository, sha, tip)):
            yield replace(whole, way="force_push", sha=sha)
        yield replace(whole, way="create", sha=sha, first=first)
    yield replace(whole, way="delete", sha=tip)
    yield replace(whole, way="rename_away", sha=tip, other=f"{branch}-1")
    for name, sha in _other_branches(repository, branch):
        yield replace(whole, way="rename_into", sha=sha, other=name, first=first)


def _other_branches(repository: Repository, branch: str) -> list[tuple[str, str]]:
    return [
        (name, sha)
        for name, sha in repository.branches.items()
        if name != branch and not name.startswith("gh-readonly-queue/")
    ]


def _with_pull(way: WayIn, repository: Repository, branch: str) -> Iterator[WayIn]:
    pull = repository.pulls[way.number or 0]
    if pull.base_ref != branch:
        yield replace(way, first="retarget")
    elif pull.state == "closed":
        yield replace(way, sha=repository.branches.get(pull.head_ref), first="reopen")
    else:
        yield way
        if pull.draft:
            yield replace(way, first="ready")


def by_github(world: World, repository: Repository, branch: str) -> Iterator[WayIn]:
    """Yield all that GitHub could merge by itself."""
    for pull in repository.pulls.values():
        if pull.base_ref == branch and pull.auto_merge:
            yield WayIn("auto_merge", "github", number=pull.number, sha=pull.head_sha)
    for entry in world.queues.get((repository.id, branch), []):
        yield WayIn("queue", "github", number=entry.number, sha=entry.head_sha)
