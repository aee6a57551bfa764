"""Tokens for one use."""

from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.identity import OneTimeToken
from services.identity import one_time_tokens
from tests.harness.clock import MovableClock
from tests.services.identity.conftest import UnitOfWorkOpener

HOUR = timedelta(hours=1)


def issued(uow: UnitOfWorkOpener, subject: str = "usr_1") -> str:
    with uow() as opened:
        return one_time_tokens.issue(opened, "reset_password", subject, HOUR, details={"why": "forgotten"})


def test_token_is_valid_once(uow: UnitOfWorkOpener) -> None:
    token = issued(uow)
    with uow() as opened:
        assert one_time_tokens.peek(opened, "reset_password", token)
        used = one_time_tokens.consume(opened, "reset_password", token)
        assert used is not None
        assert (used.subject, used.details) == ("usr_1", {"why": "forgotten"})
    with uow() as opened:
        assert one_time_tokens.peek(opened, "reset_password", token) is None
        assert one_time_tokens.consume(opened, "reset_password", token) is None


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


def test_token_is_stored_only_as_a_hash(uow: UnitOfWorkOpener, session: Session) -> None:
    token = issued(uow)
    row = session.scalars(select(OneTimeToken)).one()
    assert len(token) == 43
    assert token.encode() not in row.token_hash
    assert len(row.token_hash) == 32
