"""A GitHub that fails, is slow, loses answers, or denies: tried again with patience, and never written twice."""

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from integrations.github import CALL_DEADLINE_SECONDS
from tests.faults.suite.catalogue.steps import catch_at_a_freeze, is_settled
from tests.faults.suite.judge import is_busy
from tests.faults.suite.processes import wait_until
from tests.faults.suite.stack import Stack
from tests.faults.suite.trial import Trial, fault
from tools.fake_github.model import installations
from tools.fake_github.model.records import Installation
from tools.fake_github.model.world import Actor

WRITES = "createCheckRun"
DEADLINE = CALL_DEADLINE_SECONDS
"""Seconds that one call to GitHub may take (`integrations/github/settings.py`)."""
PATIENCE = 300.0
"""Seconds of stored time that make every retry due."""


def failed_targets(trial: Trial, freeze: str) -> list[dict[str, Any]]:
    """Return the targets that the API shows as failed."""
    answer = trial.client.request("GET", f"/v1/freezes/{freeze}/targets?state=failed&limit=100")
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def counts(trial: Trial, freeze: str) -> dict[str, int]:
    """Return how many targets the API shows in each state."""
    found: dict[str, int] = trial.client.request("GET", f"/v1/freezes/{freeze}").json()["targets"]
    return found


def fail_all(trial: Trial) -> str:
    """Freeze `acme`, and wait until every target has failed."""
    freeze = trial.client.freeze()
    total = len(trial.stack.acme.branches)
    wait_until(lambda: counts(trial, freeze)["failed"] == total, "the failure of every target", 30)
    return freeze


def verdicts(trial: Trial) -> Counter[tuple[str, str]]:
    """Count how often each head of `acme` was given each verdict."""
    ours = {repository.id for repository in trial.stack.acme.repositories}
    with trial.stack.github.world.lock:
        return Counter(
            (f"{write['repositoryId']}@{write['headSha']}", str(write["conclusion"]))
            for write in trial.stack.github.calls.writes
            if write["repositoryId"] in ours
        )


def installation(trial: Trial) -> Installation:
    """Return the App's installation in `acme`, at GitHub."""
    return trial.stack.github.world.installations[trial.stack.acme.installation_id]


@fault("The code host answers every write with 500, 502 or 503: tried again later and later, spread out", load=False)
def answers_errors(trial: Trial) -> None:
    stack = trial.stack
    stack.github.faults.add("error", WRITES, status=trial.random.choice([500, 502, 503]))
    began = time.monotonic()
    freeze = fail_all(trial)
    for target in failed_targets(trial, freeze):
        code, again = target["lastError"]["code"], target["nextAttemptAt"]
        trial.require(code == "github_unavailable", f"a target names {code}")
        trial.require(again and datetime.fromisoformat(again) > datetime(2026, 1, 1, tzinfo=UTC), "the next attempt")
    # A branch that was to be read back besides is due at once, and counts from the next failure on.
    wait_until(lambda: _next_attempts(stack) > len(stack.acme.branches) / 2, "different times of the next attempts", 10)
    wait_until(lambda: _most_attempts(trial) >= 3, "three attempts", 30)
    seconds = time.monotonic() - began
    allowed = next(number for number in range(2, 40) if seconds < 2 ** (number - 1))  # 1 + 2 + 4 + … seconds at least
    trial.require(_most_attempts(trial) <= allowed + 1, f"{_most_attempts(trial)} attempts in {seconds:.1f} s")
    stack.github.faults.clear()
    trial.injected()
    stack.skip(PATIENCE)


def _next_attempts(stack: Stack) -> int:
    """Return at how many different times branches are tried again that have failed."""
    [[moments]] = stack.sql("SELECT count(DISTINCT due_at) FROM checks WHERE attempts > 0")
    return int(moments)


def _most_attempts(trial: Trial) -> int:
    [[most]] = trial.stack.sql("SELECT coalesce(max(attempts), 0) FROM checks")
    return int(most)


@fault("The code host fails one call in three, in any way, while people freeze, lift and push", within=90)
def fails_now_and_then(trial: Trial) -> None:
    stack = trial.stack
    for kind, after in (("error", False), ("error", True), ("disconnect", False), ("disconnect", True)):
        chance = trial.random.randrange(2**32)
        stack.github.faults.add(kind, "", status=502, after=after, probability=0.08, seed=chance)
    stack.github.faults.add("null_check_run", "", probability=0.05, seed=trial.random.randrange(2**32))
    for _ in range(3):
        freeze = trial.client.freeze()
        for _ in range(3):
            trial.people.push_somewhere(trial.random)
        stack.skip(5)
        time.sleep(0.5)
        trial.client.lift(freeze)
    trial.client.freeze()
    stack.github.faults.clear()
    trial.injected()
    stack.skip(PATIENCE)


