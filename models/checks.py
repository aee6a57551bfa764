"""Checks that rules require: what the reconciler works on, and how others request that."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Identity, Index, SmallInteger, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base
from models.leases import Leased


class Check(Leased, Base):
    """A check by name in a repository: that of one branch, or that which the branches of a pattern share.

    A trigger adds the rows of a branch. A generation is a number of one sequence, taken while the row is locked:
    `wanted_generation` rises with every change that may change a verdict, `written_generation` is the one that GitHub
    is known to show. `due_at` is when the next pass should work on it, `lease_token` is that of the pass that does.
    """

    __tablename__ = "checks"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    installation_id: Mapped[int] = mapped_column(BigInteger)
    """That of its repository, which a foreign key keeps."""
    repository_id: Mapped[str]
    name: Mapped[str]
    branch_id: Mapped[str | None] = mapped_column(ForeignKey("watched_branches.id", ondelete="CASCADE"))
    """The branch whose own check it is; None: that of a pattern."""
    wanted_generation: Mapped[int] = mapped_column(BigInteger, server_default="0")
    written_generation: Mapped[int] = mapped_column(BigInteger, server_default="0")
    outdated_since: Mapped[datetime | None]
    """Since when a change of its verdicts waits to be written; None: GitHub is known to show them."""
    merge_rank: Mapped[int] = mapped_column(SmallInteger, server_default="9")
    """How soon its most mergeable head could be merged; the smallest is first (`rules/freezes/merge_rank.py`)."""
    deferred_rank: Mapped[int | None] = mapped_column(SmallInteger)
    """The same of what is left to be written, where a pass has deferred it."""

    __table_args__ = (
        ForeignKeyConstraint(
            ["repository_id", "installation_id"],
            ["repositories.id", "repositories.installation_id"],
            name="fk_checks_repository_id",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        Index("uq_checks_name", "repository_id", "name", unique=True),
        Index("uq_checks_branch_id", "branch_id", unique=True, postgresql_where=text("branch_id IS NOT NULL")),
        Index("ix_checks_installation_id", "installation_id", "id"),
        Index("ix_checks_due", "installation_id", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("ix_checks_outdated", "outdated_since", postgresql_where=text("outdated_since IS NOT NULL")),
    )


class ReadBack(Base):
    """A request to read, from `at` on, what GitHub shows of a check, instead of trusting what is recorded."""

    __tablename__ = "read_backs"

    check_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("checks.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    at: Mapped[datetime] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)


_OF_BRANCHES = """
    SELECT c.id FROM watched_branches b
    JOIN checks c ON c.repository_id = b.repository_id AND c.name IN (b.check_name, b.pattern_check_name)
    WHERE b.id = ANY(:ids)
"""
# Branches before their checks, as everywhere.
_BRANCHES = """
    SELECT id, repository_id, pattern_check_name FROM watched_branches WHERE id = ANY(:ids)
    ORDER BY id FOR NO KEY UPDATE
"""
_CHECKS = """
    SELECT c.id FROM branches b JOIN checks c ON c.branch_id = b.id
    UNION
    SELECT c.id FROM branches b JOIN checks c ON c.repository_id = b.repository_id AND c.name = b.pattern_check_name
"""
_LOCK = text(f"""
    WITH branches AS MATERIALIZED ({_BRANCHES})
    SELECT id FROM checks WHERE id IN ({_CHECKS}) OR id = ANY(CAST(:checks AS bigint[])) ORDER BY id FOR NO KEY UPDATE
""")  # noqa: S608 - constants of ours
# The number is taken when all rows are locked, so that on each of them a later change has a higher one.
_MARK_DIRTY = text(f"""
    WITH branches AS MATERIALIZED ({_BRANCHES}), locked AS MATERIALIZED (
        SELECT id FROM checks WHERE id IN ({_CHECKS}) ORDER BY id FOR NO KEY UPDATE
    ), next AS MATERIALIZED (
        SELECT nextval('generations') AS generation FROM (SELECT count(*) AS rows FROM locked) counted
    )
    UPDATE checks c
    SET wanted_generation = next.generation, due_at = :now, attempts = 0, deferred_rank = NULL,
        outdated_since = CASE WHEN :outdated THEN coalesce(c.outdated_since, :now) ELSE c.outdated_since END
    FROM locked, next WHERE c.id = locked.id
""")  # noqa: S608 - constants of ours
_READ_BACK = text(f"""
    INSERT INTO read_backs (check_id, at, organization_id)
    SELECT c.id, :now, c.organization_id FROM checks c WHERE c.id IN ({_OF_BRANCHES})
    ON CONFLICT DO NOTHING
""")  # noqa: S608 - a constant of ours


def lock_affected(session: Session, branch_ids: Collection[str], check_ids: Collection[int] = ()) -> None:
    """Lock branches, and their checks and further ones, in the order of their ids, so that two callers never deadlock.

    A transaction that changes what covers branches locks them here, all at once.
    """
    session.execute(_LOCK, {"ids": list(branch_ids), "checks": list(check_ids)})


def mark_dirty(session: Session, branch_ids: Collection[str], now: datetime, *, outdated: bool = True) -> None:
    """Mark the checks of branches as dirty: lock them; they get a new generation and are due now.

    Without `outdated`, their heads may be others at GitHub, and no verdict has changed in the database.
    """
    session.execute(_MARK_DIRTY, {"ids": list(branch_ids), "now": now, "outdated": outdated})


def request_read_back(session: Session, branch_ids: Collection[str], now: datetime) -> None:
    """Have the checks of branches that are marked dirty read back."""
    session.execute(_READ_BACK, {"ids": list(branch_ids), "now": now})
