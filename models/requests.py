"""What is stored of requests and of tasks: idempotent replies, webhook deliveries, when periodic tasks were done."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, LargeBinary, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base
from models.leases import Leased


class IdempotencyKey(Base):
    """A finished write under its client's key, and the reply that a retry gets again."""

    __tablename__ = "idempotency_keys"

    organization_id: Mapped[str] = mapped_column(primary_key=True)
    """Empty for operations that need no organisation."""
    principal_id: Mapped[str] = mapped_column(primary_key=True)
    key_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    request_hash: Mapped[bytes] = mapped_column(LargeBinary)
    status: Mapped[int]
    headers: Mapped[dict[str, Any]]
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    secret: Mapped[bool] = mapped_column(server_default="false")
    """Whether `body` is encrypted, and erased after an hour."""
    created_at: Mapped[datetime]

    __table_args__ = (Index("ix_idempotency_keys_created_at", "created_at"),)


class WebhookDelivery(Leased, Base):
    """A verified webhook delivery of GitHub. Its id makes a second one of it a no-op (I11)."""

    __tablename__ = "webhook_deliveries"

    delivery_id: Mapped[str] = mapped_column(primary_key=True)
    event: Mapped[str]
    installation_id: Mapped[int | None] = mapped_column(BigInteger)
    payload: Mapped[dict[str, Any]]
    received_at: Mapped[datetime]
    processed_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_webhook_deliveries_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("ix_webhook_deliveries_received_at", "received_at"),
    )


class PeriodicTask(Base):
    """When a periodic task of the sweeper was last done, so that any number of sweepers do it once."""

    __tablename__ = "periodic_tasks"

    name: Mapped[str] = mapped_column(primary_key=True)
    done_at: Mapped[datetime]
