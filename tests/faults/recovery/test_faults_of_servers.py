"""One try of each fault of PostgreSQL, Redis, GitHub and the other servers, stored time skipped."""

import random

import pytest

from tests.faults.recovery.quick_faults import assert_recovers, each_fault
from tests.faults.suite.stack import Stack
from tests.faults.suite.trial import Fault

pytestmark = [pytest.mark.check, pytest.mark.slow(130)]


@each_fault(of_servers=True)
def test_service_recovers_from_faults_of_servers(stack: Stack, chance: random.Random, fault: Fault) -> None:
    assert_recovers(stack, fault, chance)
