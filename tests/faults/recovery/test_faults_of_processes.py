"""One try of each fault of the service's own processes, stored time skipped, and what the judge finds."""

import random

import pytest

from tests.faults.recovery.quick_faults import assert_recovers, each_fault
from tests.faults.suite.client import AcknowledgedFreeze, Client, Ledger
from tests.faults.suite.judge import forbidden, lost, wrong_heads
from tests.faults.suite.runner import rest
from tests.faults.suite.stack import Stack
from tests.faults.suite.trial import Fault
from tools.fake_github.model import checks
from tools.fake_github.model.world import Actor

pytestmark = [pytest.mark.check, pytest.mark.slow(180)]


@each_fault(of_servers=False)
def test_service_recovers_from_faults_of_processes(stack: Stack, chance: random.Random, fault: Fault) -> None:
    assert_recovers(stack, fault, chance)


class TestJudge:
    def test_judge_finds_a_head_with_a_wrong_verdict(self, stack: Stack) -> None:
        repository = stack.acme.repositories[0]
        sha = next(pull.head_sha for pull in repository.pulls.values() if pull.state == "open")
        with stack.github.quietly():
            ours = Actor(stack.github.world.accounts[stack.github.app.bot_id], stack.github.app_id)
            wrong = {"name": "change-freeze/main", "head_sha": sha, "conclusion": "failure"}
            checks.create_check_run(stack.github.world, ours, stack.github.app_id, repository, wrong)
        assert list(wrong_heads(stack).values()) == [("failure", "success")]
        stack.request_full_resync()
        stack.skip(120)  # what a fault left is read again later: the full resync leaves it that plan
        rest(stack)

    def test_judge_finds_a_lost_acknowledged_freeze(self, stack: Stack) -> None:
        ledger = Ledger()
        ledger.freezes["frz_never"] = AcknowledgedFreeze("frz_never", frozenset(), "a key", 0)
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
        with stack.github.world.lock:
            write = next(one for one in reversed(stack.github.calls.writes) if one["conclusion"] == "success")
        branch, number = write["externalId"].split("/")[:2]
        ledger.freezes["frz_it"] = AcknowledgedFreeze("frz_it", frozenset({branch}), "a key", int(number) - 1)
        assert forbidden(stack, ledger)
        ledger.freezes["frz_it"].since = int(number)
        assert not forbidden(stack, ledger)
