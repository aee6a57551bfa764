"""Mails as they wait to be sent, and the links in them."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.identity import Mail
from services.core.encryption import decrypt
from services.mail.outbox import USE, associated_data
from tests.factories import SECRET_KEY


def mails_to(session: Session, address: str) -> list[tuple[str, dict[str, Any]]]:
    """Return template and fields of the mails to an address, the oldest first."""
    session.expire_all()
    rows = session.scalars(select(Mail).where(Mail.recipient == address).order_by(Mail.created_at, Mail.id))
    return [(row.template, _opened(row)) for row in rows]


def mailed_link(session: Session, address: str) -> str:
    """Return the link of the newest mail to an address."""
    _template, fields = mails_to(session, address)[-1]
    return str(fields["url"])


def mailed_token(session: Session, address: str) -> str:
    """Return the token of the newest mail's link."""
    return token_of(mailed_link(session, address))


def token_of(url: str) -> str:
    """Return the token that an address holds."""
    query = parse_qs(urlsplit(url).query)
    [token] = query.get("token") or query["state"]
    return token


def _opened(row: Mail) -> Any:
    sealed = row.encrypted_values or b""
    return orjson.loads(decrypt(SECRET_KEY.encode(), USE, associated_data(row.id, row.recipient), sealed))
