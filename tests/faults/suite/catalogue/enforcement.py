"""Rules that people change during a freeze: nothing calls a branch blocked any more that GitHub leaves open."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.faults.suite.catalogue.steps import is_settled
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault
from tests.harness.blocking_surfaces import REPLACING
from tools.fake_github.model.records import Repository
from tools.fake_github.model.rulesets import update_ruleset
from tools.fake_github.model.ways_in import list_ways_in
from tools.fake_github.model.world import Actor

TOLD = 5.0
"""Seconds from a webhook, or from when it can be taken from GitHub's log, until every surface knows (I25)."""
RULES = "graphql query Rules"


class FrozenBranch:
    """A frozen branch of a repository, the rules that hold at GitHub, and what the API says of it."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.freeze = trial.client.freeze()
        wait_until(lambda: is_settled(trial.stack), "the freeze", 30)
        self.number = trial.random.randrange(len(trial.stack.acme.branches))
        self.repository: Repository = trial.stack.acme.repositories[self.number]
        self.wait_until_enforced()

    def set_rules(self, enforcement: str) -> None:
        """Have a person enable or disable every ruleset of the repository at GitHub."""
        world = self._trial.stack.github.world
        with world.lock:
            actor = Actor(self._trial.stack.github.maintainer)
            for ruleset in list(world.rules_of["Repository", self.repository.id].values()):
                update_ruleset(world, actor, ruleset, {"enforcement": enforcement})

    def is_open(self) -> bool:
        """Return whether GitHub would accept a commit now. The branch can be replaced: we may write no rules."""
        world = self._trial.stack.github.world
        with world.lock:
            ways = list_ways_in(world, self.repository, "main", self._trial.stack.github.app_id)
        return any(not way.by_bypass and way.way not in REPLACING for way in ways)

    def wait_until_enforced(self) -> None:
        """Wait until the API says that the freeze is enforced."""
        enforced = partial(self._property, "enforcedAt")
        wait_until(enforced, "a freeze that is enforced", 30, explain=lambda: str(self._property("gaps")))

    def blocked_by(self) -> list[str]:
        """Return the surfaces that call the branch blocked."""
        branch = self._trial.stack.acme.branches[self.number]
        name = f"acme/{self.repository.name}"
        pull = next(iter(self.repository.pulls.values())).number
        shown = self._get(f"/v1/freezes/{self.freeze}")
        found = {
            "enforcedAt": shown["enforcedAt"] is not None,
            "targets": shown["targets"]["blocked"] + shown["targets"]["partly"] == shown["targets"]["total"],
            "freeze state": self._get(f"/v1/freeze-state?repo={name}&branch=main")["enforced"],
            "enforcement": self._get(f"/v1/enforcement/branches/{branch}")["light"] == "green",
            "look-up": self._get(f"/v1/pulls/lookup?ref={name}%23{pull}")["blocking"]["state"] in {"blocked", "partly"},
        }
        return [surface for surface, blocked in found.items() if blocked]

    def _property(self, name: str) -> Any:
        return self._get(f"/v1/freezes/{self.freeze}")[name]

    def _get(self, path: str) -> Any:
        response = self._trial.client.request("GET", path)
        assert response.status_code == 200, (path, response.text)
        return response.json()


@contextmanager
def without_rules(trial: Trial, *, unheard: bool = False) -> Iterator[FrozenBranch]:
    """Freeze, and disable the rules of a repository; at the end they are enabled, and the freeze is enforced again.

    `unheard`: no process of the API runs while they are disabled.
    """
    frozen, stack = FrozenBranch(trial), trial.stack
    if unheard:
        stack.api.kill()
    frozen.set_rules("disabled")
    if unheard:
        stack.github.sender.drain()
        stack.api.start()
        stack.wait_for_api()
    trial.require(frozen.is_open(), "GitHub accepts pushes")
    trial.injected()
    try:
        yield frozen
    finally:
        frozen.set_rules("active")
    frozen.wait_until_enforced()
    trial.require(not frozen.is_open(), "GitHub refuses pushes where the freeze is enforced")


@fault("Rules: people disable those of a frozen branch; 5 s later nothing calls it blocked", quick=False)
def disabled(trial: Trial) -> None:
    with without_rules(trial) as frozen:
        wait_until(lambda: not frozen.blocked_by(), "the truth on every surface", TOLD)


@fault(
    "Rules: people disable those of a frozen branch, which cannot be read; 10 s later nothing calls it blocked",
    quick=False,
)
def unreadable(trial: Trial) -> None:
    refused = trial.stack.github.faults.add("error", RULES, status=503)
    with without_rules(trial) as frozen:
        wait_until(lambda: not frozen.blocked_by(), "the truth on every surface", 2 * TOLD)
        trial.stack.github.faults.clear(refused.id)


@fault(
    "Rules: people disable those of a frozen branch while no API runs; 15 s after it is back nothing calls it blocked",
    quick=False,
)
def unheard(trial: Trial) -> None:
    with without_rules(trial, unheard=True) as frozen:
        wait_until(lambda: not frozen.blocked_by(), "the truth on every surface", 15)
