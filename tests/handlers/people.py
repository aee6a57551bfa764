"""People who call the API in tests: with a confirmed address, in any organisations or none, signed in."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy.orm import Session

from models.organizations import LoginSession, Organization, User
from tests import factories
from tests.handlers.callers import Caller, Tenant


@dataclass(frozen=True, slots=True)
class Person:
    """A person with an account, and the sign-in that they call with."""

    user: User
    caller: Caller

    @property
    def id(self) -> str:
        return self.user.id


def newcomer(session: Session, http: httpx.Client, name: str = "Eve Ernst", *, verified: bool = True) -> Person:
    """Return a person who has signed up and has no organisation."""
    user = factories.user(session, name.replace(" ", "."))
    user.name = name
    user.email_verified_at = factories.now() if verified else None
    session.flush()
    return signed_in(session, http, user, None)


def signed_in(session: Session, http: httpx.Client, user: User, organization: Organization | None) -> Person:
    """Return a person with another sign-in, which acts in this organisation, or in none."""
    return Person(user, Caller(http, factories.session_token(session, user, organization)))


def member(tenant: Tenant, role: str = "member", name: str = "Grace Hopper") -> Person:
    """Return a new member, signed in."""
    user = newcomer(tenant.session, tenant.http, name).user
    factories.membership(tenant.session, tenant.organization, user, role)
    return signed_in(tenant.session, tenant.http, user, tenant.organization)


def sign_ins(session: Session, person: Person) -> Counter[str | None]:
    """Return in which organisations a person's sign-ins act, and how many in each."""
    session.expire_all()
    found = session.query(LoginSession).where(LoginSession.user_id == person.id)
    return Counter(row.organization_id for row in found)


def through_pages(caller: Caller, path: str, limit: int = 2, **filters: str) -> list[dict[str, Any]]:
    """Return what a list holds, page by page."""
    seen: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = caller.get(path, limit=limit, **filters, **cursor).json()
        assert len(page["data"]) <= limit
        seen += page["data"]
        if page["nextCursor"] is None:
            return seen
        cursor = {"cursor": page["nextCursor"]}
