"""Schedules of freeze windows, and their occurrences."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString, get_args

from sqlalchemy import ColumnElement, Dialect, ForeignKey, Index, Integer, TypeDecorator, case, cast, func, text
from sqlalchemy.dialects.postgresql import JSONB, TSTZMULTIRANGE, Range
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import Mapped, aliased, mapped_column

from models.base import Base, Id
from models.predicates import Condition, and_, as_text, is_null, not_, or_

OccurrenceState = Literal["planned", "active", "past", "skipped"]
LONG = "ends_at - starts_at > interval '8 days'"
"""An occurrence so long that it may reach far into a range that it begins before; the condition of an index."""


def as_multirange(windows: Iterable[Range[datetime]]) -> str:
    """Return bounded ranges, their ends excluded, in the notation of PostgreSQL."""
    bounds = ((window.lower, window.upper) for window in windows)
    return f"{{{','.join(f'[{lower.isoformat()},{upper.isoformat()})' for lower, upper in bounds if lower and upper)}}}"


class Windows(TypeDecorator[list[Range[datetime]]]):
    """Many ranges of time, sent as one text: a tenth of the work of the driver."""

    impl = TSTZMULTIRANGE
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str | None]:  # noqa: ARG002 - SQLAlchemy's
        """Return what a value is sent as."""
        return lambda windows: None if windows is None else as_multirange(windows)


class Schedule(Base):
    """Windows that recur. A deleted one stays, for the freezes that it started."""

    __tablename__ = "schedules"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    name: Mapped[str]
    scope: Mapped[dict[str, Any]]
    timezone: Mapped[str]
    recurrence: Mapped[dict[str, Any]]
    """The contract's `Recurrence` object, keys in snake_case, dates as texts."""
    window: Mapped[dict[str, Any]] = mapped_column("wall_clock_window", key="window")
    """The contract's `ScheduleWindow` object, keys in snake_case. SQL knows WINDOW: the column has another name."""
    reason: Mapped[str]
    public_text: Mapped[str | None]
    """That of its freezes."""
    exceptions_allowed: Mapped[bool]
    exception_rules_allowed: Mapped[bool] = mapped_column(server_default="true")
    """That of its freezes."""
    enabled: Mapped[bool]
    allow_overlap: Mapped[bool]
    source: Mapped[str]
    """`manual` or `import`."""
    import_key: Mapped[str | None]
    """Identifies it to an import: the calendar's format, a digest of the imported scope, and the event's UID or the
    holiday's place and name. A schedule that a person deleted keeps it, one that an import deleted does not."""
    imported: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True), deferred=True)
    """The terms as the last import read them, to know later which of them people have edited and which the calendar
    has changed, and the name of the calendar if it has one. None also if that is not known."""
    created_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]
    planned_until: Mapped[datetime | None]
    """Until when occurrences are rows; None: it has to be planned again."""
    planned_with: Mapped[str | None]
    """Version of the time zone data that it was planned with."""
    windows: Mapped[list[Range[datetime]] | None] = mapped_column(Windows, deferred=True)
    """Its windows of the next 400 days, to find overlaps by; None while it is not enabled. Loaded on
    access only: hundreds of ranges take milliseconds to become objects."""
    overlaps_checked_at: Mapped[datetime | None]
    """When it was last compared with the others, for overlaps that arise after it was saved; None: not yet."""

    __table_args__ = (
        Index("ix_schedules_page", "organization_id", "id", postgresql_where=text("deleted_at IS NULL")),
        Index(
            "uq_schedules_import_key",
            "organization_id",
            "import_key",
            unique=True,
            postgresql_where=text("import_key IS NOT NULL"),
        ),
        Index("ix_schedules_planned_until", "planned_until", postgresql_where=text("enabled AND deleted_at IS NULL")),
        Index("ix_schedules_planned_with", "planned_with", postgresql_where=text("enabled AND deleted_at IS NULL")),
    )

    @hybrid_property
    def is_running(self) -> bool:
        """True if the windows of the schedule begin: it is enabled, and not deleted."""
        return and_(self.enabled, is_null(self.deleted_at))

    @hybrid_property
    def is_compared(self) -> bool:
        """True if an overlap of the schedule with another one needs attention."""
        return and_(self.is_running, not_(self.allow_overlap))


Index("ix_schedules_overlaps", Schedule.overlaps_checked_at, postgresql_where=Schedule.is_compared)

RUNNING: LiteralString = as_text(aliased(Schedule, name="s").is_running)
"""`Schedule.is_running` for statements written as text: of the table `schedules` as `s`."""
COMPARED: LiteralString = as_text(aliased(Schedule, name="s").is_compared)
"""`Schedule.is_compared` for statements written as text: of the table `schedules` as `s`."""


