"""What every surface says of frozen branches, and what the simulated GitHub would accept: the two are compared."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from sqlalchemy import select, text

from models.due_windows import branches_of_due
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.queries import covering_freezes
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import Principal
from services.core.read_context import ReadContext
from services.core.unit_of_work import Caller, UnitOfWork
from services.enforcement import views as enforcement_views
from services.freezes import state, targets
from services.freezes import views as freeze_views
from services.overview import alerts
from services.pull_requests import pull_requests
from services.repositories import branches as branch_views
from services.verdicts.blocking import blocking_of_branches
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Harness
from tests.harness.remembered_states import RememberedStates
from tools.fake_github.model.ways_in import WayIn, list_ways_in

REPLACING = frozenset({"delete", "create", "rename_away", "rename_into"})
"""The ways that put another branch in the place of one; by the others a commit enters."""
WAYS_OF_GAPS = {"deletion": REPLACING, "creation": frozenset({"create", "rename_into"})}
"""What GitHub may accept where a branch is said to be partly blocked, by the gap that is named."""
SAYS_BLOCKED = frozenset({"blocked", "partly"})


@dataclass(slots=True)
class Said:
    """What the surfaces say of one frozen branch."""

    states: dict[str, str] = field(default_factory=dict)
    """By surface: `blocked`, `partly`, `not_blocked` or `unknown`."""
    gaps: set[str] = field(default_factory=set)
    heads: dict[int, str] = field(default_factory=dict)
    """By number of a pull request: whether it is said to be blocked."""
    let_in: set[str] = field(default_factory=set)
    """The commits that exceptions are said to let in."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Runs the one statement of a polled read in a unit of work."""

    uow: UnitOfWork

    async def fetch(self, sql: str, parameters: Any = (), organization_id: str | None = None) -> list[dict[str, Any]]:
        names = {f"%({name})s": f":{name}" for name in parameters}
        for name, named in names.items():
            sql = sql.replace(name, named)
        return [dict(row) for row in self.uow.session.execute(text(sql), parameters).mappings()]


@contextmanager
def _unit(harness: Harness) -> Iterator[UnitOfWork]:
    with harness.uow_factory.open(Caller(harness.organization.id, ADA, "dashboard", BUSINESS)) as uow:
        yield uow


def what_is_said(harness: Harness, without: Collection[int] = ()) -> dict[tuple[int, str], Said]:
    """Return what every surface says, by GitHub's id of the repository and name of each branch that is frozen.

    `without`: repositories whose branches are left out.
    """
    with _unit(harness) as uow:
        rows = uow.session.execute(
            select(WatchedBranch, Repository)
            .join(Repository, Repository.id == WatchedBranch.repository_id)
            .where(WatchedBranch.unwatched_at.is_(None), Repository.enabled, Repository.removed_at.is_(None))
        ).all()
        covering = covering_freezes(uow.session, [branch.id for branch, _ in rows], uow.now)
        frozen = {
            branch.id: (repository.github_id, branch)
            for branch, repository in rows
            if branch.id in covering and repository.github_id not in without
        }
        said: dict[str, Said] = {branch_id: Said() for branch_id in frozen}
        _read_branches(uow, said)
        _read_freezes(uow, said, covering)
        _read_polled(uow, said, [branch.id for branch, _ in rows], harness.remembered)
        _read_pull_requests(uow, said, {branch.id: repository for branch, repository in rows})
        return {(github_id, branch.name): said[branch_id] for branch_id, (github_id, branch) in frozen.items()}


def _read_branches(uow: UnitOfWork, said: Mapping[str, Said]) -> None:
    due = branches_of_due(uow.session, uow.organization, uow.now)
    for branch_id, found in blocking_of_branches(uow.session, said.keys(), uow.now, due=due).items():
        said[branch_id].states["facts"] = found.of_branch.state
        said[branch_id].gaps |= set(found.of_branch.gaps)
    for branch_id, one in said.items():
        lights = {
            "light of the branch": branch_views.show(uow, branch_id)["enforcement"].light,
            "light of enforcement": enforcement_views.show(uow, branch_id)["light"],
        }
        for surface, light in lights.items():
            one.states[surface] = {"green": "blocked", "red": "not_blocked"}.get(light, "unknown")


