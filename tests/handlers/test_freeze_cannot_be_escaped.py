"""Nothing but its end removes a branch from a freeze (I14), whatever else is done, and in whatever order."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import httpx
import pytest
from sqlalchemy import text

from models.freezes import Freeze
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.callers import EVERYTHING, Caller, Tenant, refusal
from tests.harness.concurrency import at_once
from tests.harness.random_seed import chosen_seed


@dataclass(frozen=True, slots=True)
class Frozen:
    """A frozen branch, and everything that a person can do with it."""

    acme: Tenant
    repository: Repository
    branch: WatchedBranch
    freeze: Freeze

    def change(self, **columns: object) -> None:
        """Change the repository, as a sync would."""
        for name, value in columns.items():
            setattr(self.repository, name, value)
        self.acme.session.flush()

    def lose_plan(self) -> None:
        change_plan(self.acme.session, self.acme.organization, "free")
        self.acme.session.flush()

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        return self.acme.key().send(method, path, **({} if body is None else {"json": body}))

    def set_globs(self, globs: list[str]) -> None:
        answer = self.call("PATCH", f"/v1/repos/{self.repository.id}", {"settings": {"autoWatch": globs}})
        assert answer.status_code == 200


@pytest.fixture
def frozen(acme: Tenant) -> Frozen:
    web = acme.repository("web", "release/1", auto_watch=["release/*"])
    branch = factories.branch(acme.session, web, "release/1")
    scope = {"type": "glob", "patterns": ["acme/w*"], "branches": ["release/*"]}
    freeze = factories.freeze(acme.session, acme.organization, [branch], scope=scope)
    return Frozen(acme, web, branch, freeze)


WAYS: dict[str, Callable[[Frozen], object]] = {
    "disabling": lambda it: refusal(
        it.call("POST", "/v1/repos/disable", {"repositories": [it.repository.id]}), 409, "already_frozen"
    ),
    "ceasing to watch": lambda it: refusal(it.call("DELETE", f"/v1/branches/{it.branch.id}"), 409, "already_frozen"),
    "no globs": lambda it: it.set_globs([]),
    "other globs": lambda it: it.set_globs(["**", "!release/1"]),
    "renaming out of the pattern": lambda it: it.change(name="site"),
    "transferring": lambda it: it.change(owner="globex"),
    "archiving": lambda it: it.change(archived=True),
    "losing coverage": lambda it: it.change(removed_at=factories.now()),
    "another default branch": lambda it: it.change(default_branch="trunk"),
    "losing the plan": Frozen.lose_plan,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_frozen_branch_stays_frozen_after_every_other_operation(
    frozen: Frozen, way: Callable[[Frozen], object]
) -> None:
    way(frozen)
    targets = frozen.call("GET", f"/v1/freezes/{frozen.freeze.id}/targets").json()["data"]
    assert [(target["branchId"], target["operation"]) for target in targets] == [(frozen.branch.id, "apply")]
    shown = frozen.call("GET", f"/v1/branches/{frozen.branch.id}").json()
    assert shown["freezeIds"] == [frozen.freeze.id]
    assert frozen.call("POST", f"/v1/freezes/{frozen.freeze.id}/lift").status_code == 200


SLIPPED = """
    SELECT b.name FROM freeze_targets t
    JOIN freezes f ON f.id = t.freeze_id AND f.ended_at IS NULL
    JOIN watched_branches b ON b.id = t.branch_id
    JOIN repositories r ON r.id = b.repository_id
    WHERE t.operation = 'apply' AND (b.unwatched_at IS NOT NULL OR NOT r.enabled)
"""
MISSED = """
    SELECT b.name FROM watched_branches b
    JOIN repositories r ON r.id = b.repository_id AND r.enabled
    JOIN freezes f ON f.ended_at IS NULL
    WHERE b.unwatched_at IS NULL
      AND NOT EXISTS (SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.branch_id = b.id)
"""


def do_something(key: Caller, repositories: list[str], chance: random.Random) -> int:
    """Do one thing by chance; returns the status."""
    one, some = chance.choice(repositories), chance.sample(repositories, 2)
    watched = [row["id"] for row in key.get("/v1/branches").json()["data"]] or ["wbr_none"]
    globs = chance.choice([[], ["release/*"], ["b*"]])
    deeds: list[Callable[[], httpx.Response]] = [
        lambda: key.post("/v1/freezes", EVERYTHING),
        lambda: key.post("/v1/freezes/lift", {"scope": {"type": "organization"}}),
        lambda: key.post("/v1/repos/disable", {"repositories": some}),
        lambda: key.post("/v1/repos/enable", {"repositories": some}),
        lambda: key.post(f"/v1/repos/{one}/branches", {"name": f"b{chance.randrange(4)}"}),
        lambda: key.delete(f"/v1/branches/{chance.choice(watched)}"),
        lambda: key.patch(f"/v1/repos/{one}", {"settings": {"autoWatch": globs}}),
    ]
    return chance.choice(deeds)().status_code


@pytest.mark.slow(7)
def test_concurrent_operations_never_leave_a_branch_outside_a_freeze(acme: Tenant) -> None:
    seed = chosen_seed()
    rows = [acme.repository(f"r{number}", "release/1") for number in range(4)]
    for row in rows:
        factories.branch(acme.session, row)
    key, repositories = acme.key(), [row.id for row in rows]

    def person(number: int) -> set[int]:
        chance = random.Random(seed + number)
        return {do_something(key, repositories, chance) for _ in range(20)}

    statuses = set().union(*at_once(*[partial(person, number) for number in range(6)]))
    assert statuses <= {200, 201, 204, 404, 409, 422}
    assert acme.session.execute(text(SLIPPED)).all() == []
    assert acme.session.execute(text(MISSED)).all() == []