class Occurrence(Base):
    """One window of a schedule in real time. Its state follows from its instants and its freeze; no column holds it."""

    __tablename__ = "occurrences"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    schedule_id: Mapped[str] = mapped_column(ForeignKey("schedules.id"))
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    skip_reason: Mapped[str | None]
    skipped_by: Mapped[dict[str, Any] | None]
    verified_at: Mapped[datetime | None]
    """When verification of its branches was requested, before it begins."""
    started_at: Mapped[datetime | None]
    freeze_id: Mapped[str | None] = mapped_column(ForeignKey("freezes.id"))
    due_at: Mapped[datetime | None]
    """When it could first begin, if it was planned while its window was open already; None: at its start."""
    late: Mapped[bool] = mapped_column(server_default="false")
    missed_at: Mapped[datetime | None]
    """When it was recorded that it passed without a freeze."""

    __table_args__ = (
        Index("uq_occurrences_starts_at", "schedule_id", "starts_at", unique=True),
        # The calendar of a month counts thousands, and reads no rows but those that it shows.
        Index(
            "ix_occurrences_page",
            "organization_id",
            "starts_at",
            "id",
            postgresql_include=["ends_at", "schedule_id"],
        ),
        # Few are skipped: to list them takes no walk through all the others.
        Index(
            "ix_occurrences_skipped",
            "organization_id",
            "starts_at",
            "id",
            postgresql_where=text("skip_reason IS NOT NULL"),
        ),
        Index("ix_occurrences_long", "organization_id", "ends_at", "starts_at", postgresql_where=text(LONG)),
        Index("ix_occurrences_freeze_id", "freeze_id", postgresql_where=text("freeze_id IS NOT NULL")),
    )

    @hybrid_property
    def is_unsettled(self) -> bool:
        """True if the occurrence is not recorded as started, skipped or missed."""
        return and_(is_null(self.started_at), is_null(self.skip_reason), is_null(self.missed_at))

    @hybrid_method
    def is_planned(self, now: datetime) -> bool:
        """True if the occurrence has not started yet; its window may be open already."""
        return and_(self.is_unsettled, self.ends_at > now)

    @hybrid_method
    def is_due(self, now: datetime, schedule_running: Condition, may_start: Condition) -> bool:
        """True if the occurrence is to begin now, and counts as frozen until it has begun or is over.

        `schedule_running` is of its schedule, `may_start` of its organisation (`models.due_windows`).
        """
        return and_(self.is_planned(now), self.starts_at <= now, schedule_running, may_start)

    @hybrid_method
    def is_missed(self, now: datetime) -> bool:
        """True if the window of the occurrence passed without a freeze."""
        return and_(is_null(self.started_at), is_null(self.skip_reason), self.ends_at <= now)

    @hybrid_property
    def seconds_late(self) -> int:
        """How many seconds after it could first begin it started, if it was late; else 0."""
        if not self.late or self.started_at is None:
            return 0
        return (self.started_at - (self.due_at or self.starts_at)) // timedelta(seconds=1)

    @seconds_late.inplace.expression
    @classmethod
    def _seconds_late(cls) -> ColumnElement[int]:
        seconds = func.floor(func.extract("epoch", cls.started_at - func.coalesce(cls.due_at, cls.starts_at)))
        return case((cls.late, func.coalesce(cast(seconds, Integer), 0)), else_=0)

    @hybrid_method
    def has_state(self, state: OccurrenceState, now: datetime, freeze_in_force: Condition) -> bool:
        """True if the occurrence is in the state; `freeze_in_force` is of the freeze that it started, if it did.

        - `skipped`: the reason is recorded (`asked`, `no_such_time`, `no_targets`).
        - `past`: it has ended, it was missed, or it started and its freeze is no longer in force.
        - `active`: it has started and not ended, and its freeze is in force; a freeze that was extended lasts longer
          than its occurrence.
        - `planned`: everything else.
        """
        if state == "planned":
            return self.is_planned(now)
        skipped = not_(is_null(self.skip_reason))
        if state == "skipped":
            return skipped
        started, frozen = not_(is_null(self.started_at)), and_(not_(is_null(self.freeze_id)), freeze_in_force)
        if state == "past":
            over = or_(self.ends_at <= now, not_(is_null(self.missed_at)), and_(started, not_(frozen)))
            return and_(not_(skipped), over)
        return and_(not_(skipped), is_null(self.missed_at), started, frozen, self.ends_at > now)

    def state(self, now: datetime, *, freeze_in_force: bool) -> OccurrenceState:
        """Return the state of the occurrence."""
        return next(state for state in get_args(OccurrenceState) if self.has_state(state, now, freeze_in_force))


Index(
    "ix_occurrences_planned",
    Occurrence.schedule_id,
    Occurrence.starts_at,
    postgresql_where=Occurrence.is_unsettled,
)
Index("ix_occurrences_due", Occurrence.starts_at, postgresql_where=Occurrence.is_unsettled)
Index(
    "ix_occurrences_unsettled",
    Occurrence.organization_id,
    Occurrence.starts_at,
    postgresql_where=Occurrence.is_unsettled,
)


class CancelledWindow(Base):
    """A window that was taken from the plan before it began, with the id that its occurrence had."""

    __tablename__ = "cancelled_windows"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    schedule_id: Mapped[str] = mapped_column(ForeignKey("schedules.id"), index=True)
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime] = mapped_column(index=True)
    cancelled_at: Mapped[datetime] = mapped_column(server_default=text("now()"))

    __table_args__ = (Index("ix_cancelled_windows_organization_id", "organization_id", "starts_at"),)
