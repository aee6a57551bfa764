"""Repositories mirrored from GitHub, and the branches watched in them."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Computed, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.leases import Leased


class Repository(Base):
    """A repository that an installation covers. Its id outlives renames and transfers."""

    __tablename__ = "repositories"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    installation_id: Mapped[int] = mapped_column(BigInteger, ForeignKey("installations.id"))
    github_id: Mapped[int] = mapped_column(BigInteger)
    node_id: Mapped[str]
    owner: Mapped[str]
    name: Mapped[str]
    full_name_key: Mapped[str] = mapped_column(Computed("lower(owner || '/' || name)", persisted=True))
    """`owner/name` in lower case. Look-ups compare it, and no expression: row-level security lets no function see rows
    of others, so an index on an expression would be of no use to requests."""
    default_branch: Mapped[str]
    private: Mapped[bool]
    archived: Mapped[bool] = mapped_column(server_default="false")
    enabled: Mapped[bool] = mapped_column(server_default="false")
    auto_watch: Mapped[list[str]] = mapped_column(server_default="{}")
    former_globs: Mapped[list[str]] = mapped_column(server_default="{}")
    """Patterns that once reached further: a rule may still require their check on branches that are yet to come."""
    former_names: Mapped[list[str]] = mapped_column(server_default="{}")
    """Names it had before, in lower case, kept by a trigger: references by them stay valid."""
    renamed: Mapped[bool] = mapped_column(Computed("former_names <> '{}'", persisted=True))
    """Whether it has any. Look-ups by a former name ask for it, since no index on the names is of use to requests."""
    created_at: Mapped[datetime]
    synced_at: Mapped[datetime]
    removed_at: Mapped[datetime | None]
    """Since when the installation no longer covers it; hidden from then on, its freezes stay."""
    rulesets_authorized_by: Mapped[str | None]
    """The GitHub login of the administrator who authorised the service to write its rulesets."""
    rulesets_authorized_at: Mapped[datetime | None]

    __table_args__ = (
        Index("uq_repositories_github_id", "organization_id", "github_id", unique=True),
        Index("ix_repositories_full_name_key", "organization_id", "full_name_key"),
        Index("ix_repositories_renamed", "organization_id", "created_at", "id", postgresql_where=text("renamed")),
        Index("ix_repositories_page", "organization_id", "created_at", "id"),
        Index("ix_repositories_installation", "installation_id"),
        Index("ix_repositories_github_id", "github_id"),
        UniqueConstraint("id", "installation_id", name="uq_repositories_installation"),
    )

    @property
    def full_name(self) -> str:
        """`owner/name`, as GitHub spells it now."""
        return f"{self.owner}/{self.name}"


class RemoteBranchList(Base):
    """The branches that GitHub listed at `fetched_at`: a cache that all processes share."""

    __tablename__ = "remote_branch_lists"

    repository_id: Mapped[str] = mapped_column(ForeignKey("repositories.id"), primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    fetched_at: Mapped[datetime]
    branches: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    """Each with `name`, `sha` and `protected`, by name."""


class WatchedBranch(Base):
    """A branch whose merging can be frozen."""

    __tablename__ = "watched_branches"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    repository_id: Mapped[str] = mapped_column(ForeignKey("repositories.id"))
    name: Mapped[str]
    check_name: Mapped[str]
    """Its own check, which no other branch has."""
    pattern_check_name: Mapped[str | None]
    """The check of the `autoWatch` pattern that it matched when it became known, which its branches share."""
    exceptions_allowed: Mapped[bool] = mapped_column(server_default="true")
    created_at: Mapped[datetime]
    unwatched_at: Mapped[datetime | None]
    never_watched: Mapped[bool] = mapped_column(server_default="false")
    """Whether it is unwatched, and not by people: either a rule may require our check on it, so that its heads get
    `success`, or it was deleted at GitHub. `autoWatch` watches it when it can."""

    @property
    def check_names(self) -> tuple[str, ...]:
        """The names of the checks that its heads have: its own, and that of its pattern."""
        return (self.check_name,) if self.pattern_check_name is None else (self.check_name, self.pattern_check_name)

    __table_args__ = (
        Index("uq_watched_branches_name", "repository_id", "name", unique=True),
        Index("ix_watched_branches_page", "organization_id", "created_at", "id"),
    )


class BranchTip(Leased, Base):
    """The commit that a branch pointed at when it was last read; due if it moved while a freeze covered the branch."""

    __tablename__ = "branch_tips"

    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"), primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    sha: Mapped[str]
    seen_at: Mapped[datetime]
    moved_since: Mapped[datetime | None]
    """Of a due one: when it was last seen before it moved. What arrived earlier was examined."""

    __table_args__ = (Index("ix_branch_tips_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),)
