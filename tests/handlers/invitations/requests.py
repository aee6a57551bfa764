"""Inviting, accepting, and how mails and links are read."""

from datetime import timedelta
from typing import Any

import httpx
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.identity import Mail
from models.organizations import Membership
from tests.handlers.callers import Tenant, answered
from tests.handlers.people import Person
from tests.harness.mails import mails_to, token_of

INVITATIONS = "/v1/invitations"
PENDING = "/v1/invitations/pending"
PREVIEW = "/v1/invitations/preview"
GRACE = {"email": "grace@example.com", "role": "member"}
WEEK = timedelta(days=7)


def invited(tenant: Tenant, person: Person, role: str = "member") -> str:
    """Invite a person, and return the invitation's id."""
    made = answered(tenant.person("owner").post(INVITATIONS, {"email": person.user.email, "role": role}), 201)
    invitation_id: str = made["id"]
    return invitation_id


def accept(person: Person, invitation_id: str, **request: Any) -> httpx.Response:
    return person.caller.post(f"{INVITATIONS}/{invitation_id}/accept", **request)


def mailed(session: Session) -> dict[str, Any]:
    """Return what the only mail is filled with."""
    [(_template, fields)] = mails_to(session, session.scalars(select(Mail.recipient)).one())
    return fields


def link(tenant: Tenant, invitation_id: str) -> str:
    """Return the token of a fresh link."""
    return token_of(tenant.person("admin").get(f"{INVITATIONS}/{invitation_id}/link").json()["url"])


def is_member(session: Session, tenant: Tenant, person: Person) -> bool:
    return session.get(Membership, (tenant.id, person.id), populate_existing=True) is not None
