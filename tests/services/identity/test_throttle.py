"""Limits of what may be tried."""

from datetime import timedelta

import pytest

from rules.errors import ServiceError
from services.identity import throttle
from tests.harness.clock import MovableClock
from tests.services.identity.conftest import UnitOfWorkOpener

ACCOUNT = throttle.LIMITS["sign_in"].account
ADDRESS = throttle.LIMITS["sign_in"].address
WITHIN = throttle.LIMITS["sign_in"].within


def tried(uow: UnitOfWorkOpener, account: str | None = "eve@example.com", address: str = "203.0.113.7") -> int:
    """Try once: the seconds to wait, or 0."""
    try:
        with uow() as opened:
            throttle.count_attempt(opened, "sign_in", account=account, address=address)
    except ServiceError as error:
        return int(error.retry_after or 0)
    return 0


def test_sign_in_limits_are_10_and_30_in_15_minutes() -> None:
    assert throttle.LIMITS["sign_in"] == throttle.Limit(10, 30, timedelta(minutes=15))


def test_address_has_thirty_attempts_for_any_account(uow: UnitOfWorkOpener) -> None:
    waits = [tried(uow, f"{number}@example.com") for number in range(ADDRESS + 1)]
    assert waits[:-1] == [0] * ADDRESS
    assert waits[-1] > 0
    assert tried(uow, "0@example.com", "203.0.113.8") == 0


def test_throttle_window_slides_and_gives_the_wait(uow: UnitOfWorkOpener, clock: MovableClock) -> None:
    tried(uow)
    clock.offset = timedelta(minutes=10)
    for _ in range(ACCOUNT - 1):
        tried(uow)
    wait = tried(uow)
    assert 4 * 60 < wait <= 5 * 60
    clock.offset += timedelta(seconds=wait)
    assert tried(uow) == 0
    assert tried(uow) > 0


def test_rejected_attempt_is_not_counted(uow: UnitOfWorkOpener, clock: MovableClock) -> None:
    for _ in range(ACCOUNT):
        tried(uow)
    clock.offset = WITHIN - timedelta(seconds=30)
    assert tried(uow) > 0
    clock.offset = WITHIN
    assert tried(uow) == 0


def test_successful_attempt_resets_account_and_one_attempt_of_address(uow: UnitOfWorkOpener) -> None:
    for _ in range(ACCOUNT - 1):
        tried(uow)
    with uow() as opened:
        throttle.count_attempt(opened, "sign_in", account="eve@example.com", address="203.0.113.7").reset()
    assert [tried(uow) for _ in range(ACCOUNT)] == [0] * ACCOUNT
    left = ADDRESS - 2 * ACCOUNT + 1
    waits = [tried(uow, f"{number}@example.com") for number in range(left + 1)]
    assert waits[:-1] == [0] * left
    assert waits[-1] > 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:203.0.113.9", "203.0.113.9", True),
        ("203.0.113.9", "203.0.113.10", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_ipv6_prefix_counts_as_one_address(uow: UnitOfWorkOpener, one: str, other: str, same: bool) -> None:
    for number in range(ADDRESS):
        tried(uow, f"{number}@example.com", one)
    assert (tried(uow, "eve@example.com", other) > 0) is same


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (61, "2 minutes"),
        (895, "15 minutes"),
        (900, "15 minutes"),
    ],
)
def test_throttle_wait_is_formatted_and_rounded_up(seconds: int, words: str) -> None:
    assert throttle.format_wait(seconds) == words