@fault(
    "Writes take effect and are answered with 502: read back first, nothing is written twice", load=False, kind="error"
)
@fault(
    "Writes take effect and the connection drops: read back first, nothing is written twice",
    load=False,
    kind="disconnect",
)
@fault(
    "Writes take effect and no answer says which check they made: read back, nothing is written twice",
    load=False,
    kind="null_check_run",
)
def answers_are_lost(trial: Trial, kind: str) -> None:
    """Have three writes take effect and their answers be lost; require that nothing is written twice."""
    stack = trial.stack
    # While a write of the fault before may still arrive, a head that was given up is rightly written again.
    wait_until(lambda: not _is_unconfirmed(trial), "reading back what came before", 30)
    before = verdicts(trial)
    lost = stack.github.faults.add(kind, WRITES, count=3, status=502, after=True)
    trial.client.freeze()
    wait_until(lambda: lost.struck >= 3 or (lost.struck and not is_busy(stack)), "the lost answers", 90)
    trial.injected()
    wait_until(lambda: not _is_held(trial), "the end of those calls", 90)
    stack.skip(PATIENCE)
    wait_until(lambda: is_settled(stack), "reading back", 90)
    twice = [head for (head, _verdict), count in (verdicts(trial) - before).items() if count > 1]
    trial.require(not twice, f"{len(twice)} heads got a second check of the same verdict")


def _is_unconfirmed(trial: Trial) -> bool:
    """Return whether GitHub may show something else on a head of `acme` than is recorded."""
    owner = trial.stack.acme.id
    return bool(trial.stack.sql("SELECT 1 FROM head_checks WHERE unconfirmed AND organization_id = %s LIMIT 1", owner))


def _is_held(trial: Trial) -> bool:
    return bool(trial.stack.sql("SELECT 1 FROM checks WHERE lease_token IS NOT NULL LIMIT 1"))


@fault(
    "Writes take effect and their answers never come: given up at the deadline of a call",
    within=90,
    load=False,
    quick=False,
    kind="timeout",
    scope=WRITES,
    after=True,
    lasts=120,
)
@fault(
    "The code host sends a byte now and then: given up at the deadline of a call",
    within=90,
    load=False,
    quick=False,
    kind="slow_body",
    scope="graphql",
    lasts=100,
)
def is_given_up(trial: Trial, kind: str, scope: str, lasts: float, **details: Any) -> None:
    stack = trial.stack
    slow = stack.github.faults.add(kind, scope, count=1, seconds=lasts, **details)
    trial.client.freeze()
    wait_until(lambda: slow.struck, "the slow call", 20)
    began = time.monotonic()
    trial.injected()
    wait_until(lambda: not _is_held(trial), "giving up", DEADLINE + 15)
    took = time.monotonic() - began
    trial.require(DEADLINE - 2 < took < DEADLINE + 5, f"the call was given up after {took:.1f} s")
    stack.skip(PATIENCE)


@fault("The App may no longer write checks: its targets fail with github_permission_denied, without a hot loop")
def denied(trial: Trial) -> None:
    stack = trial.stack
    _allow(trial, "read")
    try:
        freeze = fail_all(trial)
        codes = {target["lastError"]["code"] for target in failed_targets(trial, freeze)}
        trial.require(codes == {"github_permission_denied"}, f"targets name {codes}")
        wait_until(lambda: _may_check(trial) == "read", "the webhook of the permission", 30)  # then all is tried once
        wait_until(lambda: not is_busy(stack, stack.acme), "that one try", 30)
        tried = _attempts_of_acme(trial)
        time.sleep(3)
        trial.require(_attempts_of_acme(trial) <= tried, "there is no immediate retry")
    finally:
        _allow(trial, "write")  # the faults that follow need it
    trial.injected()
    wait_until(lambda: counts(trial, freeze)["applied"] == len(stack.acme.branches), "using the permission", 30)


def _may_check(trial: Trial) -> str:
    query = "SELECT permissions->>'checks' FROM installations WHERE id = %s"
    [[level]] = trial.stack.sql(query, trial.stack.acme.installation_id)
    return str(level)


def _attempts_of_acme(trial: Trial) -> int:
    rows = trial.stack.sql("SELECT sum(attempts) FROM freeze_targets WHERE branch_id = ANY(%s)", _branches(trial))
    return int(rows[0][0] or 0)


def _branches(trial: Trial) -> list[str]:
    return list(trial.stack.acme.branches)


