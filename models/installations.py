"""Installations of the GitHub App."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, func, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base
from models.leases import Leased


class Installation(Base):
    """An installation has its id from GitHub; it belongs to one organisation at most."""

    __tablename__ = "installations"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"), index=True)
    account: Mapped[str]
    state: Mapped[str] = mapped_column(server_default="active")
    """`active`, `suspended` or `removed`."""
    repository_selection: Mapped[str] = mapped_column(server_default="all")
    permissions: Mapped[dict[str, Any]]
    status_version: Mapped[int] = mapped_column(server_default="0")
    """Counts how often GitHub's answer about it was recorded, so that answers out of order are noticed."""
    created_at: Mapped[datetime]
    refused_until: Mapped[datetime | None]
    """Until when GitHub refuses calls, as it said; `paused_until` has waits for our own budget as well."""
    paused_until: Mapped[datetime | None]
    """Until when GitHub limits us; every worker obeys it."""
    paused_since: Mapped[datetime | None]
    """Since when it limits us without a break."""
    content_counting: Mapped[str | None]
    """How GitHub was observed to count checks as created content (`requests` or `aliases`), and when."""
    content_learnt_at: Mapped[datetime | None]
    resync_due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    """When the next step of its resync is due (`services/maintenance/resync.py`)."""
    resync_after: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """The check after which the round goes on."""
    resync_began_at: Mapped[datetime | None]
    """When the round began; None between two."""
    resync_urgent: Mapped[bool] = mapped_column(server_default="false")
    """Whether the steps of the round follow each other at once."""
    synced_at: Mapped[datetime | None]
    """When its list of repositories was last read completely."""

    __table_args__ = (Index("ix_installations_resync", "resync_due_at"),)


class RepositorySync(Leased, Base):
    """A comparison of our repositories with those that an installation covers; due while one is requested."""

    __tablename__ = "repository_syncs"
    __table_args__ = (Index("ix_repository_syncs_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),)

    installation_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("installations.id"), primary_key=True, autoincrement=False
    )
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    requested_at: Mapped[datetime]


_BEGIN_FULL_RESYNC = text("""
    UPDATE installations SET resync_due_at = :now, resync_after = 0, resync_began_at = NULL, resync_urgent = true
    WHERE id IN (SELECT id FROM installations WHERE organization_id IS NOT NULL ORDER BY id FOR NO KEY UPDATE)
""")


def begin_full_resync(session: Session, now: datetime) -> None:
    """Have everything read back from GitHub, and compared: an urgent round of the resync of every installation."""
    session.execute(_BEGIN_FULL_RESYNC, {"now": now})
