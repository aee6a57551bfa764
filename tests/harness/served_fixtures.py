"""The clock of a product that is served for a whole session, and the recorder of what it wakes: as new for each test.

A conftest imports the four fixtures.
"""

from collections.abc import Iterator

import pytest

from tests.harness.clock import MovableClock
from tests.harness.wakeups import RecordedWakeups


@pytest.fixture(scope="session")
def clock_of_session() -> MovableClock:
    return MovableClock()


@pytest.fixture
def clock(clock_of_session: MovableClock) -> Iterator[MovableClock]:
    yield clock_of_session
    clock_of_session.reset()


@pytest.fixture(scope="session")
def wakeups_of_session() -> RecordedWakeups:
    return RecordedWakeups()


@pytest.fixture
def wakeups(wakeups_of_session: RecordedWakeups) -> RecordedWakeups:
    wakeups_of_session.sent.clear()
    return wakeups_of_session
