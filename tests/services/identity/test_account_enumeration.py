"""Accounts cannot be enumerated: responses are the same, and so is the work, about."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from argon2 import extract_parameters
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from models.identity import ThrottledAttempt
from models.organizations import User
from rules.errors import ServiceError
from services.core.password_hashing import MAX_STRANGERS, MAX_WAITING, MAX_WAITING_PER_NETWORK, PasswordHasher
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens, password_sign_in, registration
from tests.harness.passwords import HASHER, PASSWORD, hash_password
from tests.services.identity.conftest import UnitOfWorkOpener

Work = Callable[[UnitOfWork, str], object]
UNKNOWN = "nobody@example.com"


@pytest.fixture
def written(engine: Engine) -> Iterator[list[str]]:
    """Collect what is written to the database, also what is undone."""
    statements: list[str] = []

    def record(*given: object) -> None:
        if str(given[2]).startswith(("INSERT", "UPDATE", "DELETE")):
            statements.append(str(given[2]).partition("(")[0].strip())

    event.listen(engine, "before_cursor_execute", record)
    yield statements
    event.remove(engine, "before_cursor_execute", record)


def signed_up(uow: UnitOfWork, email: str) -> None:
    registration.sign_up(uow, "Eve", email, PASSWORD)


def forgotten(uow: UnitOfWork, email: str) -> None:
    password_sign_in.forgot_password(uow, email)


def wrong(uow: UnitOfWork, email: str) -> object:
    with pytest.raises(ServiceError) as refused:
        password_sign_in.sign_in(uow, email, "some other password")
    return refused.value.code, refused.value.message


@pytest.mark.parametrize("work", [signed_up, forgotten, wrong])
def test_known_and_unknown_addresses_run_the_same_statements(
    work: Work, uow: UnitOfWorkOpener, written: list[str], eve: User
) -> None:
    results: list[object] = []
    for email in (eve.email, UNKNOWN):
        with uow() as opened:
            results.append(work(opened, email))
        results.append(sorted(written))
        written.clear()
    assert results[:2] == results[2:]
    assert results[1]


@pytest.mark.parametrize("work", [signed_up, forgotten])
def test_known_and_unknown_addresses_both_wake_the_mail_queue(work: Work, uow: UnitOfWorkOpener, eve: User) -> None:
    for email in (eve.email, UNKNOWN):
        with uow() as opened:
            work(opened, email)
            assert opened.wakeups == {"mail"}


def test_missing_password_is_compared_with_a_dummy_hash_of_equal_cost() -> None:
    hasher = PasswordHasher()
    real = hasher.hash(PASSWORD)
    assert extract_parameters(real) == extract_parameters(hasher.dummy_hash)
    assert not hasher.verify(None, PASSWORD)
    assert hasher.verify(real, PASSWORD)
    assert not hasher.verify(real, PASSWORD + " ")
    assert not hasher.verify("nonsense", PASSWORD)


def test_password_hashes_are_salted_argon2id_with_64_mebibytes() -> None:
    hasher = PasswordHasher()
    one, other = hasher.hash(PASSWORD), hasher.hash(PASSWORD)
    assert one.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert one != other
    assert not hasher.is_outdated(one)
    assert hasher.is_outdated(one.replace("t=3", "t=2"))


def test_password_hashing_holds_no_database_connection(uow: UnitOfWorkOpener, engine: Engine, eve: User) -> None:
    held = []
    with uow() as opened:
        with opened.outside_transaction():
            held.append(engine.pool.checkedout())  # type: ignore[attr-defined]
        assert opened.session.get(User, eve.id)
        held.append(engine.pool.checkedout())  # type: ignore[attr-defined]
    assert held == [0, 1]


def test_sign_in_is_rate_limited_and_not_counted_when_hashing_is_busy(
    uow: UnitOfWorkOpener, session: Session, eve: User
) -> None:
    with ExitStack() as crowd, uow() as opened:
        for number in range(MAX_WAITING):
            crowd.enter_context(HASHER.slot(f"203.0.113.{number}", known=number >= MAX_STRANGERS))
        with pytest.raises(ServiceError) as refused:
            password_sign_in.sign_in(opened, eve.email, PASSWORD)
    assert (refused.value.code, refused.value.retry_after) == ("rate_limited", 1)
    assert session.query(ThrottledAttempt).count() == 0
    with uow() as opened:
        assert password_sign_in.sign_in(opened, eve.email, PASSWORD).user.id == eve.id


def test_network_gets_a_share_of_the_slots_for_hashing() -> None:
    with ExitStack() as crowd:
        for _ in range(MAX_WAITING_PER_NETWORK):
            crowd.enter_context(HASHER.slot("203.0.113.7"))
        with pytest.raises(ServiceError), HASHER.slot("203.0.113.7"):
            pass
        with HASHER.slot("203.0.113.8"):
            pass
    with HASHER.slot("203.0.113.7"):
        pass


def test_strangers_leave_slots_to_people_who_signed_in_before(
    uow: UnitOfWorkOpener, session: Session, eve: User
) -> None:
    with uow() as opened:
        password_sign_in.sign_in(opened, eve.email, PASSWORD)
    with ExitStack() as crowd, uow() as opened:
        for number in range(MAX_STRANGERS):
            crowd.enter_context(HASHER.slot(f"203.0.113.{number}"))
        with pytest.raises(ServiceError):
            password_sign_in.sign_in(opened, UNKNOWN, PASSWORD)
        assert password_sign_in.sign_in(opened, eve.email, PASSWORD).user.id == eve.id


def test_email_confirmation_is_rate_limited_when_hashing_is_busy(uow: UnitOfWorkOpener, session: Session) -> None:
    with uow() as opened:
        details = {"name": "Nobody", "passwordHash": hash_password(PASSWORD)}
        token = one_time_tokens.issue(opened, "verify_email", UNKNOWN, registration.LINK_LIFETIME, details=details)
    with ExitStack() as crowd, uow() as opened:
        for number in range(MAX_WAITING):
            crowd.enter_context(HASHER.slot(f"203.0.113.{number}", known=number >= MAX_STRANGERS))
        with pytest.raises(ServiceError) as refused:
            registration.verify_email(opened, token, PASSWORD)
    assert (refused.value.code, refused.value.retry_after) == ("rate_limited", 1)
    assert session.query(ThrottledAttempt).count() == 0
    with uow() as opened:
        assert registration.verify_email(opened, token, PASSWORD).email == UNKNOWN
