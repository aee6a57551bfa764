"""Tokens for one use."""

from datetime import timedelta

from services.identity import one_time_tokens
from tests.harness.clock import MovableClock
from tests.services.identity.conftest import UnitOfWorkOpener

HOUR = timedelta(hours=1)


def issued(uow: UnitOfWorkOpener, subject: str = "usr_1") -> str:
    with uow() as opened:
        return one_time_tokens.issue(opened, "reset_password", subject, HOUR, details={"why": "forgotten"})


def test_token_expires_at_the_exact_instant(uow: UnitOfWorkOpener, clock: MovableClock) -> None:
    token = issued(uow)
    clock.offset = HOUR - timedelta(seconds=5)
    with uow() as opened:
        assert one_time_tokens.peek(opened, "reset_password", token)
    clock.offset = HOUR
    with uow() as opened:
        assert one_time_tokens.peek(opened, "reset_password", token) is None


def test_malformed_token_is_rejected(uow: UnitOfWorkOpener) -> None:
    with uow() as opened:
        for nonsense in ("", "x", "é", "\ud800", "\0", "x" * 10_000):
            assert one_time_tokens.consume(opened, "reset_password", nonsense) is None
