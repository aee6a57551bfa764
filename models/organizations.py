"""Organisations, the people in them, their sessions, and the keys that sign session tokens."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class Organization(Base):
    """A tenant: everything else belongs to exactly one."""

    __tablename__ = "organizations"

    id: Mapped[Id]
    name: Mapped[str]
    slug: Mapped[str] = mapped_column(unique=True)
    plan: Mapped[str] = mapped_column(server_default="free")
    settings: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]


class User(Base):
    """A person; may be a member of several organisations."""

    __tablename__ = "users"

    id: Mapped[Id]
    email: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    created_at: Mapped[datetime]


class Membership(Base):
    """A user's role in one organisation."""

    __tablename__ = "memberships"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    role: Mapped[str]
    created_at: Mapped[datetime]


class LoginSession(Base):
    """A signed-in session: the `sid` that session tokens name. Revoking it ends them all at once."""

    __tablename__ = "sessions"

    id: Mapped[Id]
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), index=True)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    support: Mapped[bool] = mapped_column(server_default="false")
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


class SigningKey(Base):
    """A key pair that signs session tokens; retired ones still verify until their tokens have aged out."""

    __tablename__ = "signing_keys"

    kid: Mapped[str] = mapped_column(primary_key=True)
    algorithm: Mapped[str]
    public_key: Mapped[str]
    private_key: Mapped[str]
    created_at: Mapped[datetime]
    retired_at: Mapped[datetime | None]
