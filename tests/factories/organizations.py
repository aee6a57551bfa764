"""Organisations, people, sign-ins and keys."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.api_keys import ApiKey, ApiKeySecret
from models.audit import AuditEntry
from models.billing import PlanGrant
from models.calendar_feeds import CalendarFeed
from models.identity import GitHubLink, Invitation, OneTimeToken
from models.oauth import OAuthClient, OAuthGrant
from models.organizations import LoginSession, Membership, Organization, SigningKey, User
from rules.ids import new_id
from services.core.encryption import encrypt
from services.core.tokens import new_feed_token, new_one_time_token, token_hash
from services.identity.access_tokens import Signer, issue_access_token, new_key_pair
from services.identity.api_key_secrets import PREFIX, new_secret, secret_hash
from services.identity.signing_keys import USE
from tests.factories.adding import added, now, numbers

SECRET_KEY = "a secret of tests only too"
"""`SECRET_KEY` of the product, unless a test says otherwise."""
ISSUER = "http://127.0.0.1:8080"
AUDIENCE = "http://127.0.0.1:8080"
SCOPES = (
    "freeze:read",
    "freeze:write",
    "repo:read",
    "repo:write",
    "schedule:read",
    "schedule:write",
    "exception:read",
    "exception:write",
    "audit:read",
    "billing:read",
    "billing:write",
)
ROLES = ("viewer", "member", "admin", "owner")


def organization(session: Session, name: str = "Acme", *, plan: str = "business") -> Organization:
    """Add an organisation."""
    slug = f"{name.lower()}-{next(numbers)}"
    row = added(session, Organization(id=new_id("org"), name=name, slug=slug, settings={}, created_at=now()))
    if plan != "free":
        key = {"organization_id": row.id, "source": "manual", "reference": ""}
        added(session, PlanGrant(**key, plan=plan, created_at=row.created_at))
    return row


def user(session: Session, name: str = "Ada") -> User:
    """Add a person."""
    email = f"{name.lower()}-{next(numbers)}@example.com"
    return added(session, User(id=new_id("usr"), name=name, email=email, created_at=now()))


def membership(session: Session, of: Organization, member: User, role: str = "member") -> Membership:
    """Make a person a member."""
    return added(session, Membership(organization_id=of.id, user_id=member.id, role=role, created_at=now()))


def member(session: Session, of: Organization, role: str = "member", name: str = "Ada") -> User:
    """Add a person who is a member."""
    person = user(session, name)
    membership(session, of, person, role)
    return person


def invitation(session: Session, of: Organization, email: str, role: str = "member") -> tuple[str, Invitation]:
    """Invite an address; return the token of the mail, and the invitation."""
    token, created_at = new_one_time_token(), now()
    row = Invitation(
        id=new_id("inv"),
        organization_id=of.id,
        email=email,
        role=role,
        invited_by={"type": "user", "id": "usr_x", "name": "Linus <b>"},
        created_at=created_at,
        expires_at=created_at + timedelta(days=7),
    )
    mailed = OneTimeToken(
        token_hash=token_hash(token),
        purpose="invitation",
        subject=row.id,
        organization_id=of.id,
        created_at=created_at,
        expires_at=row.expires_at,
    )
    session.add_all([row, mailed])
    session.flush()
    return token, row


def login(
    session: Session, by: User, organization: Organization | None, *, support: bool = False, **columns: Any
) -> LoginSession:
    """Sign a person in."""
    row = LoginSession(
        id=new_id("ses"),
        user_id=by.id,
        organization_id=organization.id if organization else None,
        support=support,
        expires_at=columns.pop("expires_at", now() + timedelta(days=1)),
        **columns,
    )
    return added(session, row)


@cache
def key_pair() -> tuple[str, str]:
    """Return this process's pair of signing keys: private, public."""
    return new_key_pair()


