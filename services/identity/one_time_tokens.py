"""Tokens for one use: mailed, or put into an address. 256 random bits, of which the database keeps the hash alone."""

from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, select, update

from models.identity import OneTimeToken
from services.core.tokens import new_one_time_token, token_hash
from services.core.unit_of_work import UnitOfWork

Purpose = Literal["verify_email", "reset_password", "invitation", "installation"]
LONGEST = 128
"""Characters of a token that somebody may send; ours have 43."""


def issue(
    uow: UnitOfWork,
    purpose: Purpose,
    subject: str,
    lifetime: timedelta,
    *,
    organization_id: str | None = None,
    details: dict[str, Any] | None = None,
) -> str:
    """Return a fresh token; `subject` says whom or what it is for, `details` what its user will need to know."""
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


def look(uow: UnitOfWork, purpose: Purpose, token: str) -> OneTimeToken | None:
    """Return the row of a token that is still good, without using it up."""
    if len(token) > LONGEST or not token.isascii():
        return None
    return uow.session.scalar(select(OneTimeToken).where(*_good(uow, purpose, token)))


def use(uow: UnitOfWork, purpose: Purpose, token: str) -> OneTimeToken | None:
    """Use a token up and return its row, or None when it is unknown, expired, or was used before.

    The row is locked: of several who come at once, one gets it.
    """
    if len(token) > LONGEST or not token.isascii():
        return None
    row = uow.session.scalar(select(OneTimeToken).where(*_good(uow, purpose, token)).with_for_update())
    if row is not None:
        row.used_at = uow.now
        uow.session.flush()
    return row


def void(uow: UnitOfWork, purpose: Purpose, subject: str) -> None:
    """Make every token of a subject worthless that has not been used."""
    uow.session.execute(
        update(OneTimeToken)
        .where(OneTimeToken.purpose == purpose, OneTimeToken.subject == subject, OneTimeToken.used_at.is_(None))
        .values(used_at=uow.now)
    )


def _good(uow: UnitOfWork, purpose: Purpose, token: str) -> tuple[ColumnElement[bool], ...]:
    return (
        OneTimeToken.token_hash == token_hash(token),
        OneTimeToken.purpose == purpose,
        OneTimeToken.used_at.is_(None),
        OneTimeToken.expires_at > uow.now,
    )
