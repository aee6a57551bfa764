"""Calendar feeds: addresses of calendars that programs subscribe to."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class CalendarFeed(Base):
    """The SHA-256 of the secret in the address of a calendar, of everything, of one schedule or of one repository."""

    __tablename__ = "calendar_feeds"
    __table_args__ = (
        Index("ix_calendar_feeds_organization_id", "organization_id", "created_at", "id"),
        Index("uq_calendar_feeds_token_hash", "token_hash", unique=True),
    )

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), index=True)
    """Who created it: it ends when this person leaves the organisation."""
    name: Mapped[str]
    schedule_id: Mapped[str | None] = mapped_column(ForeignKey("schedules.id"), index=True)
    repository_id: Mapped[str | None] = mapped_column(ForeignKey("repositories.id"), index=True)
    token_hash: Mapped[bytes] = mapped_column(LargeBinary)
    created_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