def _allow(trial: Trial, level: str) -> None:
    """Set what the App may do with checks; its tokens end with what they were granted."""
    stack, found = trial.stack, installation(trial)
    with stack.github.world.lock:
        permissions = {**found.permissions, "checks": level}
        installations.accept_permissions(stack.github.world, Actor(stack.github.maintainer), found, permissions)
        if level == "read":
            stack.github.credentials.revoke(found.id)


@fault("The installation's tokens are refused (401) in mid fan-out: new ones are bought, and it goes on")
def tokens_refused(trial: Trial) -> None:
    stack = trial.stack
    _reconciler, trap = catch_at_a_freeze(trial)
    stack.github.credentials.revoke(stack.acme.installation_id)
    trial.injected()
    trap.release()


@fault("Repositories are hidden from the App in mid-freeze and shown again: parked, and freed when they are back")
def hidden(trial: Trial) -> None:
    stack, freeze = trial.stack, trial.client.freeze()
    wait_until(lambda: is_settled(stack), "the freeze", 60)
    _choose(trial, len(stack.acme.repositories) // 2, delivered=False)
    trial.client.lift(freeze)
    half = len(stack.acme.repositories) - len(stack.acme.repositories) // 2
    wait_until(lambda: counts(trial, freeze)["failed"] == half, "parking", 30)
    codes = {target["lastError"]["code"] for target in failed_targets(trial, freeze)}
    trial.require(codes == {"repository_not_found"}, f"targets name {codes}")
    wait_until(lambda: not is_busy(stack, stack.acme), "the first try of all", 30)  # also of those that are still seen
    tried = _attempts_of_acme(trial)
    time.sleep(2)
    trial.require(_attempts_of_acme(trial) == tried, "there is no immediate retry")
    _choose(trial, None, delivered=True)
    trial.injected()


def _choose(trial: Trial, count: int | None, *, delivered: bool) -> None:
    stack = trial.stack
    silence = None if delivered else stack.github.faults.add("webhook_drop", "webhook installation")
    chosen = None if count is None else list(stack.acme.repositories[:count])
    with stack.github.world.lock:
        actor = Actor(stack.github.maintainer)
        installations.choose_repositories(stack.github.world, actor, installation(trial), chosen)
    if silence is not None:
        stack.github.sender.drain(5)
        stack.github.faults.clear(silence.id)


@fault("The installation is suspended in mid-freeze, and works again: it goes on where it stood")
def suspended(trial: Trial) -> None:
    stack, freeze = trial.stack, trial.client.freeze()
    wait_until(lambda: is_settled(stack), "the freeze", 60)
    _suspend(trial, suspended=True)
    wait_until(lambda: _state(trial) == "suspended", "noticing", 20)
    trial.client.lift(freeze)
    time.sleep(1)
    trial.require(counts(trial, freeze)["releasing"] == len(stack.acme.branches), "the release waits")
    _suspend(trial, suspended=False)
    trial.injected()
    wait_until(lambda: _state(trial) == "active", "noticing", 20)


def _suspend(trial: Trial, *, suspended: bool) -> None:
    stack = trial.stack
    with stack.github.world.lock:
        actor = Actor(stack.github.maintainer)
        installations.suspend(stack.github.world, actor, installation(trial), suspended=suspended)


def _state(trial: Trial) -> str:
    [[state]] = trial.stack.sql("SELECT state FROM installations WHERE id = %s", trial.stack.acme.installation_id)
    return str(state)


@fault("The App is uninstalled without a webhook and installed again: its freezes end, and everything is read again")
def uninstalled(trial: Trial) -> None:
    stack, freeze = trial.stack, trial.client.freeze()
    wait_until(lambda: is_settled(stack), "the freeze", 60)
    trial.client.asking_to_lift(freeze)  # from now on its end may come at any moment
    silence = stack.github.faults.add("webhook_drop", "webhook installation")
    world = stack.github.world
    with world.lock:
        installations.uninstall(world, Actor(stack.github.maintainer), installation(trial))
    stack.github.sender.drain(5)
    stack.github.faults.clear(silence.id)
    trial.people.push_somewhere(trial.random)
    stack.sql("UPDATE checks SET due_at = clock_timestamp() WHERE branch_id = %s", stack.acme.branches[0])
    wait_until(lambda: _state(trial) == "removed", "noticing", 20)
    shown = trial.client.request("GET", f"/v1/freezes/{freeze}").json()
    trial.require(shown["endReason"] == "installation_removed", f"the freeze ended by {shown['endReason']}")
    with world.lock:
        number, account = stack.acme.installation_id, world.logins["acme"]
        installations.install(world, Actor(stack.github.maintainer), stack.github.app, account, installation_id=number)
    trial.injected()
    wait_until(lambda: _state(trial) == "active", "noticing", 20)
