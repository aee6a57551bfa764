"""A stack for each file of this folder, on which its faults are tried one after the other."""

import random
from collections.abc import Iterator

import pytest

from tests.faults.suite.runner import rest
from tests.faults.suite.stack import Stack, running
from tests.harness.random_seed import chosen_seed


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
