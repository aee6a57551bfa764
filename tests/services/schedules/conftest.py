"""An organisation with a watched branch, whose clock stands where a test puts it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.audit import AuditEntry
from models.freezes import Freeze
from models.organizations import Organization
from models.schedules import Occurrence, Schedule
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.freezes.end import lift
from services.schedules import changes as saving
from services.schedules import deletion, skips, views
from services.schedules.occurrence_start import start_windows
from services.schedules.occurrence_views import occurrence_views
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.sessions import id_of
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import ADA, UnitOfWorkOpener
from tests.services.schedules.windows import Planned

EVERYTHING = {"type": "organization"}
NIGHTS: dict[str, Any] = {
    "name": "Nights",
    "scope": EVERYTHING,
    "timezone": "Europe/London",
    "recurrence": {"frequency": "daily", "start_date": "2026-01-01"},
    "window": {"start_time": "22:00", "end_time": "06:00", "days": 1},
    "reason": "No release team at night",
}


def utc(text: str) -> datetime:
    """Return the instant of `2026-11-21 12:00`, UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass
class ScheduleFixture:
    """Where schedules are made, at a time that tests set."""

    session: Session
    organization: Organization
    uow_factory: UnitOfWorkFactory
    jobs: UnitOfWorkFactory
    clock: MovableClock

    def at(self, text: str) -> "ScheduleFixture":
        """Put the clock to an instant, UTC."""
        self.clock.at = utc(text)
        return self

    @property
    def caller(self) -> Caller:
        return Caller(id_of(self.organization), ADA, "dashboard", BUSINESS)

    def create(self, **wanted: Any) -> str:
        with self.uow_factory.open(self.caller) as uow:
            return saving.create(uow, saving.NewSchedule(**{**NIGHTS, **wanted})).id

    def update(self, schedule_id: str, **changes: Any) -> None:
        with self.uow_factory.open(self.caller) as uow:
            saving.update(uow, schedule_id, changes)

    def skip_next(self, schedule_id: str) -> str:
        with self.uow_factory.open(self.caller) as uow:
            return str(skips.skip_next(uow, schedule_id)["id"])

    def skip(self, schedule_id: str, occurrence_id: str) -> None:
        with self.uow_factory.open(self.caller) as uow:
            skips.skip(uow, schedule_id, occurrence_id)

    def delete(self, schedule_id: str, *, end_active: bool = False) -> None:
        with self.uow_factory.open(self.caller) as uow:
            deletion.delete_schedule(uow, schedule_id, end_active=end_active)

    def begin(self) -> int:
        """Begin what is due, as the sweeper does."""
        return start_windows(self.jobs)

    def lift(self, schedule_id: str) -> None:
        """Lift the freezes of a schedule that are in force, by hand."""
        self.session.expire_all()
        with self.uow_factory.open(self.caller) as uow:
            query = select(Freeze.id).where(Freeze.schedule_id == schedule_id, Freeze.is_in_force(uow.now))
            for freeze_id in uow.session.scalars(query).all():
                lift(uow, freeze_id, None)

    def show(self, schedule_id: str) -> dict[str, Any]:
        with self.uow_factory.open(self.caller) as uow:
            return views.show(uow, schedule_id)

    def rows(self, schedule_id: str) -> list[Occurrence]:
        """Return the occurrences as they are stored, the first first."""
        self.session.expire_all()
        query = select(Occurrence).where(Occurrence.schedule_id == schedule_id).order_by(Occurrence.starts_at)
        return list(self.session.scalars(query))

    def windows(self, schedule_id: str, *states: str) -> list[str]:
        """Return the windows in these states (none given: planned), as `11-27 17:00 to 11-30 08:00`, UTC."""
        with self.uow_factory.open(self.caller) as uow:
            query = select(Occurrence).where(Occurrence.schedule_id == schedule_id).order_by(Occurrence.starts_at)
            shown = occurrence_views(uow, uow.session.scalars(query).all())
        wanted = states or ("planned",)
        return [f"{o['starts_at']:%m-%d %H:%M} to {o['ends_at']:%m-%d %H:%M}" for o in shown if o["state"] in wanted]

    def schedule(self, schedule_id: str) -> Schedule:
        self.session.expire_all()
        return self.session.get_one(Schedule, schedule_id)

    def audit(self, action: str) -> list[AuditEntry]:
        """Return the entries of an action, the oldest first."""
        return factories.audit_entries(self.session, action)


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    """Open units of every organisation, as the sweeper does."""
    ports = Ports(WebOrigin("https://freeze.test"))
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, ports)


@pytest.fixture
def planned(
    session: Session, acme: Organization, jobs: UnitOfWorkFactory, unit_of: UnitOfWorkOpener, clock: MovableClock
) -> Planned:
    return Planned(session, acme, jobs, unit_of, clock)


@pytest.fixture
def schedules(
    session: Session, acme: Organization, uow_factory: UnitOfWorkFactory, jobs: UnitOfWorkFactory, clock: MovableClock
) -> ScheduleFixture:
    factories.watched(session, acme)
    session.commit()
    return ScheduleFixture(session, acme, uow_factory, jobs, clock)
