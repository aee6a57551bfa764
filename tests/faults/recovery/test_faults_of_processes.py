"""One try of every fault on one stack, stored time skipped (`make faults` is the long way), and what the judge sees."""

import random
from collections.abc import Iterator

import pytest

from tests.faults.suite.client import Client, Interval, Ledger
from tests.faults.suite.judge import forbidden, lost, wrong_heads
from tests.faults.suite.runner import attempt, rest
from tests.faults.suite.stack import Stack, running
from tests.faults.suite.table import complaints
from tests.faults.suite.trial import Fault, catalogue
from tests.harness.random_seed import chosen_seed
from tools.fake_github.model import checks
from tools.fake_github.model.world import Actor

pytestmark = [pytest.mark.check, pytest.mark.slow(240)]


@pytest.fixture(scope="module")
def shared_stack() -> Iterator[Stack]:
    with running(quick=True, small=True) as made:
        rest(made)
        yield made


@pytest.fixture
def stack(shared_stack: Stack) -> Stack:
    """Return the stack at rest. If a fault has left it otherwise, every other one would fail, after minutes."""
    assert not shared_stack.disturbed_by, f"not tried: never at rest again after: {shared_stack.disturbed_by}"
    return shared_stack


@pytest.fixture(scope="module")
def chance() -> random.Random:
    return random.Random(chosen_seed())


@pytest.mark.parametrize("fault", [one for one in catalogue() if one.quick], ids=lambda fault: fault.name)
def test_service_recovers_from_every_fault(stack: Stack, chance: random.Random, fault: Fault) -> None:
    outcome = attempt(stack, fault, chance.randrange(2**32))
    assert outcome.recovered, "\n".join(complaints(outcome))


class TestJudge:
    def test_judge_finds_a_head_with_a_wrong_verdict(self, stack: Stack) -> None:
        repository = stack.acme.repositories[0]
        sha = next(pull.head_sha for pull in repository.pulls.values() if pull.state == "open")
        with stack.host.quietly():
            ours = Actor(stack.host.world.accounts[stack.host.app.bot_id], stack.host.app_id)
            wrong = {"name": "change-freeze/main", "head_sha": sha, "conclusion": "failure"}
            checks.create_check_run(stack.host.world, ours, stack.host.app_id, repository, wrong)
        assert list(wrong_heads(stack).values()) == [("failure", "success")]
        stack.look_everywhere()
        stack.skip(120)  # what a fault left is read again later: the full resync leaves it that plan
        rest(stack)

    def test_judge_finds_a_lost_acknowledged_freeze(self, stack: Stack) -> None:
        ledger = Ledger()
        ledger.freezes["frz_never"] = Interval("frz_never", frozenset(), "a key", 0)
        assert lost(stack, ledger) == ["frz_never was acknowledged and has 0 audit rows of its start"]

    def test_judge_finds_a_freeze_started_twice(self, stack: Stack) -> None:
        ledger = Ledger()
        client = Client(stack, stack.acme, ledger)
        freeze = client.freeze()
        stack.sql("UPDATE freezes SET reason = 'Requested under twice.' WHERE id = %s", freeze)
        other = client.freeze()
        stack.sql("UPDATE freezes SET reason = 'Requested under twice.' WHERE id = %s", other)
        ledger.keys = {"twice"}
        assert lost(stack, ledger) == ["the key twice started 2 freezes"]
        client.lift(freeze)
        client.lift(other)
        rest(stack)

    def test_judge_finds_a_success_during_a_freeze(self, stack: Stack) -> None:
        ledger = Ledger()
        with stack.host.world.lock:
            write = next(one for one in reversed(stack.host.calls.writes) if one["conclusion"] == "success")
        branch, number = write["externalId"].split("/")[:2]
        ledger.freezes["frz_it"] = Interval("frz_it", frozenset({branch}), "a key", int(number) - 1)
        assert forbidden(stack, ledger)
        ledger.freezes["frz_it"].since = int(number)
        assert not forbidden(stack, ledger)
