"""Freezes that overlap, in every order (I6); and heads that come back (I3)."""

import itertools
import threading
from collections.abc import Callable, Sequence

from tests.faults.suite.catalogue.steps import is_settled
from tests.faults.suite.processes import wait_until
from tests.faults.suite.stack import Stack
from tests.faults.suite.trial import Trial, fault
from tools.fake_github.model import pulls
from tools.fake_github.model.world import Actor

STEPS = ("freeze A", "freeze B", "lift A", "lift B")
ORDERS = [
    order
    for order in itertools.permutations(STEPS)
    if order.index("freeze A") < order.index("lift A") and order.index("freeze B") < order.index("lift B")
]


@fault("Two freezes and two lifts of a branch in every order: lifting one never lifts the other", load=False)
def every_order(trial: Trial) -> None:
    stack = trial.stack
    lanes = [_Lane(trial, name, order) for name, order in zip(stack.acme.names, ORDERS, strict=False)]
    assert len(lanes) == len(ORDERS)
    for step in range(len(STEPS)):
        for lane in lanes:
            lane.take(step)
        wait_until(lambda: is_settled(stack), f"step {step + 1}", 30)
        for lane in lanes:
            lane.check(step)
    trial.injected()


class _Lane:
    """A repository in which one order is tried."""

    def __init__(self, trial: Trial, repository: str, order: Sequence[str]) -> None:
        self.trial, self.repository, self.order = trial, repository, order
        self.running: dict[str, str] = {}

    def take(self, step: int) -> None:
        """Take one step over HTTP."""
        action, which = self.order[step].split()
        branch = {"type": "branch", "repository": self.repository, "branch": "main"}
        scope = branch if which == "A" else {"type": "repositories", "repositories": [self.repository]}
        if action == "freeze":
            self.running[which] = self.trial.client.freeze(scope)
        else:
            self.trial.client.lift(self.running.pop(which))

    def check(self, step: int) -> None:
        """Require every read to agree with what runs."""
        ask = self.trial.client.request
        frozen = set(self.running.values())
        state = ask("GET", f"/v1/freeze-state?repo={self.repository}&branch=main").json()
        pull = ask("GET", f"/v1/pulls/lookup?ref={self.repository}%231").json()
        listed = ask("GET", "/v1/freezes?state=in_force&limit=100").json()["data"]
        where = f"{self.repository} after {' → '.join(self.order[: step + 1])}"
        self.trial.require(state["frozen"] is bool(frozen), f"freeze-state of {where}")
        self.trial.require({one["id"] for one in state["freezes"]} == frozen, f"freezes of {where}")
        self.trial.require((pull["verdict"] == "blocked") is bool(frozen), f"the pull request of {where}: {pull}")
        self.trial.require(frozen <= {one["id"] for one in listed}, f"the list of freezes at {where}")


@fault("Freezes and lifts of the same branches race each other")
def racing(trial: Trial) -> None:
    answered: list[str] = []

    def freeze_and_lift(name: str) -> None:
        scope = {"type": "repositories", "repositories": [name, trial.stack.acme.names[0]]}
        for _ in range(3):
            trial.client.lift(trial.client.freeze(scope))
        trial.client.freeze(scope)
        answered.append(name)

    threads = [
        threading.Thread(target=freeze_and_lift, args=(name,), daemon=True) for name in trial.stack.acme.names[1:5]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    trial.injected()
    trial.require(len(answered) == len(threads), "every client was answered")


@fault("A green pull request is closed, webhooks are dropped, all is frozen, and it is reopened: it cannot be merged")
def reopened_without_webhook(trial: Trial) -> None:
    stack = trial.stack
    repository, pull = trial.people.open_pulls()[0]
    stack.github.faults.add("webhook_drop", f"webhook pull_request.closed {stack.github.world.full_name(repository)}")
    stack.github.faults.add("webhook_drop", f"webhook pull_request.reopened {stack.github.world.full_name(repository)}")
    _act(stack, lambda actor: pulls.close(stack.github.world, actor, repository, pull))
    trial.client.freeze()
    wait_until(lambda: is_settled(stack), "the freeze", 60)
    _act(stack, lambda actor: pulls.reopen(stack.github.world, actor, repository, pull))
    trial.injected()
    with stack.github.world.lock:
        run = stack.github.world.newest_run(repository.id, pull.head_sha, "change-freeze/main", stack.github.app_id)
    trial.require(run is not None and run.conclusion == "failure", "the reopened head is red at once")


def _act(stack: Stack, what: Callable[[Actor], object]) -> None:
    """Do something at GitHub as a person who may do everything."""
    with stack.github.world.lock:
        what(Actor(stack.github.maintainer))
