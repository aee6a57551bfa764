"""The audit trail. Append-only: no database role of the application has the right to change or remove a row."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Computed, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class AuditEntry(Base):
    """Who did what to which object, when, and through which entrance."""

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
    actor_id: Mapped[str | None] = mapped_column(Computed("(actor ->> 'id')", persisted=True))
    target_id: Mapped[str | None] = mapped_column(Computed("(target ->> 'id')", persisted=True))
    """Columns of their own: with row-level security, PostgreSQL does not use an index of an expression."""

    __mapper_args__ = {"eager_defaults": False}  # noqa: RUF012 - as SQLAlchemy wants it
    __table_args__ = (
        Index("ix_audit_entries_page", "organization_id", "at", "id"),
        Index("ix_audit_entries_action", "organization_id", "action", "at", "id"),
        Index("ix_audit_entries_actor", "organization_id", "actor_id", "at", "id"),
        Index("ix_audit_entries_target", "organization_id", "target_id", "at", "id"),
        Index("ix_audit_entries_source", "organization_id", "source", "at", "id"),
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
    """Never before the entry's instant, nor before that of the seal before: it orders as the sequence does."""
    late: Mapped[bool] = mapped_column(server_default="false")
    """Whether that is long after the entry's instant: few are, so those of a time are found among the others'."""
    action: Mapped[str]
    actor_id: Mapped[str | None]
    target_id: Mapped[str | None]
    source: Mapped[str]
    """What entries are filtered by, so that an index gives them in the order of the seals."""

    __table_args__ = (
        Index("uq_audit_seals_entry_id", "entry_id", unique=True),
        Index("ix_audit_seals_page", "organization_id", "sealed_at", "sequence"),
        Index("ix_audit_seals_action", "organization_id", "action", "sealed_at", "sequence"),
        Index("ix_audit_seals_actor", "organization_id", "actor_id", "sealed_at", "sequence"),
        Index("ix_audit_seals_target", "organization_id", "target_id", "sealed_at", "sequence"),
        Index("ix_audit_seals_source", "organization_id", "source", "sealed_at", "sequence"),
        Index("ix_audit_seals_late", "organization_id", "sealed_at", postgresql_where=text("late")),
    )


class AuditRemoval(Base):
    """The end of a range of seals that left the database after an export: the chain begins behind the last of them."""

    __tablename__ = "audit_removals"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    hash: Mapped[bytes]
    sealed_at: Mapped[datetime]
    """Of the last seal of the range; no entry of the range is younger."""
    file_sha256: Mapped[bytes]
    """Identifies the file that has them."""
    removed_by: Mapped[str]
    recorded_at: Mapped[datetime]


class UnsealedEntry(Base):
    """An entry that waits for its seal. A trigger writes it with the entry, whatever wrote that."""

    __tablename__ = "audit_unsealed"

    entry_id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))

    __table_args__ = (Index("ix_audit_unsealed_next", "organization_id", "entry_id"),)
