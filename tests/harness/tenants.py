"""Organisations with people, keys and sessions, for tests that have a connection of their own and no session."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from models.organizations import Organization, User
from tests import factories
from tests.harness.product import address_of
from tests.harness.sessions import committing


@dataclass
class Tenant:
    """An organisation and the means to act in it."""

    connection: psycopg.Connection[Any]
    organization: Organization
    users: dict[str, User] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.organization.id

    def key(self, *scopes: str, expires_at: datetime | None = None) -> str:
        """Return the secret of a new API key; without scopes it has all of them."""
        return self.key_with_id(*scopes, expires_at=expires_at)[0]

    def key_with_id(self, *scopes: str, expires_at: datetime | None = None) -> tuple[str, str]:
        """Return secret and id of a new API key."""
        with committing(address_of(self.connection)) as session:
            made = factories.api_key(session, self.organization, *scopes, expires_at=expires_at)
            return made.secret, made.row.id

    def session(self, role: str = "owner", *, support: bool = False, ttl: timedelta = timedelta(minutes=15)) -> str:
        """Return the token of a member with this role."""
        with committing(address_of(self.connection)) as session:
            if role not in self.users:
                self.users[role] = factories.member(session, self.organization, role, role)
            return factories.session_token(session, self.users[role], self.organization, support=support, ttl=ttl)


def tenant(connection: psycopg.Connection[Any], name: str = "acme", *, installed: bool = True) -> Tenant:
    """Create an organisation, with an active installation by default."""
    with committing(address_of(connection)) as session:
        organization = factories.organization(session, name)
        if installed:
            factories.installation(session, organization, name)
        return Tenant(connection, organization)