def signer(session: Session) -> Signer:
    """Make sure that the signing key is known, and return what signs with it.

    The key stays the same throughout a run: an application that has read it may live longer than a test.
    """
    private, public = key_pair()
    if session.get(SigningKey, "tests") is None:
        encrypted = encrypt(SECRET_KEY.encode(), USE, "tests", private.encode())
        key = SigningKey(
            kid="tests", algorithm="ES256", public_key=public, encrypted_private_key=encrypted, created_at=now()
        )
        added(session, key)
    return Signer("tests", "ES256", private, ISSUER, AUDIENCE)


def session_token(
    session: Session,
    by: User,
    organization: Organization | None,
    *,
    support: bool = False,
    ttl: timedelta = timedelta(hours=1),
    issued_at: datetime | None = None,
) -> str:
    """Sign a person in and return the session token."""
    row = login(session, by, organization, support=support)
    return issue_access_token(
        signer(session),
        user=by.id,
        organization=organization.id if organization else None,
        sid=row.id,
        lifetime=ttl,
        now=issued_at or now(),
        support=support,
    )


def member_token(session: Session, of: Organization, role: str = "member", *, support: bool = False) -> str:
    """Return the session token of a new member with that role."""
    return session_token(session, member(session, of, role, role.title()), of, support=support)


def github_link(session: Session, of: Organization, person: User, **columns: Any) -> GitHubLink:
    """Add the account at GitHub of a member."""
    given = {
        "organization_id": of.id,
        "user_id": person.id,
        "account_id": next(numbers),
        "login": f"account-of-{person.id}",
    }
    return added(session, GitHubLink(**given | columns))


@dataclass(frozen=True, slots=True)
class MintedKey:
    """An API key and its secret."""

    row: ApiKey
    secret: str


def api_key(session: Session, of: Organization, *scopes: str, **columns: Any) -> MintedKey:
    """Add an API key with these scopes (none given: all of them)."""
    secret = new_secret()
    row = ApiKey(
        id=new_id("key"),
        organization_id=of.id,
        name=columns.pop("name", "pipeline"),
        scopes=list(scopes or SCOPES),
        prefix=secret[: len(PREFIX) + 4],
        **columns,
    )
    added(session, row)
    hashed = secret_hash(secret)
    added(
        session, ApiKeySecret(secret_hash=hashed, organization_id=of.id, api_key_id=row.id, created_at=row.created_at)
    )
    return MintedKey(row, secret)


def connection(session: Session, by: User, organization: Organization, *scopes: str, **columns: Any) -> OAuthGrant:
    """Add an MCP client that a person has connected, with these scopes (none given: all of them)."""
    if "client_id" not in columns:
        client = OAuthClient(client_id=f"https://client-{next(numbers)}.example/metadata")
        columns["client_id"] = added(session, client).client_id
    given = {
        "id": new_id("ogr"),
        "user_id": by.id,
        "organization_id": organization.id,
        "client_name": "Example Client",
        "resource": f"{AUDIENCE}/mcp",
        "scopes": list(scopes or SCOPES),
        "expires_at": now() + timedelta(days=90),
    }
    return added(session, OAuthGrant(**given | columns))


def calendar_feed(session: Session, by: User, organization: Organization, **columns: Any) -> tuple[CalendarFeed, str]:
    """Add a calendar feed that a person has created, and return it with the file name in its address."""
    token = new_feed_token()
    given = {
        "id": new_id("cal"),
        "organization_id": organization.id,
        "user_id": by.id,
        "name": "Team calendar",
        "token_hash": token_hash(token),
        "created_by": {"type": "user", "id": by.id, "name": by.name},
    }
    return added(session, CalendarFeed(**given | columns)), f"{token}.ics"


def audit_actions(session: Session, of: Organization) -> list[str]:
    """Return the actions that the organisation's audit trail holds, the oldest first."""
    query = select(AuditEntry.action).where(AuditEntry.organization_id == of.id)
    return list(session.scalars(query.order_by(AuditEntry.at, AuditEntry.id)))
