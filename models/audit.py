"""The audit trail. Append-only: nobody, the application included, has the right to change or remove a row."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class AuditEntry(Base):
    """Who did what to which object, when, and by which way."""

    __tablename__ = "audit_entries"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    at: Mapped[datetime]
    action: Mapped[str]
    actor: Mapped[dict[str, Any]]
    source: Mapped[str]
    target: Mapped[dict[str, Any]]
    request_id: Mapped[str | None]
    details: Mapped[dict[str, Any]]

    __table_args__ = (Index("ix_audit_entries_page", "organization_id", "at", "id"),)
