"""One-time tokens for links and redirects: 256 random bits, of which the database stores only the hash."""

from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import select, update

from models.identity import OneTimeToken
from services.core.tokens import new_one_time_token, token_hash
from services.core.unit_of_work import UnitOfWork

Purpose = Literal["verify_email", "reset_password", "change_email", "invitation", "installation", "slack", "slack_link"]
_MAX_TOKEN_LENGTH = 128
"""The longest token that is looked up; ours have 43 characters."""


def issue(
    uow: UnitOfWork,
    purpose: Purpose,
    subject: str,
    lifetime: timedelta,
    *,
    organization_id: str | None = None,
    details: dict[str, Any] | None = None,
) -> str:
    """Return a new token; `subject` is who or what it is for, `details` is stored with it."""
    token = new_one_time_token()
    uow.session.add(
        OneTimeToken(
            token_hash=token_hash(token),
            purpose=purpose,
            subject=subject,
            organization_id=organization_id,
            details=details or {},
            created_at=uow.now,
            expires_at=uow.now + lifetime,
        )
    )
    uow.session.flush()
    return token


def peek(uow: UnitOfWork, purpose: Purpose, token: str, *, lock: bool = False) -> OneTimeToken | None:
    """Return the row of a valid token without consuming it, or None; `lock` locks it."""
    if len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
        return None
    query = select(OneTimeToken).where(
        OneTimeToken.token_hash == token_hash(token),
        OneTimeToken.purpose == purpose,
        OneTimeToken.used_at.is_(None),
        OneTimeToken.expires_at > uow.now,
    )
    return uow.session.scalar(query.with_for_update() if lock else query)


def consume(uow: UnitOfWork, purpose: Purpose, token: str) -> OneTimeToken | None:
    """Consume a token and return its row, or None if it is unknown, expired or used.

    The row is locked: of several concurrent callers, one gets it.
    """
    row = peek(uow, purpose, token, lock=True)
    if row is not None:
        row.used_at = uow.now
        uow.session.flush()
    return row


def invalidate(uow: UnitOfWork, purpose: Purpose, subject: str) -> None:
    """Invalidate all unused tokens of a subject."""
    uow.session.execute(
        update(OneTimeToken)
        .where(OneTimeToken.purpose == purpose, OneTimeToken.subject == subject, OneTimeToken.used_at.is_(None))
        .values(used_at=uow.now)
    )
