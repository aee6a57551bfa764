"""Stops of freezes: they hold while checks cannot be written, and none stays on that is not needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rules.freezes.check_names import is_stop
from rules.rulesets.frozen_branches import NAME
from tests.faults.suite.catalogue.steps import LEASE, first_caught, is_settled, kill_and_restart, trap_reconcilers
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault
from tools.fake_github.model.installations import PERMISSIONS, accept_permissions
from tools.fake_github.model.records import Ruleset
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset
from tools.fake_github.model.world import Actor

CHECKS, RULESETS = "createCheckRun", "Rulesets"
ENDED = 60.0
"""Seconds in which a stop is off that is not needed any more."""
EFFECTIVE = 45.0
"""Seconds in which a stop counts: GitHub may take 20 to enforce a ruleset."""
_UNREAD = """
    SELECT FROM watched_branches b LEFT JOIN branch_enforcement e ON e.branch_id = b.id
    WHERE b.organization_id = %s AND b.unwatched_at IS NULL AND e.decisive_check IS NULL
"""
_AUTHORIZE = """
    UPDATE repositories SET rulesets_authorized_by = %s, rulesets_authorized_at = clock_timestamp()
    WHERE organization_id = %s
"""


def our_rulesets(trial: Trial) -> list[Ruleset]:
    """Return the rulesets of frozen branches of `acme`: those of its repositories, or its own for stops."""
    ids = {repository.id for repository in trial.stack.acme.repositories}
    with trial.stack.github.world.lock:
        known = list(trial.stack.github.world.rulesets.values())
        account = trial.stack.github.world.logins["acme"].id
    ours = [each for each in known if each.name.startswith(NAME)]
    return [each for each in ours if each.source_id in (ids if each.source_type == "Repository" else {account})]


def stopped(trial: Trial) -> int:
    """Return in how many repositories of `acme` rulesets require a stop."""
    found: set[int] = set()
    for each in our_rulesets(trial):
        if each.enforcement == "active" and _requires_a_stop(each):
            above = each.conditions.get("repository_id", {"repository_ids": [each.source_id]})
            found |= set(above["repository_ids"])
    return len(found)


def stops_above(trial: Trial) -> int:
    """Return how many rulesets of the organisation require a stop."""
    active = [each for each in our_rulesets(trial) if each.enforcement == "active" and _requires_a_stop(each)]
    return sum(each.source_type == "Organization" for each in active)


def _requires_a_stop(ruleset: Ruleset) -> bool:
    required = [rule["parameters"] for rule in ruleset.rules if rule["type"] == "required_status_checks"]
    return any(is_stop(check["context"]) for each in required for check in each["required_status_checks"])


@contextmanager
def rulesets_authorized(trial: Trial, *, above: bool = False) -> Iterator[None]:
    """Let the service write rulesets of repositories of `acme`, and its own if `above`; at the end no stop is on."""
    stack = trial.stack
    installation = stack.github.world.installations[stack.acme.installation_id]
    before = dict(installation.permissions)
    kept = {name: level for name, level in before.items() if above or name != "organization_administration"}
    _permit(trial, kept)
    wait_until(lambda: not stack.sql(_UNREAD, stack.acme.id), "rules that were read", 60)
    stack.sql(_AUTHORIZE, "root", stack.acme.id)
    try:
        yield
        wait_until(lambda: stopped(trial) == 0, "the end of every stop", ENDED)
        wait_until(lambda: is_settled(stack), "the checks", 90)
    finally:
        stack.sql("UPDATE repositories SET rulesets_authorized_at = NULL WHERE organization_id = %s", stack.acme.id)
        _permit(trial, before)


def _permit(trial: Trial, permissions: dict[str, str]) -> None:
    """Have the owner accept these permissions, and wait until we know of them."""
    stack, known = trial.stack, "SELECT permissions FROM installations WHERE id = %s"
    installation = stack.github.world.installations[stack.acme.installation_id]
    with stack.github.world.lock:
        accept_permissions(stack.github.world, Actor(stack.github.maintainer), installation, permissions)
    wait_until(lambda: stack.sql(known, stack.acme.installation_id)[0][0] == permissions, "the permissions", 30)


@contextmanager
def held_by_stops(trial: Trial, *, blocked: bool = False, above: bool = False) -> Iterator[str]:
    """Freeze `acme` while GitHub refuses checks; a stop is on in each repository, and holds if `blocked`."""
    stack = trial.stack
    with rulesets_authorized(trial, above=above):
        refused = stack.github.faults.add("error", CHECKS, status=502)
        try:
            freeze = trial.client.freeze()
            wait_until(lambda: stopped(trial) == len(stack.acme.repositories), "stops", 30)
            if blocked:
                wait_until(lambda: shown(trial, freeze)["blockedAt"], "a freeze that is blocked", EFFECTIVE)
            yield freeze
        finally:
            stack.github.faults.clear(refused.id)


def shown(trial: Trial, freeze: str) -> Any:
    response = trial.client.request("GET", f"/v1/freezes/{freeze}")
    assert response.status_code == 200, response.text
    return response.json()


@fault("A worker is killed while it switches stops on", within=120, quick=False)
def killed_while_stopping(trial: Trial) -> None:
    with rulesets_authorized(trial):
        refused = trial.stack.github.faults.add("error", CHECKS, status=502)
        traps = trap_reconcilers(trial.stack, "fake_github", lambda request: "RulesetInput" in request)
        freeze = trial.client.freeze()
        worker = first_caught(traps, 60)
        kill_and_restart(trial, worker, traps[worker])
        trial.stack.skip(LEASE)
        wait_until(lambda: stopped(trial) == len(trial.stack.acme.repositories), "stops", 60)
        wait_until(lambda: shown(trial, freeze)["blockedAt"], "a freeze that is blocked", EFFECTIVE)
        trial.stack.github.faults.clear(refused.id)


@fault("GitHub is down while stops of a lifted freeze have to end", within=120, quick=False)
def down_while_stops_end(trial: Trial) -> None:
    with held_by_stops(trial) as freeze:
        down = trial.stack.github.faults.add("error", RULESETS, status=503)
        trial.client.lift(freeze)
        wait_until(lambda: down.struck >= 3, "calls that fail", 60)
        trial.require(stopped(trial), "stops are on while GitHub fails")
        trial.stack.github.faults.clear(down.id)
        trial.injected()
        wait_until(lambda: stopped(trial) == 0, "the end of every stop", ENDED)


@fault(
    "People disable or delete the ruleset of a stop: it stays off, and the freeze is not blocked",
    within=120,
    quick=False,
)
def ended_by_people(trial: Trial) -> None:
    with held_by_stops(trial, blocked=True) as freeze:
        world, maintainer = trial.stack.github.world, Actor(trial.stack.github.maintainer)
        first, second, third = our_rulesets(trial)[:3]
        with world.lock:
            delete_ruleset(world, maintainer, first)
            update_ruleset(world, maintainer, second, {"enforcement": "disabled"})
            update_ruleset(world, maintainer, third, {"rules": [{"type": "creation"}, {"type": "deletion"}]})
        trial.injected()
        wait_until(lambda: shown(trial, freeze)["blockedAt"] is None, "a freeze that is not blocked", 10)
        others = len(trial.stack.acme.repositories) - 2
        wait_until(lambda: stopped(trial) == others, "the stop that was loosened is put right, and no other", 30)


@fault(
    "The permission to write rulesets is withdrawn during a stop, and given back after the lift",
    within=120,
    quick=False,
)
def permission_withdrawn(trial: Trial) -> None:
    with held_by_stops(trial) as freeze:
        before = dict(trial.stack.github.world.installations[trial.stack.acme.installation_id].permissions)
        _permit(trial, {**before, "administration": "read"})
        trial.client.lift(freeze)
        trial.require(stopped(trial), "stops that cannot be taken away")
        _permit(trial, {**PERMISSIONS, **before})
        trial.injected()
        wait_until(lambda: stopped(trial) == 0, "the end of every stop", ENDED)


@fault(
    "The permission to write rulesets of the organisation is withdrawn during its stop, and given back after the lift",
    within=180,
    quick=False,
)
def permission_above_withdrawn(trial: Trial) -> None:
    with held_by_stops(trial, blocked=True, above=True) as freeze:
        trial.require(stops_above(trial) == 1, "one ruleset of the organisation has the stop")
        before = dict(trial.stack.github.world.installations[trial.stack.acme.installation_id].permissions)
        _permit(trial, {name: level for name, level in before.items() if name != "organization_administration"})
        trial.require(shown(trial, freeze)["blockedAt"], "the freeze is blocked all the same")
        trial.client.lift(freeze)
        trial.require(stops_above(trial) == 1, "a stop that cannot be taken away")
        _permit(trial, before)
        trial.injected()
        wait_until(lambda: stopped(trial) == 0, "the end of the stop", ENDED)


@fault(
    "People disable the ruleset of an organisation's stop: it stays off, and the freeze is not blocked",
    within=120,
    quick=False,
)
def ended_above_by_people(trial: Trial) -> None:
    with held_by_stops(trial, blocked=True, above=True) as freeze:
        world, maintainer = trial.stack.github.world, Actor(trial.stack.github.maintainer)
        above = [each for each in our_rulesets(trial) if each.source_type == "Organization"]
        [ruleset] = [each for each in above if _requires_a_stop(each)]
        with world.lock:
            update_ruleset(world, maintainer, ruleset, {"enforcement": "disabled"})
        trial.injected()
        wait_until(lambda: shown(trial, freeze)["blockedAt"] is None, "a freeze that is not blocked", 10)
        trial.require(stopped(trial) == 0, "no other stop")
