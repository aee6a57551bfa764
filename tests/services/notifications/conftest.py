"""Destinations of acme, and a channel that keeps in a table what it is given, as channels do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.notifications import NotificationDestination
from models.organizations import Organization
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import UnitOfWork, UnitOfWorkFactory
from services.events.destinations import add_destination
from services.events.event import Event
from services.mail.outbox import enqueue_mail
from services.notifications import dispatch
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import UnitOfWorkOpener

Record = Callable[..., None]


@dataclass
class KeptEvents:
    """A channel that writes a mail for each event, and fails when it should."""

    failing: bool = False
    given: list[tuple[str, Sequence[Event]]] = field(default_factory=list)
    """What it was given, also in transactions that were rolled back later."""
    after: Callable[[], None] = lambda: None
    """What happens before it returns."""

    def take_events(self, uow: UnitOfWork, destination_id: str, events: Sequence[Event]) -> None:
        """Write a row for each event."""
        self.given.append((destination_id, events))
        for event in events:
            address = f"{event.sequence}@{destination_id}"
            enqueue_mail(uow, address, "known_address", sign_in_url=event.action, forgot_url=event.action)
        uow.session.flush()
        self.after()
        if self.failing:
            raise ValueError("the channel fails")


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    """Units of work as jobs open them."""
    engine: Engine = engine_of(database, WORKER_ROLE)
    return UnitOfWorkFactory(engine, clock, wakeups)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> KeptEvents:
    """Take the place of all channels."""
    kept = KeptEvents()
    for name in ("webhook", "slack", "mail"):
        monkeypatch.setitem(dispatch.CHANNELS, name, kept.take_events)
    return kept


@pytest.fixture
def record(unit_of: UnitOfWorkOpener, acme: Organization) -> Record:
    """Write audit entries of acme with these actions, committed."""

    def write(*actions: str, organization: Organization = acme) -> None:
        for action in actions:
            with unit_of(organization) as uow:
                uow.audit(action, ("freeze", "frz_1", "Quarter-end close"), note=action)

    return write


@pytest.fixture
def add(unit_of: UnitOfWorkOpener, acme: Organization) -> Callable[..., str]:
    """Add a destination of acme: `add("whk_1", "webhook", …)` returns its id."""

    def added(destination_id: str, name: str = "webhook", *, organization: Organization = acme, **terms: object) -> str:
        with unit_of(organization) as uow:
            add_destination(uow, destination_id, name, **terms)  # type: ignore[arg-type]
        return destination_id

    return added


@pytest.fixture
def dispatch_all(jobs: UnitOfWorkFactory) -> Callable[[], int]:
    """Seal what was recorded, and dispatch until nothing is due; return the number of batches."""

    def run() -> int:
        seal_entries(jobs)
        batches = 0
        while dispatch.dispatch_due(jobs):
            batches += 1
        return batches

    return run


def position(session: Session, destination_id: str) -> tuple[int, bool]:
    """Return the sequence of a destination, and whether it is due at some time."""
    session.rollback()
    row = session.get_one(NotificationDestination, destination_id, populate_existing=True)
    found = row.sequence, row.due_at is not None
    session.rollback()
    return found
