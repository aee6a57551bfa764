"""Clients that people connect with OAuth: what is known of a client, and what a person allowed it to do."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary
from sqlalchemy.ext.hybrid import hybrid_method
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.predicates import and_, is_ahead, is_null


class OAuthClient(Base):
    """A client that is identified by the address of its metadata document, or a device that only names itself."""

    __tablename__ = "oauth_clients"

    client_id: Mapped[str] = mapped_column(primary_key=True)
    document: Mapped[dict[str, Any] | None]
    """The metadata document as it was fetched; None of a device."""
    fetched_at: Mapped[datetime | None]
    fresh_until: Mapped[datetime | None]
    blocked_at: Mapped[datetime | None]
    """Set by an operator: the client gets no tokens, and those that it has do not work."""


class OAuthGrant(Base):
    """What a person allowed a client to do in one organisation: a connection. Revoking it ends its tokens at once."""

    __tablename__ = "oauth_grants"
    __table_args__ = (
        Index("ix_oauth_grants_user_id", "user_id", "created_at"),
        Index("ix_oauth_grants_organization_id", "organization_id", "created_at"),
    )

    id: Mapped[Id]
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    client_id: Mapped[str] = mapped_column(ForeignKey("oauth_clients.client_id"), index=True)
    client_name: Mapped[str]
    """The client's name at that time."""
    resource: Mapped[str]
    """The address that its access tokens are for."""
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime]
    last_used_at: Mapped[datetime | None]
    """When the client last got tokens, which it needs every hour in which it does anything."""
    expires_at: Mapped[datetime] = mapped_column(index=True)
    revoked_at: Mapped[datetime | None]
    revoked_why: Mapped[str | None]

    @hybrid_method
    def is_live(self, now: datetime) -> bool:
        """True if the grant has not ended."""
        return and_(is_null(self.revoked_at), is_ahead(self.expires_at, now))


class OAuthCode(Base):
    """The SHA-256 of an authorization code, which is spent by the first attempt to exchange it."""

    __tablename__ = "oauth_codes"

    code_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    grant_id: Mapped[str] = mapped_column(ForeignKey("oauth_grants.id", ondelete="CASCADE"), index=True)
    redirect_uri: Mapped[str]
    challenge: Mapped[str]
    """The PKCE challenge, always S256."""
    expires_at: Mapped[datetime] = mapped_column(index=True)
    used_at: Mapped[datetime | None]


class OAuthRefreshToken(Base):
    """The SHA-256 of a refresh token; the first use replaces it, and a second one soon after."""

    __tablename__ = "oauth_refresh_tokens"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    grant_id: Mapped[str] = mapped_column(ForeignKey("oauth_grants.id", ondelete="CASCADE"), index=True)
    issued_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    used_at: Mapped[datetime | None]
    reused_at: Mapped[datetime | None]
    """When it was used a second time, by another process of the client."""
