"""Schedules of freeze windows, and their occurrences."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Dialect, ForeignKey, Index, TypeDecorator, text
from sqlalchemy.dialects.postgresql import TSTZMULTIRANGE, Range
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id

UNSETTLED = "begun_at IS NULL AND skip_reason IS NULL AND missed_at IS NULL"
"""An occurrence of which nothing has been recorded yet; the condition of an index."""
COMPARED = "enabled AND deleted_at IS NULL AND NOT allow_overlap"
"""A schedule whose overlaps somebody should know of; the condition of an index."""
LONG = "ends_at - starts_at > interval '8 days'"
"""An occurrence so long that it may reach far into a range that it begins before; the condition of an index."""


def as_multirange(windows: Iterable[Range[datetime]]) -> str:
    """Return bounded ranges, their ends excluded, as PostgreSQL reads them."""
    bounds = ((window.lower, window.upper) for window in windows)
    return f"{{{','.join(f'[{lower.isoformat()},{upper.isoformat()})' for lower, upper in bounds if lower and upper)}}}"


class Windows(TypeDecorator[list[Range[datetime]]]):
    """Many ranges of time, sent as one text: a tenth of the work that the driver makes of them."""

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
    wall_clock_window: Mapped[dict[str, Any]]
    """The contract's `Window` object, keys in snake_case."""
    reason: Mapped[str]
    exceptions_allowed: Mapped[bool]
    enabled: Mapped[bool]
    allow_overlap: Mapped[bool]
    source: Mapped[str]
    """`manual` or `import`."""
    import_key: Mapped[str | None]
    """What an import finds it again by: the kind of calendar, and the event's UID or the holiday's name."""
    import_digest: Mapped[str | None]
    """Of what was imported, to tell what has changed since."""
    created_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]
    planned_until: Mapped[datetime | None]
    """Until when occurrences are rows; None: it has to be planned anew."""
    planned_with: Mapped[str | None]
    """Version of the time zone data that it was planned with."""
    windows: Mapped[list[Range[datetime]] | None] = mapped_column(Windows, deferred=True)
    """Its windows of the next 400 days, to find overlaps by; None while it is not enabled. Read only when it is asked
    for: hundreds of ranges take milliseconds to become objects."""
    overlaps_looked_for_at: Mapped[datetime | None]
    """When it was last compared with the others, for overlaps that arise after it was saved; None: not yet."""

    __table_args__ = (
        Index("ix_schedules_page", "organization_id", "id", postgresql_where=text("deleted_at IS NULL")),
        Index(
            "uq_schedules_import_key",
            "organization_id",
            "import_key",
            unique=True,
            postgresql_where=text("import_key IS NOT NULL AND deleted_at IS NULL"),
        ),
        Index("ix_schedules_planned_until", "planned_until", postgresql_where=text("enabled AND deleted_at IS NULL")),
        Index("ix_schedules_planned_with", "planned_with", postgresql_where=text("enabled AND deleted_at IS NULL")),
        Index("ix_schedules_overlaps", "overlaps_looked_for_at", postgresql_where=text(COMPARED)),
    )


class Occurrence(Base):
    """One window of a schedule in real time. Its state is told by its instants and its freeze, never by a flag."""

    __tablename__ = "occurrences"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    schedule_id: Mapped[str] = mapped_column(ForeignKey("schedules.id"))
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    skip_reason: Mapped[str | None]
    skipped_by: Mapped[dict[str, Any] | None]
    verified_at: Mapped[datetime | None]
    """When enforcement of its branches was asked to be looked at, before it begins."""
    begun_at: Mapped[datetime | None]
    freeze_id: Mapped[str | None] = mapped_column(ForeignKey("freezes.id"))
    due_at: Mapped[datetime | None]
    """When it could first begin, if somebody planned it while its window was open already; None: at its start."""
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
        Index("ix_occurrences_planned", "schedule_id", "starts_at", postgresql_where=text(UNSETTLED)),
        Index("ix_occurrences_due", "starts_at", postgresql_where=text(UNSETTLED)),
    )
