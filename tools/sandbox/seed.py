"""The sandbox's rows: organisations, people, installations and keys; each start signs everybody in again.

Repositories and branches are not made here: the service reads them from GitHub.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, create_engine, func, make_url, pool, select, update
from sqlalchemy.orm import Session

from models.api_keys import ApiKey, ApiKeySecret
from models.audit import AuditSeal
from models.billing import PlanGrant
from models.installations import Installation
from models.notifications import MailChoice, NotificationDestination
from models.organizations import LoginSession, Membership, Organization, SigningKey, User
from models.repositories import Repository
from rules.billing.plans import FREE
from rules.ids import new_id
from rules.notifications.mails import MAILED_KINDS
from services.core.encryption import decrypt, encrypt
from services.core.password_hashing import PasswordHasher
from services.core.tokens import new_session_token, token_hash
from services.identity.access_tokens import Signer, issue_access_token, new_key_pair
from services.identity.api_key_secrets import secret_hash
from services.identity.signing_keys import USE
from tools.fake_github.model.installations import PERMISSIONS
from tools.sandbox.tenants import KEYS, PASSWORD, PEOPLE, Tenant

SIGNED_IN = timedelta(days=30)
ADMINISTRATOR = "maintainer"
"""The person at the simulated GitHub who may do everything, by login."""


class Seed:
    """Adds rows to the database of `url`, as its owner; rows that are there stay as they are."""

    def __init__(self, url: str, *, base_url: str, session_ttl: timedelta, secret_key: str) -> None:
        engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
        self.connection: Connection = engine.connect()
        self.session = Session(self.connection)
        self.base_url = base_url
        self.session_ttl = session_ttl
        self._secret_key = secret_key.encode()
        self._password = PasswordHasher().hash(PASSWORD)

    def close(self) -> None:
        """Commit what was added, and disconnect."""
        self.session.commit()
        self.session.close()
        self.connection.close()

    def tenant(self, tenant: Tenant, keys: dict[str, str]) -> Organization:
        """Return the organisation of a tenant, made with people, installation and keys if it was not there."""
        found = self.session.scalar(select(Organization).where(Organization.slug == tenant.slug))
        if found is not None:
            self._mails(found)
            return found
        organization = Organization(
            id=new_id("org"),
            name=tenant.name,
            slug=tenant.slug,
            settings={},
            created_at=now(),
        )
        self.session.add(organization)
        self.session.flush()
        if tenant.plan != FREE.id:
            grant = {"organization_id": organization.id, "source": "manual", "plan": tenant.plan}
            self.session.add(PlanGrant(**grant, created_at=now()))
        self.session.add(
            Installation(
                id=tenant.installation_id,
                organization_id=organization.id,
                account=tenant.slug,
                permissions=dict(PERMISSIONS),
                created_at=now(),
            )
        )
        for role, name in PEOPLE.items():
            self._member(organization, role, name)
        for name, secret in keys.items():
            self._key(organization, name, secret)
        self._mails(organization)
        return organization

    def authorize_rulesets(self, tenant: Tenant) -> None:
        """Record that an administrator at GitHub has authorised the rulesets of a tenant's repositories."""
        columns = {"rulesets_authorized_by": ADMINISTRATOR, "rulesets_authorized_at": now()}
        unauthorized = Repository.rulesets_authorized_at.is_(None)
        self.session.execute(update(Repository).where(Repository.owner == tenant.slug, unauthorized).values(columns))

    def sessions(self, organization: Organization) -> dict[str, dict[str, str]]:
        """Sign the people of an organisation in.

        Return `sessions`, role → JWT, and `sessionTokens`, role → the session token that such a JWT is issued for.
        """
        signer = self._signer()
        members = self.session.scalars(select(Membership).where(Membership.organization_id == organization.id)).all()
        tokens = {member.role: self._tokens(signer, member) for member in members if member.role in PEOPLE}
        return {
            "sessions": {role: jwt for role, (jwt, _) in tokens.items()},
            "sessionTokens": {role: token for role, (_, token) in tokens.items()},
        }

    def _member(self, organization: Organization, role: str, name: str) -> None:
        user = User(
            id=new_id("usr"),
            email=f"{role}@{organization.slug}.example",
            name=name,
            created_at=now(),
            password_hash=self._password,
            email_verified_at=now(),
        )
        self.session.add(user)
        self.session.flush()
        self.session.add(
            Membership(organization_id=organization.id, user_id=user.id, role=role, created_at=now()),
        )

    def _mails(self, organization: Organization) -> None:
        """Have members notified by mail, and the owner of everything, unless the organisation has that already."""
        if self.session.get(NotificationDestination, organization.id) is not None:
            return
        sealed = select(func.max(AuditSeal.sequence)).where(AuditSeal.organization_id == organization.id)
        self.session.add(
            NotificationDestination(
                id=organization.id,
                organization_id=organization.id,
                channel="mail",
                sequence=self.session.scalar(sealed) or 0,
            )
        )
        owners = select(Membership.user_id).where(
            Membership.organization_id == organization.id, Membership.role == "owner"
        )
        for owner in self.session.scalars(owners).all():
            key = {"organization_id": organization.id, "user_id": owner}
            if self.session.get(MailChoice, key) is None:
                self.session.add(MailChoice(**key, kinds=list(MAILED_KINDS), remind_before=[], updated_at=now()))

    def _key(self, organization: Organization, name: str, secret: str) -> None:
        key = ApiKey(
            id=new_id("key"),
            organization_id=organization.id,
            name=f"sandbox {name}",
            scopes=list(KEYS[name]),
            prefix=secret[:14],
            created_at=now(),
        )
        self.session.add(key)
        self.session.flush()
        self.session.add(
            ApiKeySecret(
                secret_hash=secret_hash(secret), organization_id=organization.id, api_key_id=key.id, created_at=now()
            )
        )

    def _tokens(self, signer: Signer, member: Membership) -> tuple[str, str]:
        token = new_session_token()
        login = LoginSession(
            id=new_id("ses"),
            user_id=member.user_id,
            organization_id=member.organization_id,
            client="sandbox",
            token_hash=token_hash(token),
            created_at=now(),
            expires_at=now() + SIGNED_IN,
        )
        self.session.add(login)
        self.session.flush()
        issued = self.session.execute(select(func.now())).scalar_one()
        jwt = issue_access_token(
            signer,
            user=member.user_id,
            organization=member.organization_id,
            sid=login.id,
            lifetime=self.session_ttl,
            now=issued,
        )
        return jwt, token

    def _signer(self) -> Signer:
        key = self.session.scalar(select(SigningKey).where(SigningKey.retired_at.is_(None)))
        if key is not None and key.encrypted_private_key is not None:
            private = decrypt(self._secret_key, USE, key.kid, key.encrypted_private_key).decode()
        else:
            private, public = new_key_pair()
            kid = new_id("kid")
            encrypted = encrypt(self._secret_key, USE, kid, private.encode())
            key = SigningKey(
                kid=kid, algorithm="ES256", public_key=public, encrypted_private_key=encrypted, created_at=now()
            )
            self.session.add(key)
            self.session.flush()
        return Signer(key.kid, key.algorithm, private, issuer=self.base_url, audience=self.base_url)


def now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)
