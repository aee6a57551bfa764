"""Organisations, the people in them, their sessions, and the keys that sign access tokens."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary, text
from sqlalchemy.ext.hybrid import hybrid_method
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.leases import Leased
from models.predicates import and_, is_ahead, is_null


class Organization(Base):
    """A tenant: everything else belongs to exactly one."""

    __tablename__ = "organizations"
    __table_args__ = (
        Index(
            "ix_organizations_deleted",
            "deleted_at",
            postgresql_where=text("deleted_at IS NOT NULL AND purged_at IS NULL"),
        ),
    )

    id: Mapped[Id]
    name: Mapped[str]
    slug: Mapped[str] = mapped_column(unique=True)
    settings: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]
    purged_at: Mapped[datetime | None]
    """When its data was erased, 30 days after its deletion."""


class Withdrawal(Leased, Base):
    """The rules that we wrote at GitHub for a deleted organisation are to be removed."""

    __tablename__ = "withdrawals"
    __table_args__ = (Index("ix_withdrawals_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),)

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)


class User(Base):
    """A person; may be a member of several organisations."""

    __tablename__ = "users"
    __table_args__ = (Index("ix_users_name_key", text("name_key(name)")),)

    id: Mapped[Id]
    email: Mapped[str] = mapped_column(unique=True)
    """In lower case."""
    name: Mapped[str]
    created_at: Mapped[datetime]
    password_hash: Mapped[str | None]
    """Argon2id, with its parameters; only the role for people reads it."""
    email_verified_at: Mapped[datetime | None]


class Membership(Base):
    """A user's role in one organisation."""

    __tablename__ = "memberships"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    role: Mapped[str]
    created_at: Mapped[datetime]


class LoginSession(Base):
    """A sign-in: the `sid` that access tokens name. Revoking it ends them all at once."""

    __tablename__ = "sessions"

    id: Mapped[Id]
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), index=True)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    """The organisation that was made active, or none."""
    support: Mapped[bool] = mapped_column(server_default="false")
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    kind: Mapped[str] = mapped_column(server_default="browser")
    """`browser`, `device` or `support`."""
    token_hash: Mapped[bytes | None] = mapped_column(LargeBinary)
    """SHA-256 of the session token, which only the client keeps."""
    client: Mapped[str] = mapped_column(server_default="")
    """What signed in: a browser's `User-Agent`, or the client id of a device."""
    address: Mapped[str] = mapped_column(server_default="")
    last_used_at: Mapped[datetime | None]
    support_by: Mapped[str | None]
    """Of a support session: the operator, and the reason."""
    support_reason: Mapped[str | None]

    __table_args__ = (Index("uq_sessions_token_hash", "token_hash", unique=True),)

    @hybrid_method
    def is_live(self, now: datetime) -> bool:
        """True if the session has not ended."""
        return and_(is_null(self.revoked_at), is_ahead(self.expires_at, now))


class SigningKey(Base):
    """A key pair that signs access tokens; retired ones still verify until their tokens have expired."""

    __tablename__ = "signing_keys"

    kid: Mapped[str] = mapped_column(primary_key=True)
    algorithm: Mapped[str]
    public_key: Mapped[str]
    encrypted_private_key: Mapped[bytes | None]
    """Opens only with `SECRET_KEY`; without it the key verifies, and signs nothing."""
    created_at: Mapped[datetime]
    active_from: Mapped[datetime | None]
    """When it begins to sign: it is published before, so that verifiers know it by then."""
    retired_at: Mapped[datetime | None]
