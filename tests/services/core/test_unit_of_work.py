"""The unit of work: as whom it acts."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app.database import make_engine
from rules.access.permissions import SYSTEM
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import ADA

CALLER = Caller("org_1", ADA, "api")


@pytest.fixture
def uow(database: str) -> Iterator[UnitOfWork]:
    engine = make_engine(database, 1)
    with UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups()).open(CALLER) as uow:
        yield uow
    engine.dispose()


def test_unit_of_work_acts_as_the_service_within_the_block(uow: UnitOfWork) -> None:
    with uow.act_as_service(organization_id="org_2"):
        assert (uow.actor, uow.caller.source, uow.organization) == (SYSTEM, "system", "org_2")
    assert uow.caller == CALLER


def test_unit_of_work_restores_its_caller_when_the_block_fails(uow: UnitOfWork) -> None:
    with pytest.raises(ZeroDivisionError), uow.act_as_service():
        _ = 1 / 0
    assert uow.caller == CALLER


def test_read_only_unit_of_work_stays_so_after_leaving_its_transaction(database: str) -> None:
    engine = make_engine(database, 1)
    with UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups()).open(CALLER, read_only=True) as uow:
        with uow.outside_transaction():
            pass
        assert uow.session.scalar(text("SHOW transaction_read_only")) == "on"
    engine.dispose()
