"""Pull requests as last read from GitHub, and the checks that we wrote on their heads."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, SmallInteger, text
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


class HeadCheck(Base):
    """What we last wrote on a head under one check name. A row without an evaluation (0) only holds a write intent.

    `evaluation` orders verdicts (a database sequence): a record is never replaced by an older one (I2).
    `tracked` is false once no open pull request or queue entry has this head; a `success` may then not stand.
    """

    __tablename__ = "head_checks"

    repository_id: Mapped[str] = mapped_column(ForeignKey("repositories.id"), primary_key=True)
    check_name: Mapped[str] = mapped_column(primary_key=True)
    head_sha: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"))
    """The branch on whose account it was written: of a pattern's check, any of the siblings."""
    conclusion: Mapped[str]
    evaluation: Mapped[int] = mapped_column(BigInteger)
    check_run_id: Mapped[int | None] = mapped_column(BigInteger)
    summary_hash: Mapped[str]
    """Of title and summary: where the text is outdated, the check is written again. Empty: in any case."""
    tracked: Mapped[bool] = mapped_column(server_default="true")
    unconfirmed: Mapped[bool] = mapped_column(server_default="false")
    """Whether GitHub may show something that is not recorded: a write was announced, or arrived too late
    (`services/reconcile/write_intents.py`)."""
    intent_leases: Mapped[list[str]] = mapped_column(server_default="{}")
    """The tokens of the leases under which writes are sent whose results are not known."""
    intent_until: Mapped[datetime | None]
    """When the last of those writes has arrived, if it ever does. Until then other leases do not confirm the head."""
    written_at: Mapped[datetime]

    @property
    def may_let_in(self) -> bool:
        """True if GitHub shows its success, or may still get it from a write that is under way."""
        return self.conclusion == "success" or self.unconfirmed

    __table_args__ = (
        Index("ix_head_checks_tracked", "repository_id", "check_name", postgresql_where=text("tracked")),
        Index(
            "ix_head_checks_standing",
            "repository_id",
            "check_name",
            postgresql_where=text("conclusion = 'success' OR unconfirmed"),
        ),
        Index(
            "ix_head_checks_superseded",
            "repository_id",
            "check_name",
            postgresql_where=text("NOT tracked AND (conclusion = 'success' OR unconfirmed)"),
        ),
    )
