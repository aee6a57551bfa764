"""The quick faults in two parts of about the same duration, so that two workers of the tests share them."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from tests.faults.suite.runner import attempt
from tests.faults.suite.stack import Stack
from tests.faults.suite.table import complaints
from tests.faults.suite.trial import Fault, catalogue

MODULES_OF_SERVERS = frozenset(
    ("database", "github", "limits", "mails", "outgoing_webhooks", "redis", "restores", "slack", "stripe", "webhooks")
)
"""The modules of the catalogue whose faults strike what the service depends on; the others strike its processes."""

SHARED = 3
"""How many times its bound a recovery may take: bounds are of a machine without other tests (`make faults`)."""


def each_fault(*, of_servers: bool) -> Callable[..., object]:
    """Return the decorator that has a test run once with each quick fault of one part, as its parameter `fault`."""
    faults: Iterable[Fault] = catalogue()
    chosen = [one for one in faults if one.quick and (one.module in MODULES_OF_SERVERS) == of_servers]
    return pytest.mark.parametrize("fault", chosen, ids=lambda fault: fault.name)


def assert_recovers(stack: Stack, fault: Fault, chance: random.Random) -> None:
    """Try a fault once. Fail if a promise was broken."""
    outcome = attempt(stack, replace(fault, within=SHARED * fault.within), chance.randrange(2**32))
    assert outcome.recovered, "\n".join(complaints(outcome))
