"""Inviting, accepting, and how mails and links are read."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.identity import Mail
from models.organizations import Membership
from services.core.encryption import decrypt
from services.mail.outbox import USE, associated_data
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.people import Person

INVITATIONS = "/v1/invitations"
PENDING = "/v1/invitations/pending"
PREVIEW = "/v1/invitations/preview"
GRACE = {"email": "grace@example.com", "role": "member"}
WEEK = timedelta(days=7)


def invited(tenant: Tenant, person: Person, role: str = "member") -> str:
    """Invite a person, and return the invitation's id."""
    made = tenant.person("owner").post(INVITATIONS, {"email": person.user.email, "role": role})
    assert made.status_code == 201, made.text
    invitation_id: str = made.json()["id"]
    return invitation_id


def accept(person: Person, invitation_id: str, **request: Any) -> httpx.Response:
    return person.caller.post(f"{INVITATIONS}/{invitation_id}/accept", **request)


def token_of(url: str) -> str:
    """Return the token of a link."""
    [token] = parse_qs(urlsplit(url).query)["token"]
    return token


def mailed(session: Session) -> dict[str, Any]:
    """Return what the only mail is filled with."""
    mail = session.scalars(select(Mail)).one()
    assert mail.encrypted_values is not None
    opened = decrypt(
        factories.SECRET_KEY.encode(), USE, associated_data(mail.id, mail.recipient), mail.encrypted_values
    )
    shown: dict[str, Any] = orjson.loads(opened)
    return shown


def link(tenant: Tenant, invitation_id: str) -> str:
    """Return the token of a fresh link."""
    return token_of(tenant.person("admin").get(f"{INVITATIONS}/{invitation_id}/link").json()["url"])


def is_member(session: Session, tenant: Tenant, person: Person) -> bool:
    return session.get(Membership, (tenant.id, person.id), populate_existing=True) is not None
