"""I25 in histories that random ones seldom reach: after each step GitHub is asked, and every surface is read."""

from typing import Any

import psycopg
import pytest

from tests.faults.test_blocked_means_refused import Machine
from tests.harness.blocking_surfaces import what_is_said
from tests.harness.github_harness import Harness

Step = tuple[str, dict[str, Any]]
FREEZE: Step = ("freeze", {"which": 0, "hours": None})
REST: Step = ("come_to_rest", {})
WORK: Step = ("work", {"passes": 9})
LOST: Step = ("webhooks_are_lost", {})


def repository(how: str, *, told: bool = True) -> Step:
    """Have people do something to acme/api."""
    return "change_a_repository", {"which": 0, "how": how, "told": told}


def app(how: str, *, told: bool = True) -> Step:
    """Have people do something to the App."""
    return "change_the_app", {"which": 0, "how": how, "told": told}


def loosen(which: int, how: str = "delete", *, told: bool = True) -> Step:
    """Have people loosen a rule: even numbers are of acme/api."""
    return "loosen_a_rule", {"which": which, "how": how, "told": told}


def of_organization(base: str, enforcement: str = "active") -> Step:
    """Have people write a rule of the organisation, for every repository."""
    given = {"base": base, "enforcement": enforcement, "names": ["~ALL"], "told": True}
    return "write_a_rule_of_the_organization", given


NO_RULES = [loosen(0)] * 8
"""All rules are deleted, those of the repository first."""
NO_OWN_RULES = NO_RULES[:4]
HISTORIES: dict[str, tuple[list[Step], str | None]] = {
    "made again": ([FREEZE, REST, repository("delete and make again")], "not_blocked"),
    "made again after the deletion is known": (
        [FREEZE, REST, repository("delete"), repository("make again")],
        "not_blocked",
    ),
    "made again unheard": ([FREEZE, REST, repository("delete and make again", told=False), LOST], "not_blocked"),
    "made again twice": ([FREEZE, REST, *[repository("delete and make again", told=False)] * 2], "not_blocked"),
    "transferred and back": ([FREEZE, REST, repository("transfer"), repository("transfer")], "blocked"),
    "loosened elsewhere": ([FREEZE, REST, repository("transfer"), *NO_RULES, repository("transfer")], "not_blocked"),
    "back unheard": ([FREEZE, REST, *[repository("transfer", told=False)] * 2, LOST], "blocked"),
    "frozen while away": ([repository("transfer"), FREEZE, REST, repository("transfer")], "blocked"),
    "left out and added": ([FREEZE, REST, app("one"), app("every")], "blocked"),
    "uninstalled": ([FREEZE, REST, app("uninstall")], None),
    "uninstalled unheard": ([FREEZE, REST, app("uninstall", told=False), LOST], None),
    "installed again": ([FREEZE, REST, app("uninstall"), app("install", told=False), FREEZE], "blocked"),
    "installed again without rules": ([FREEZE, app("uninstall"), *NO_RULES, app("install"), FREEZE], "not_blocked"),
    "suspended for long": ([FREEZE, REST, app("suspend"), REST], "blocked"),
    "evaluated above": ([of_organization("main", "evaluate"), *NO_RULES, FREEZE], "not_blocked"),
    "required above": ([of_organization("main"), *NO_OWN_RULES, FREEZE], "blocked"),
    "another check above": ([of_organization("build"), FREEZE, WORK], "blocked"),
}


pytestmark = [pytest.mark.check, pytest.mark.slow(60)]


@pytest.fixture
def machine(harness: Harness, shared_database: psycopg.Connection[Any]) -> Machine:
    given = {"harness": harness, "database": shared_database}
    made: Machine = type("GivenMachine", (Machine,), given)()
    return made


@pytest.mark.parametrize("name", HISTORIES)
def test_what_is_called_blocked_is_refused_after_each_step(machine: Machine, name: str) -> None:
    steps, expected = HISTORIES[name]
    for step, given in steps:
        getattr(machine, step)(**given)
        machine.no_surface_calls_blocked_what_github_accepts()
    machine.teardown()
    said = what_is_said(machine.harness).get((machine.repositories[0].id, "main"))
    state = said.states["facts"] if said is not None else None
    assert ("blocked" if state == "partly" else state) == expected


def test_queue_lets_in_what_an_exception_lets_in_and_nothing_else(machine: Machine) -> None:
    harness = machine.harness
    machine.write_a_rule(which=0, base="main", queue=True, told=True)
    machine.freeze(which=0, hours=None)
    machine.come_to_rest()
    pull = next(each for each in machine.repositories[0].pulls.values() if each.base_ref == "main")
    machine.handle_a_pull_request(which=0, how="enqueue", told=True)
    assert not harness.fake_github.world.queue_entry(pull)
    machine.grant_an_exception(which=0, minutes=None, pin=False)
    machine.work(passes=9)
    machine.no_surface_calls_blocked_what_github_accepts()
    machine.handle_a_pull_request(which=0, how="enqueue", told=False)
    assert harness.fake_github.world.queue_entry(pull)
    machine.no_surface_calls_blocked_what_github_accepts()
    machine.we_are_told()
    machine.no_surface_calls_blocked_what_github_accepts()
    assert pull.merged_at
    machine.teardown()
