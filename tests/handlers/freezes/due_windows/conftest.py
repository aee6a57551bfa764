"""A window that is due freezes from its start on, while no sweeper begins it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.freezes import Freeze
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.ids import id_of_freeze
from services.core.ports import Ports
from services.core.unit_of_work import UnitOfWorkFactory
from services.schedules.occurrence_start import start_windows
from tests import factories
from tests.handlers.callers import Tenant
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

MINUTE = timedelta(minutes=1)
NO_TARGETS = {"released": 0, "releasing": 0, "applied": 0, "failed": 0}


@pytest.fixture
def schedule(acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch) -> Schedule:
    return factories.schedule(session, acme.organization, name="Weekends")


def open_window(session: Session, schedule: Schedule, began: timedelta = 10 * MINUTE) -> Occurrence:
    """Plan a window that is open since some minutes, for another 50."""
    starts_at = factories.now().replace(microsecond=0) - began
    return factories.occurrence(session, schedule, starts_at=starts_at, ends_at=starts_at + began + 50 * MINUTE)


@dataclass(frozen=True, slots=True)
class DueWindow:
    """A window of the whole organisation, of acme/web and acme/api, that nobody has begun."""

    acme: Tenant
    web: WatchedBranch
    api: WatchedBranch
    schedule: Schedule
    row: Occurrence

    @property
    def id(self) -> str:
        """The id of its freeze."""
        return id_of_freeze(self.row.id)

    @property
    def session(self) -> Session:
        return self.acme.session


@pytest.fixture
def due(acme: Tenant, web: WatchedBranch, api: WatchedBranch, schedule: Schedule) -> DueWindow:
    return DueWindow(acme, web, api, schedule, open_window(acme.session, schedule))


@pytest.fixture
def sweep(database: str, clock: MovableClock) -> Callable[[], int]:
    """Begin what is due, as a sweeper does."""
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, RecordedWakeups(), Ports())
    return lambda: start_windows(jobs)


def states(acme: Tenant) -> list[dict[str, Any]]:
    """Return the freeze state of a branch, of a repository and of the organisation."""
    forms = ({"repo": "acme/web", "branch": "main"}, {"repo": "acme/web"}, {"organization": "current"})
    return [acme.key().get("/v1/freeze-state", **form).json() for form in forms]


def begun(session: Session) -> list[Freeze]:
    session.expire_all()
    return list(session.scalars(select(Freeze).order_by(Freeze.id)))
