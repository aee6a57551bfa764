"""Pull requests as last read from GitHub, and the checks that we wrote on their heads."""

from datetime import datetime

from sqlalchemy import ARRAY, BigInteger, ForeignKey, Index, Integer, SmallInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class PullRequest(Base):
    """A pull request into a watched branch. GitHub is the source of truth; this row mirrors it."""

    __tablename__ = "pull_requests"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    repository_id: Mapped[str] = mapped_column(ForeignKey("repositories.id"))
    number: Mapped[int]
    title: Mapped[str]
    author: Mapped[str]
    url: Mapped[str]
    base_branch: Mapped[str]
    head_sha: Mapped[str]
    head_since: Mapped[datetime | None]
    """When we first read the present head, into the present base; None: not known."""
    node_id: Mapped[str | None]
    """GitHub's own id for queries; None: not read yet."""
    state: Mapped[str]
    """`open`, or `closed` (also merged: the reconciler reads open ones only)."""
    merge_rank: Mapped[int] = mapped_column(SmallInteger)
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]

    __table_args__ = (
        Index("uq_pull_requests_number", "repository_id", "number", unique=True),
        Index("ix_pull_requests_open", "repository_id", "base_branch", postgresql_where=text("state = 'open'")),
        Index("ix_pull_requests_head", "repository_id", "head_sha", postgresql_where=text("state = 'open'")),
    )


class QueuedCommit(Base):
    """A commit of the merge queue of a branch, as last read."""

    __tablename__ = "queue_entries"

    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id", ondelete="CASCADE"), primary_key=True)
    head_sha: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    position: Mapped[int] = mapped_column(server_default="0")
    """1 is the front."""
    numbers: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))
    """All pull requests that would be merged with it; None: GitHub does not name them."""


class HeadCheck(Base):
    """What we last wrote on a head under one check name. A row without an evaluation (0) only announces a write.

    `evaluation` orders verdicts (a database sequence): a record is never replaced by an older one (I2).
    """

    __tablename__ = "head_checks"

    repository_id: Mapped[str] = mapped_column(ForeignKey("repositories.id"), primary_key=True)
    check_name: Mapped[str] = mapped_column(primary_key=True)
    head_sha: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"))
    """Its branch; of a pattern's check, any of the branches that the head could enter."""
    conclusion: Mapped[str]
    evaluation: Mapped[int] = mapped_column(BigInteger)
    check_run_id: Mapped[int | None] = mapped_column(BigInteger)
    summary_hash: Mapped[str]
    """Of title and summary: where the text is outdated, the check is written again. Empty: in any case."""
    unconfirmed: Mapped[bool] = mapped_column(server_default="false")
    """Whether GitHub may show something that is not recorded: a write was announced, or arrived too late
    (`services/reconcile/check_records.py`)."""
    in_flight_until: Mapped[datetime | None]
    """When a write whose result nobody waits for has arrived, if it ever does: until then nothing confirms the head."""
    written_at: Mapped[datetime]

    def is_in_flight(self, acquired_at: datetime) -> bool:
        """True if a write that nobody waits for may have arrived since then, or may still.

        What a lease that was acquired then has read or sent may be as old as that.
        """
        return self.in_flight_until is not None and self.in_flight_until > acquired_at

    @property
    def may_let_in(self) -> bool:
        """True if GitHub shows its success, or may still get it from a write that is under way."""
        return self.conclusion == "success" or self.unconfirmed

    __table_args__ = (
        Index(
            "ix_head_checks_standing",
            "repository_id",
            "check_name",
            postgresql_where=text("conclusion = 'success' OR unconfirmed"),
        ),
    )
