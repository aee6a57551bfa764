"""The audit trail. Append-only: nobody, the application included, has the right to change or remove a row."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, text
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

    __table_args__ = (
        Index("ix_audit_entries_page", "organization_id", "at", "id"),
        Index("ix_audit_entries_action", "organization_id", "action", "at", "id"),
        Index("ix_audit_entries_actor", "organization_id", text("(actor ->> 'id')"), "at", "id"),
        Index("ix_audit_entries_target", "organization_id", text("(target ->> 'id')"), "at", "id"),
    )


class AuditSeal(Base):
    """The place of a committed entry in its organisation's chain: each hash covers the entry and the one before it."""

    __tablename__ = "audit_seals"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    entry_id: Mapped[str]
    hash: Mapped[bytes]
    previous_hash: Mapped[bytes]
    sealed_at: Mapped[datetime]

    __table_args__ = (Index("uq_audit_seals_entry_id", "entry_id", unique=True),)


class UnsealedEntry(Base):
    """An entry that waits for its seal. A trigger writes it with the entry, whoever wrote that."""

    __tablename__ = "audit_unsealed"

    entry_id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))

    __table_args__ = (Index("ix_audit_unsealed_organization_id", "organization_id"),)