def _read_freezes(uow: UnitOfWork, said: Mapping[str, Said], covering: Mapping[str, Any]) -> None:
    running = uow.session.scalars(select(Freeze).where(Freeze.is_in_force(uow.now))).all()
    for view in freeze_views.views(uow, running):
        counts = view["targets"]
        assert sum(counts[name] for name in ("blocked", "partly", "unprotected", "unknown")) == counts["total"]
        covered = [branch_id for branch_id in said if view["id"] in {each.id for each in covering[branch_id]}]
        for target in targets.list_targets(uow, view["id"], None, None, 100).data:
            if target["branch_id"] in said:
                said[target["branch_id"]].states[f"target of {view['id']}"] = target["blocking"]["state"]
                said[target["branch_id"]].gaps |= set(target["blocking"]["gaps"])
                said[target["branch_id"]].let_in |= {each["head_sha"] for each in target["let_in"]}
        for branch_id in covered:
            if view["blocked_at"] is not None:
                said[branch_id].states[f"blockedAt of {view['id']}"] = "partly"
            if view["enforced_at"] is not None:
                said[branch_id].states[f"enforcedAt of {view['id']}"] = "partly"
            if counts["blocked"] == counts["total"]:
                said[branch_id].states[f"all blocked by {view['id']}"] = "blocked"


def _read_polled(
    uow: UnitOfWork, said: Mapping[str, Said], branch_ids: Iterable[str], remembered: RememberedStates
) -> None:
    """Read the freeze state of every branch, and compare it with what a process would remember."""
    version: str = uow.session.scalar(text("SELECT freeze_version(:id)"), {"id": uow.organization}) or ""
    principal = Principal("session", str(ADA.id), ADA.name, uow.organization)
    context = ReadContext(_Reader(uow), None, principal, uow.now, {})  # type: ignore[arg-type]
    for branch_id in branch_ids:
        computed = asyncio.run(state.get_state(context, None, None, branch_id, None))
        remembered.compare((uow.organization, branch_id), version, uow.now, computed)
        if branch_id in said:
            assert computed[0]["frozen"]
            said[branch_id].states["freeze state"] = "partly" if computed[0]["enforced"] else "not_blocked"
    whole = asyncio.run(state.get_state(context, None, None, None, "current"))
    remembered.compare((uow.organization,), version, uow.now, whole)
    for one in said.values():
        if whole[0]["enforced"]:
            one.states["freeze state of the organisation"] = "partly"


def _read_pull_requests(uow: UnitOfWork, said: Mapping[str, Said], repositories: Mapping[str, Repository]) -> None:
    for branch_id, one in said.items():
        repository = repositories[branch_id]
        base = uow.session.get_one(WatchedBranch, branch_id).name
        numbers = uow.session.scalars(
            select(PullRequest.number).where(
                PullRequest.repository_id == repository.id,
                PullRequest.base_branch == base,
                PullRequest.state == "open",
            )
        )
        for number in numbers:
            shown = pull_requests.lookup(uow, str(number), repository.id)
            if shown["blocking"] is not None:
                one.heads[number] = shown["blocking"]["state"]


def attention(harness: Harness) -> list[tuple[str, str]]:
    """Return type and severity of the items that need attention."""
    with _unit(harness) as uow:
        found = alerts.list_alerts(uow, alerts.AlertFilters(), None, 100).data
        return [(item["type"], item["severity"]) for item in found]


def ways_in(harness: Harness, github_id: int, branch: str, let_in: Collection[str] = ()) -> list[WayIn]:
    """Return what GitHub would accept now on a branch, except of those who bypass its rules.

    `let_in` are heads that exceptions let in: the commits of the merge queue that hold nothing else are left out.
    """
    world = harness.fake_github.world
    with world.lock:
        repository = world.repositories.get(github_id)
        found = list_ways_in(world, repository, branch, harness.fake_github.app_id) if repository else []
        queue = world.queues.get((github_id, branch), []) if repository else []
        heads = [repository.pulls[entry.number].head_sha for entry in queue] if repository else []
    excepted = len(list(takewhile(lambda head: head in let_in, heads)))
    groups = {entry.head_sha for entry in queue[:excepted]}
    return [way for way in found if not way.by_bypass and way.sha not in groups]


def false_claims(said: Said, ways: list[WayIn]) -> dict[str, list[WayIn]]:
    """Return, by surface, what GitHub would accept although the surface says that it is refused."""
    entering = [way for way in ways if way.sha not in said.let_in or way.way in REPLACING]
    allowed = frozenset[str]().union(*(WAYS_OF_GAPS.get(gap, frozenset()) for gap in said.gaps))
    found: dict[str, list[WayIn]] = defaultdict(list)
    for surface, state_said in said.states.items():
        if state_said == "blocked":
            found[surface] += entering
        elif state_said == "partly":
            found[surface] += [way for way in entering if way.way not in allowed]
    for number, state_said in said.heads.items():
        merges = [way for way in entering if way.number == number and way.first is None and way.way == "merge"]
        if state_said in SAYS_BLOCKED:
            found[f"look-up of #{number}"] += merges
    return {surface: wrong for surface, wrong in found.items() if wrong}
