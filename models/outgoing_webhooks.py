"""Outgoing webhooks: the endpoints of organisations, and the messages for them."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, LargeBinary, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.leases import Leased

MessageState = Literal["pending", "delivered", "failed"]


class WebhookEndpoint(Base):
    """An address that an organisation has its events sent to. One that is deleted keeps neither address nor secret."""

    __tablename__ = "webhook_endpoints"
    __table_args__ = (Index("ix_webhook_endpoints_page", "organization_id", "created_at", "id"),)

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    name: Mapped[str]
    url: Mapped[str]
    events: Mapped[list[str]] = mapped_column(ARRAY(Text))
    """Events, families (`freeze.*`) or `*`."""
    remind_before: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    """How many minutes before planned windows `window.upcoming` is sent."""
    encrypted_secret: Mapped[bytes | None] = mapped_column(LargeBinary)
    encrypted_previous_secret: Mapped[bytes | None] = mapped_column(LargeBinary)
    previous_secret_ends_at: Mapped[datetime | None]
    """Until when the secret before the last rotation signs too."""
    enabled: Mapped[bool]
    disabled_reason: Mapped[str | None]
    """`by_person`, `gone` (it answered 410) or `failing`."""
    disabled_at: Mapped[datetime | None]
    failing_since: Mapped[datetime | None]
    """The first failed attempt after the last that succeeded."""
    last_failure_at: Mapped[datetime | None]
    created_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]


class WebhookMessage(Base, Leased):
    """One event for one endpoint, as it is sent with each attempt; it is kept for 30 days."""

    __tablename__ = "webhook_messages"
    __table_args__ = (
        Index("ix_webhook_messages_page", "endpoint_id", "created_at", "id"),
        Index("ix_webhook_messages_due", "endpoint_id", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("uq_webhook_messages_sequence", "endpoint_id", "sequence", unique=True),
        Index("ix_webhook_messages_organization_id", "organization_id"),
        Index("ix_webhook_messages_created_at", "created_at"),
    )

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    endpoint_id: Mapped[str] = mapped_column(ForeignKey("webhook_endpoints.id"))
    event: Mapped[str]
    entry_id: Mapped[str | None]
    """The audit entry of the event, if there is one."""
    sequence: Mapped[int | None] = mapped_column(BigInteger)
    """The position of that entry: no entry is written twice for an endpoint."""
    body: Mapped[str]
    """JSON, byte for byte as it is sent."""
    created_at: Mapped[datetime]
    attempt_count: Mapped[int] = mapped_column(server_default="0")
    """All attempts, also those before a redelivery."""
    last_attempt_at: Mapped[datetime | None]
    last_status: Mapped[int | None]
    last_answer: Mapped[str | None]
    """The first kilobyte of the last response."""
    delivered_at: Mapped[datetime | None]

    @property
    def state(self) -> MessageState:
        """`pending` while an attempt is planned or under way."""
        if self.due_at is not None:
            return "pending"
        return "failed" if self.delivered_at is None else "delivered"
