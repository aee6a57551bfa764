"""A schedule with one window to come, and those who look at it."""

from datetime import timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.attention import AttentionItem
from models.audit import AuditEntry
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.queries import covering_freezes
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from services.core.unit_of_work import UnitOfWorkFactory
from services.schedules.occurrence_start import start_windows
from services.schedules.occurrence_views import occurrence_views
from tests import factories
from tests.harness.clock import MovableClock
from tests.services.conftest import UnitOfWorkOpener

HOUR = timedelta(hours=1)


class Planned:
    """A schedule of acme whose next window begins in an hour and takes one, and those who look at it."""

    def __init__(
        self,
        session: Session,
        acme: Organization,
        jobs: UnitOfWorkFactory,
        unit_of: UnitOfWorkOpener,
        clock: MovableClock,
    ) -> None:
        self.session, self.acme, self.jobs, self.unit_of, self.clock = session, acme, jobs, unit_of, clock
        self.web = factories.watched(session, acme, "acme/web")
        self.api = factories.watched(session, acme, "acme/api")
        self.starts_at = factories.now().replace(microsecond=0) + HOUR
        self.saved_at = self.starts_at - timedelta(days=30)
        self.schedule = self.add_schedule(name="Weekends")
        self.occurrence = self.add(self.schedule)

    def add_schedule(self, **columns: Any) -> Schedule:
        given = {"created_at": self.saved_at, "updated_at": self.saved_at, **columns}
        row = factories.schedule(self.session, self.acme, **given)
        self.session.commit()
        return row

    def add(self, of: Schedule, after: timedelta = timedelta(), length: timedelta = HOUR, **columns: Any) -> Occurrence:
        starts_at = self.starts_at + after
        row = factories.occurrence(self.session, of, starts_at=starts_at, ends_at=starts_at + length, **columns)
        self.session.commit()
        return row

    def change(self, **columns: Any) -> None:
        for name, value in columns.items():
            setattr(self.schedule, name, value)
        self.session.commit()

    def come(self, after: timedelta = timedelta()) -> None:
        """Let time pass until so long after the start of the window."""
        self.clock.at = self.starts_at + after

    def begin(self) -> int:
        return start_windows(self.jobs)

    def freezes(self) -> list[Freeze]:
        self.session.rollback()
        self.session.expire_all()
        return list(self.session.scalars(select(Freeze).order_by(Freeze.started_at, Freeze.id)))

    def covered(self, freeze: Freeze) -> set[str]:
        targets = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id)
        return set(self.session.scalars(targets))

    def seen(self, occurrence: Occurrence | None = None) -> dict[str, Any]:
        """Return the occurrence as people see it."""
        with self.unit_of(self.acme) as uow:
            return occurrence_views(uow, [uow.session.get_one(Occurrence, (occurrence or self.occurrence).id)])[0]

    def frozen(self, *branches: WatchedBranch) -> list[bool]:
        with self.unit_of(self.acme) as uow:
            covering = covering_freezes(uow.session, [branch.id for branch in branches], uow.now)
            return [branch.id in covering for branch in branches]

    def audit(self, action: str) -> list[AuditEntry]:
        return factories.audit_entries(self.session, action)

    def attention(self) -> list[tuple[str, str]]:
        """Return the open items: type and words."""
        query = select(AttentionItem.type, AttentionItem.message).where(AttentionItem.cleared_at.is_(None))
        self.session.rollback()
        return [(kind, message) for kind, message in self.session.execute(query.order_by(AttentionItem.key))]
