"""Signing keys and their rotation."""

from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import SigningKey
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWorkFactory
from services.identity.signing_keys import (
    PUBLISH_BEFORE,
    SIGNING_PERIOD,
    current_signer,
)
from services.maintenance.tasks import rotate_keys
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.services.identity.conftest import UnitOfWorkOpener

HOUR = timedelta(hours=1)


def signing(uow: UnitOfWorkOpener) -> str:
    with uow() as opened:
        return current_signer(opened).kid


def published(session: Session) -> list[str]:
    session.rollback()
    return list(session.scalars(select(SigningKey.kid).order_by(SigningKey.active_from)))


def test_first_signing_key_is_created_once_on_demand(uow: UnitOfWorkOpener, session: Session) -> None:
    found = set(at_once(*[lambda: signing(uow)] * 6))
    assert published(session) == [*found]
    assert len(found) == 1


def test_repeated_key_rotation_changes_nothing(
    uow: UnitOfWorkOpener, worker_units: UnitOfWorkFactory, session: Session, clock: MovableClock
) -> None:
    signing(uow)
    clock.offset = SIGNING_PERIOD - PUBLISH_BEFORE + timedelta(seconds=1)
    rotate_keys(worker_units)
    both = published(session)
    assert len(both) == 2
    clock.offset += 2 * HOUR
    assert rotate_keys(worker_units)
    assert not rotate_keys(worker_units)
    assert published(session) == both


def test_single_signing_key_follows_after_a_long_pause(
    uow: UnitOfWorkOpener, worker_units: UnitOfWorkFactory, session: Session, clock: MovableClock
) -> None:
    first = signing(uow)
    clock.offset = 10 * SIGNING_PERIOD
    rotate_keys(worker_units)
    assert signing(uow) == first
    clock.offset += PUBLISH_BEFORE + HOUR
    assert signing(uow) != first


def test_signing_key_without_a_start_only_verifies(uow: UnitOfWorkOpener, session: Session) -> None:
    factories.signer(session)
    session.commit()
    assert signing(uow) != "tests"


def test_changed_secret_creates_a_new_key_and_keeps_the_old_published(
    uow: UnitOfWorkOpener, uow_factory: UnitOfWorkFactory, session: Session
) -> None:
    first = signing(uow)
    uow_factory.ports = uow_factory.ports.having(SecretKey(b"another secret of tests"))
    second = signing(uow)
    assert second != first
    assert signing(uow) == second
    assert set(published(session)) == {first, second}
