"""Exceptions: single pull requests that may merge during a freeze."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id

OPEN = "decision IS DISTINCT FROM 'denied' AND revoked_at IS NULL AND expired_at IS NULL"
"""A row that still grants, or may come to: pending or granted, its end not recorded; the condition of indexes."""

PENDING = "decision IS NULL AND revoked_at IS NULL AND expired_at IS NULL"
"""A request that nobody has decided, its end not recorded; the condition of an index."""


class PullRequestException(Base):
    """One pull request, one freeze: asked for, decided, and ended. Its state is told by its instants.

    It holds for the pull request on one base (`branch_id`), and under `pin_to_head` for the commit `head_sha` alone.
    """

    __tablename__ = "exceptions"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    request_group_id: Mapped[str]
    freeze_id: Mapped[str] = mapped_column(ForeignKey("freezes.id"))
    pull_request_id: Mapped[str] = mapped_column(ForeignKey("pull_requests.id"))
    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"))
    reason: Mapped[str]
    pin_to_head: Mapped[bool]
    head_sha: Mapped[str | None]
    """The head at the time of the request, or of the grant."""
    created_at: Mapped[datetime]
    requested_by: Mapped[dict[str, Any] | None]
    requested_at: Mapped[datetime | None]
    decision: Mapped[str | None]
    """`granted` or `denied`; None while it is pending."""
    decided_by: Mapped[dict[str, Any] | None]
    decided_at: Mapped[datetime | None]
    decision_reason: Mapped[str | None]
    expires_at: Mapped[datetime | None]
    revoked_by: Mapped[dict[str, Any] | None]
    revoked_at: Mapped[datetime | None]
    expired_at: Mapped[datetime | None]
    """When it ended by its time or with its freeze, once that is recorded."""
    used_at: Mapped[datetime | None]
    used_commit: Mapped[str | None]

    __table_args__ = (
        Index("ix_exceptions_page", "organization_id", "created_at", "id"),
        Index("ix_exceptions_pending", "organization_id", "created_at", "id", postgresql_where=text(PENDING)),
        Index("ix_exceptions_group", "request_group_id"),
        Index("ix_exceptions_freeze_id", "freeze_id"),
        Index("ix_exceptions_pull_request_id", "pull_request_id"),
        Index("ix_exceptions_branch_id", "branch_id"),
        Index(
            "uq_exceptions_open",
            "freeze_id",
            "pull_request_id",
            "branch_id",
            unique=True,
            postgresql_where=text(OPEN),
        ),
        Index("ix_exceptions_expires_at", "expires_at", postgresql_where=text(f"{OPEN} AND expires_at IS NOT NULL")),
    )
