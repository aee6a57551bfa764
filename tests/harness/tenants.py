"""Organisations with people, keys and sessions, written straight into the database."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from rules.ids import new_id
from services.identity.access_tokens import Signer, issue_access_token, new_key_pair
from services.identity.api_key_secrets import new_secret, secret_hash

BASE_URL = "http://127.0.0.1:8080"
"""Issuer and audience of the tokens: what `Config` has by default."""
_NOUNS = ("freeze", "repo", "schedule", "exception", "billing")
ALL_SCOPES = (*(f"{noun}:{verb}" for noun in _NOUNS for verb in ("read", "write")), "audit:read")


@cache
def _key_pair() -> tuple[str, str]:
    return new_key_pair()


def signer_of_tests() -> Signer:
    """Return the signer of every test's tokens: one key pair for each test process."""
    return Signer("test-key", "ES256", _key_pair()[0], BASE_URL, BASE_URL)


@dataclass
class Tenant:
    """An organisation and the means to act in it."""

    connection: psycopg.Connection[Any]
    id: str
    plan: str
    users: dict[str, str] = field(default_factory=dict)

    def key(self, *scopes: str, expires_at: datetime | None = None, name: str = "a key") -> str:
        """Return the secret of a new API key; without scopes it has all of them."""
        return self.key_with_id(*scopes, expires_at=expires_at, name=name)[0]

    def key_with_id(self, *scopes: str, expires_at: datetime | None = None, name: str = "a key") -> tuple[str, str]:
        """Return secret and id of a new API key."""
        secret, key_id = new_secret(), new_id("key")
        self.connection.execute(
            "INSERT INTO api_keys (id, organization_id, name, scopes, prefix, created_at, expires_at)"
            " VALUES (%s, %s, %s, %s, %s, now(), %s)",
            (key_id, self.id, name, list(scopes or ALL_SCOPES), secret[:13], expires_at),
        )
        self.connection.execute(
            "INSERT INTO api_key_secrets (secret_hash, organization_id, api_key_id, created_at)"
            " VALUES (%s, %s, %s, now())",
            (secret_hash(secret), self.id, key_id),
        )
        return secret, key_id

    def session(self, role: str = "owner", *, support: bool = False, ttl: timedelta = timedelta(minutes=15)) -> str:
        """Return the token of a member with this role."""
        user = self.users.get(role) or self._member(role)
        return token(self.connection, user, self.id, support=support, ttl=ttl)

    def _member(self, role: str) -> str:
        user = person(self.connection, role)
        self.connection.execute(
            "INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES (%s, %s, %s, now())",
            (self.id, user, role),
        )
        self.users[role] = user
        return user


def tenant(
    connection: psycopg.Connection[Any], slug: str = "acme", *, plan: str = "business", installed: bool = True
) -> Tenant:
    """Create an organisation, with an active installation by default."""
    organization_id = new_id("org")
    connection.execute(
        "INSERT INTO organizations (id, name, slug, settings, created_at) VALUES (%s, %s, %s, %s, now())",
        (organization_id, slug.title(), slug, Jsonb({})),
    )
    if plan != "free":
        connection.execute(
            "INSERT INTO plan_grants (organization_id, source, plan, created_at) VALUES (%s, 'manual', %s, now())",
            (organization_id, plan),
        )
    if installed:
        connection.execute(
            "INSERT INTO installations (id, organization_id, account, permissions, created_at)"
            " VALUES (%s, %s, %s, %s, now())",
            (int.from_bytes(slug.encode()[:6]), organization_id, slug, Jsonb({})),
        )
    return Tenant(connection, organization_id, plan)


def person(connection: psycopg.Connection[Any], name: str) -> str:
    """Create a user and return its id."""
    user = new_id("usr")
    connection.execute(
        "INSERT INTO users (id, email, name, created_at) VALUES (%s, %s, %s, now())",
        (user, f"{user}@example.test", name),
    )
    return user


def token(
    connection: psycopg.Connection[Any],
    user: str,
    organization: str | None,
    *,
    support: bool = False,
    ttl: timedelta = timedelta(minutes=15),
) -> str:
    """Sign a user in, and return a session token."""
    now = datetime.now(UTC)
    sid = new_id("ses")
    connection.execute(
        "INSERT INTO sessions (id, user_id, organization_id, support, created_at, expires_at)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        (sid, user, organization, support, now, now + timedelta(days=1)),
    )
    connection.execute(
        "INSERT INTO signing_keys (kid, algorithm, public_key, created_at)"
        " VALUES (%s, %s, %s, now()) ON CONFLICT DO NOTHING",
        (signer_of_tests().kid, "ES256", _key_pair()[1]),
    )
    return issue_access_token(
        signer_of_tests(), user=user, organization=organization, sid=sid, lifetime=ttl, now=now, support=support
    )
