"""Freezes and the branches they cover."""

from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, text
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import Mapped, aliased, mapped_column

from models.base import Base, Id
from models.predicates import UNSEEN_NOW, and_, as_text, is_ahead, is_null, not_, or_

LONG_FREEZE: LiteralString = "ended_at - started_at >= interval '28 days'"
"""The condition of a freeze that lasted for 28 days at least, as its index has it."""


class Freeze(Base):
    """A freeze, in force or ended. Whether it is in force follows from its instants; no column holds it (I6)."""

    __tablename__ = "freezes"

    begun = True
    """False of the freeze of a due window that no process has begun: it is no row yet (`models.due_windows`)."""

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    reason: Mapped[str]
    public_text: Mapped[str | None]
    """What checks that everybody can read show in place of the reason."""
    scope: Mapped[dict[str, Any]]
    source: Mapped[str]
    """`manual` or `schedule`."""
    started_at: Mapped[datetime]
    ends_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
    """`lifted`, `overridden`, `expired`, `schedule_ended`, `installation_removed` or `organization_deleted`."""
    exceptions_allowed: Mapped[bool]
    exception_rules_allowed: Mapped[bool] = mapped_column(server_default="true")
    """Whether rules of exceptions may let pull requests pass it."""
    previewed_repo_count: Mapped[int | None]
    impact_acknowledged: Mapped[bool]
    schedule_id: Mapped[str | None]
    occurrence_id: Mapped[str | None]
    created_by: Mapped[dict[str, Any]]
    claimed_by: Mapped[str | None]
    """Whom a client of the compatibility API names as its user: a claim, and no identity."""
    ended_by: Mapped[dict[str, Any] | None]
    blocked_at: Mapped[datetime | None]
    """Since when GitHub refuses merges into all of its branches, by a stop or by checks; None while it does not."""
    enforced_at: Mapped[datetime | None]
    """Since when it refuses them by checks, which last; None while it does not."""
    first_enforced_at: Mapped[datetime | None]
    """When that was so for the first time."""
    unprotected_causes: Mapped[list[str] | None] = mapped_column(server_default="{}")
    """For what causes it was reported that branches are not blocked, since it was enforced last; None: it was in force
    when the service was upgraded, and has not been looked at since."""
    released_at: Mapped[datetime | None]
    targets_pending: Mapped[bool] = mapped_column(server_default="false")
    """Whether branches of its scope are still to be covered: a schedule's freeze covers very many in batches."""
    failing_since: Mapped[datetime | None]
    """Since when it has failed targets, which is recorded in the audit; None: it has none."""

    __table_args__ = (
        Index("ix_freezes_page", "organization_id", "started_at", "id"),
        Index("ix_freezes_running", "organization_id", postgresql_where=text("ended_at IS NULL")),
        Index(
            "ix_freezes_schedule",
            "schedule_id",
            "started_at",
            "id",
            postgresql_where=text("schedule_id IS NOT NULL"),
        ),
        Index(
            "uq_freezes_occurrence_id", "occurrence_id", unique=True, postgresql_where=text("occurrence_id IS NOT NULL")
        ),
        Index("ix_freezes_failing_since", "id", postgresql_where=text("failing_since IS NOT NULL")),
        Index("ix_freezes_targets_pending", "id", postgresql_where=text("targets_pending")),
        Index("ix_freezes_long", "organization_id", "ended_at", postgresql_where=text(LONG_FREEZE)),
        Index("ix_freezes_ends_at", "ends_at", postgresql_where=text("ended_at IS NULL")),
    )

    @hybrid_method
    def is_in_force(self, now: datetime) -> bool:
        """True if the freeze has started, was not ended, and has not reached its own end."""
        return and_(self.started_at <= now, is_null(self.ended_at), is_ahead(self.ends_at, now))

    @hybrid_property
    def is_incomplete(self) -> bool:
        """True if the freeze is not known to be enforced, or released once it has ended, on all of its branches."""
        ended = not_(is_null(self.ended_at))
        return or_(
            and_(not_(ended), is_null(self.enforced_at)),
            and_(ended, is_null(self.released_at)),
        )


Index("ix_freezes_incomplete", Freeze.id, postgresql_where=Freeze.is_incomplete)

_FREEZE = aliased(Freeze, name="f")
IN_FORCE: LiteralString = as_text(_FREEZE.is_in_force(UNSEEN_NOW))
"""`Freeze.is_in_force` for statements written as text: of the table `freezes` as `f`, at `:now`."""
INCOMPLETE: LiteralString = as_text(_FREEZE.is_incomplete)
"""`Freeze.is_incomplete` for statements written as text: of the table `freezes` as `f`."""


class FreezeVersion(Base):
    """A part of the version of an organisation's freezes: as long as all of its rows are the same, so are answers.

    Triggers give a row a new value in each transaction that changes what answers about freezes show: freezes, what they
    cover, windows, names, rules as read, and checks that begin to let a commit in. A transaction takes a row that no
    other one has changed, and adds one where there is none: so nobody waits for another. Values are random, and not
    numbers, since a restored database counts on from where it was.
    """

    __tablename__ = "freeze_versions"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    version: Mapped[UUID] = mapped_column(server_default=text("gen_random_uuid()"))


class FreezeTarget(Base):
    """One branch covered by one freeze, from the moment it is covered until the freeze ends (I14).

    `operation` turns from `apply` to `release` when the freeze ends; `generation` is the branch's generation that
    has to be written for the operation to be done.
    """

    __tablename__ = "freeze_targets"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    freeze_id: Mapped[str] = mapped_column(ForeignKey("freezes.id"))
    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"))
    state: Mapped[str] = mapped_column(server_default="pending")
    """`pending`, then `applied`; after the end of the freeze `releasing`, then `released`; or `failed`."""
    operation: Mapped[str] = mapped_column(server_default="apply")
    generation: Mapped[int] = mapped_column(BigInteger)
    heads_total: Mapped[int] = mapped_column(server_default="0")
    heads_written: Mapped[int] = mapped_column(server_default="0")
    """How many heads the branch has, and how many of them show their verdict."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    last_error_code: Mapped[str | None]
    last_error_message: Mapped[str | None]
    next_attempt_at: Mapped[datetime | None]
    applied_at: Mapped[datetime | None]
    released_at: Mapped[datetime | None]

    __table_args__ = (
        Index("uq_freeze_targets_branch", "freeze_id", "branch_id", unique=True),
        Index("ix_freeze_targets_branch_id", "branch_id"),
        Index("ix_freeze_targets_covering", "branch_id", postgresql_where=text("operation = 'apply'")),
        Index(
            "ix_freeze_targets_unfinished",
            "branch_id",
            postgresql_where=text("state IN ('pending', 'releasing', 'failed')"),
        ),
        Index("ix_freeze_targets_state", "freeze_id", "state"),
        Index("ix_freeze_targets_failed", "organization_id", "freeze_id", postgresql_where=text("state = 'failed'")),
    )
