"""What is stored of requests and of tasks: idempotent replies, webhook deliveries, when periodic tasks were done."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, LargeBinary, ScalarSelect, func, select, text
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
    """What it requests (`services/webhooks/stored_requests.py`), without what else GitHub has sent."""
    received_at: Mapped[datetime]
    processed_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_webhook_deliveries_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("ix_webhook_deliveries_received_at", "received_at"),
    )


WINDOWS = "windows"
"""The task of the sweep that starts windows and records ends."""
MORE_WINDOWS = ("windows_2", "windows_3", "windows_4")
"""Tasks that do the same beside it, while more is due than one process does at once."""


class PeriodicTask(Leased, Base):
    """When a task that runs again and again was last done.

    Tasks of the sweep are leased: `due_at` says when one is to be done next. Others have no lease and no `due_at`; what
    runs them looks whether their period is over.
    """

    __tablename__ = "periodic_tasks"

    name: Mapped[str] = mapped_column(primary_key=True)
    done_at: Mapped[datetime]

    @classmethod
    def windows_done_at(cls) -> ScalarSelect[datetime]:
        """Return when any process last looked at windows and ends; none before the first time."""
        return select(cls.done_at).where(cls.name == WINDOWS).scalar_subquery()

    @classmethod
    def last_swept_at(cls) -> ScalarSelect[datetime]:
        """Return when the task of the sweep was done that was done longest ago; none before the first sweep."""
        return select(func.min(cls.done_at)).where(cls.due_at.is_not(None)).scalar_subquery()
