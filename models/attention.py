"""Alerts: conditions that need attention, until they are resolved."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class AttentionItem(Base):
    """A condition that needs attention, or an event that has to be known; one open item for each key."""

    __tablename__ = "attention_items"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    key: Mapped[str]
    """Identifies the condition, so that it raises one item: `orphaned_requirement wbr_…`."""
    type: Mapped[str]
    severity: Mapped[str]
    """`info`, `warning` or `critical`."""
    since: Mapped[datetime]
    subject: Mapped[dict[str, Any]]
    """`{type, id, name}`."""
    message: Mapped[str]
    action: Mapped[dict[str, Any]]
    """`{label, url}`: what to do about it."""
    cleared_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_attention_items_page", "organization_id", "since", "id", postgresql_where=text("cleared_at IS NULL")),
        Index(
            "uq_attention_items_key",
            "organization_id",
            "key",
            unique=True,
            postgresql_where=text("cleared_at IS NULL"),
        ),
    )
