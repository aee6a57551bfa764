"""The unit of work: as whom it acts."""

from collections.abc import Iterator

import pytest

from app.database import make_engine
from rules.access.permissions import SYSTEM
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, Unit, Units
from tests.services.conftest import ADA, Listener

CALLER = Caller("org_1", ADA, "api")


@pytest.fixture
def unit(database: str) -> Iterator[Unit]:
    engine = make_engine(database, 1)
    with Units(engine, DatabaseClock(), Listener()).open(CALLER) as unit:
        yield unit
    engine.dispose()


def test_acts_as_the_service_for_a_while(unit: Unit) -> None:
    with unit.acting_as_service(organization_id="org_2"):
        assert (unit.actor, unit.caller.source, unit.organization) == (SYSTEM, "system", "org_2")
    assert unit.caller == CALLER


def test_is_itself_again_whatever_fails_meanwhile(unit: Unit) -> None:
    with pytest.raises(ZeroDivisionError), unit.acting_as_service():
        _ = 1 / 0
    assert unit.caller == CALLER
