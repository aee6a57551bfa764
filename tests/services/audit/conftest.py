"""Entries as services write them, and the sealer as the sweeper runs it."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.audit import AuditEntry, AuditSeal
from models.organizations import Organization
from services.core.unit_of_work import UnitOfWork, UnitOfWorkFactory
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import UnitOfWorkOpener

Record = Callable[..., str]


def entry_of(uow: UnitOfWork, name: str = "Quarter-end close", **details: Any) -> str:
    """Write an entry in a unit, and return its id."""
    uow.audit("freeze.started", ("freeze", "frz_1", name), **details)
    (entry,) = [each for each in uow.session.new if isinstance(each, AuditEntry)]
    uow.session.flush()
    return entry.id


@pytest.fixture
def worker_engine(database: str) -> Engine:
    return engine_of(database, WORKER_ROLE)


@pytest.fixture
def jobs(worker_engine: Engine, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    """Units as jobs open them."""
    return UnitOfWorkFactory(worker_engine, clock, wakeups)


@pytest.fixture
def globex(session: Session) -> Organization:
    organization = factories.organization(session, "Globex")
    session.commit()
    return organization


@pytest.fixture
def record(unit_of: UnitOfWorkOpener, acme: Organization) -> Record:
    """Write an entry of acme, committed; `record("name", …details)` returns its id."""

    def write(name: str = "Quarter-end close", **details: Any) -> str:
        with unit_of(acme) as uow:
            return entry_of(uow, name, **details)

    return write


def seals(session: Session, organization: Organization) -> list[AuditSeal]:
    """Return the chain of an organisation as it is now."""
    session.expire_all()
    query = select(AuditSeal).where(AuditSeal.organization_id == organization.id).order_by(AuditSeal.sequence)
    found = list(session.scalars(query))
    session.rollback()
    return found
