"""API keys, and the hashes of their secrets."""

from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import ForeignKey, LargeBinary
from sqlalchemy.ext.hybrid import hybrid_method
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.predicates import and_, is_ahead, is_null, not_

ApiKeyState = Literal["active", "revoked", "expired"]


class ApiKey(Base):
    """An API key of an organisation: its scopes are its authorisation, and never change."""

    __tablename__ = "api_keys"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    name: Mapped[str]
    scopes: Mapped[list[str]]
    agent: Mapped[bool] = mapped_column(server_default="false")
    prefix: Mapped[str]
    """The beginning of its newest secret: it distinguishes keys, and identifies the owner of a leaked one."""
    created_by: Mapped[dict[str, Any] | None]
    """An actor, with its name at that time; None: the service itself."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    """Written late, and once a minute at most (`app/edge/key_uses.py`)."""
    rotated_at: Mapped[datetime | None]

    @hybrid_method
    def has_state(self, state: ApiKeyState, now: datetime) -> bool:
        """True if the key is in the state; a revocation is final."""
        if state == "revoked":
            return not_(is_null(self.revoked_at))
        lasts = is_ahead(self.expires_at, now)
        return and_(is_null(self.revoked_at), lasts if state == "active" else not_(lasts))

    def state(self, now: datetime) -> ApiKeyState:
        """Return the state of the key."""
        return next(state for state in get_args(ApiKeyState) if self.has_state(state, now))


class ApiKeySecret(Base):
    """The SHA-256 of one secret of a key; `ends_at` is set once a rotation has replaced it."""

    __tablename__ = "api_key_secrets"

    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    api_key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id"), index=True)
    created_at: Mapped[datetime]
    ends_at: Mapped[datetime | None]
