"""Everybody who may come with a credential, and every way in which one can be wrong.

Each sign-in comes in three forms: as a JWT, as the session token that the JWT is minted from, and as the cookie of our
web origin that holds that token. An MCP client has the access token of a connection, which only the MCP server takes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import update
from sqlalchemy.orm import Session

from models.api_keys import ApiKeySecret
from models.organizations import LoginSession, Organization, SigningKey, User
from services.core.tokens import new_session_token, token_hash
from services.identity.access_tokens import Signer, issue_access_token, new_key_pair
from services.identity.api_key_secrets import new_secret, secret_hash
from services.identity.oauth.access_tokens import issue_grant_token
from tests import factories

Form = Literal["nothing", "unreadable", "unknown", "key", "jwt", "session_token", "connection"]
Standing = Literal["active", "deleted", "none", "not_selected"]
HOUR = timedelta(hours=1)
WEB_ORIGIN = factories.ISSUER
FROM_HERE = {"Origin": WEB_ORIGIN}
FROM_ELSEWHERE = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}


@dataclass(frozen=True, slots=True)
class Credential:
    """What is sent, and what is true of the sender."""

    name: str
    form: Form
    headers: Mapping[str, str]
    in_cookie: bool = False
    from_here: bool = False
    """A page of ours has the browser send it."""
    fault: Literal["invalid_token", "token_expired"] | None = None
    scopes: frozenset[str] = frozenset()
    role: str | None = None
    organization: Standing = "active"
    """How the bearer stands to the organisation that they act in."""
    support: bool = False


@dataclass(frozen=True, slots=True)
class SignIn:
    """One row of sessions, and its two tokens."""

    jwt: str
    token: str


def everybody(session: Session, scopes: Iterable[str]) -> list[Credential]:
    """Add whom it takes, and return one credential of each kind, under names that are all different."""
    fixture = _CredentialFixture(session, tuple(scopes))
    found = [*strangers(), *fixture.keys(), *fixture.people(), *fixture.forgers()]
    found.append(fixture.connection("a client of an owner", "owner", *scopes))
    assert len({one.name for one in found}) == len(found)
    return found


def connections(session: Session, scopes: Iterable[str]) -> list[Credential]:
    """Add whom it takes, and return access tokens of MCP clients: of each role and scope, and bad ones."""
    return list(_CredentialFixture(session, tuple(scopes)).connections())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def cookie(token: str) -> dict[str, str]:
    return {"Cookie": f"session={token}"}


def strangers() -> Iterator[Credential]:
    """Yield credentials without a principal."""
    stranger = new_session_token()
    yield Credential("nothing", "nothing", {})
    yield Credential("another scheme", "unreadable", {"Authorization": "Basic dXNlcjpwYXNz"})
    yield Credential("two words", "unreadable", bearer("a b"))
    yield Credential("nonsense", "unknown", bearer("nonsense"))
    yield Credential("a key with a typing error", "key", bearer(new_secret()[:-1] + "~"), fault="invalid_token")
    yield Credential("an unknown key", "key", bearer(new_secret()), fault="invalid_token")
    yield Credential("an unknown session token", "session_token", bearer(stranger), fault="invalid_token")
    unknown = Credential("an unknown cookie", "session_token", {}, in_cookie=True, fault="invalid_token")
    yield replace(unknown, headers=cookie(stranger) | FROM_HERE, from_here=True)
    yield Credential("an empty cookie", "nothing", cookie("") | FROM_HERE, in_cookie=True, from_here=True)
    yield Credential("a cookie of nonsense", "unknown", cookie("x") | FROM_HERE, in_cookie=True, from_here=True)


class _CredentialFixture:
    """Two organisations, one that was deleted, and the people and keys of all three."""

    def __init__(self, session: Session, scopes: tuple[str, ...]) -> None:
        self.session = session
        self.scopes = scopes
        self.now = factories.now()
        self.acme, self.globex, self.gone = (factories.organization(session, name) for name in ("Acme", "Globex", "No"))
        factories.installation(session, self.acme)
        self.gone.deleted_at = self.now - HOUR
        self.signer = factories.signer(session)
        session.get_one(SigningKey, self.signer.kid).active_from = self.now - HOUR
        session.flush()

    def keys(self) -> Iterator[Credential]:
        """Yield keys, the good ones first."""
        yield self._key("a key of all scopes", *self.scopes)
        for scope in self.scopes:
            yield self._key(f"a key of {scope}", scope)
        within = self._rotated(self.now + HOUR)
        after = self._rotated(self.now - HOUR)
        yield self._held("a rotated key's new secret", within[1])
        yield self._held("its old secret, within the grace", within[0])
        yield self._held("another rotated key's new secret", after[1])
        yield self._held("its old secret, after the grace", after[0], fault="invalid_token")
        expired = factories.api_key(self.session, self.acme, expires_at=self.now - HOUR).secret
        yield self._held("an expired key", expired, fault="token_expired")
        revoked = factories.api_key(self.session, self.acme, revoked_at=self.now - HOUR).secret
        yield self._held("a revoked key", revoked, fault="invalid_token")
        orphan = factories.api_key(self.session, self.gone).secret
        yield self._held("a key of a deleted organisation", orphan, organization="deleted")
        ended = factories.api_key(self.session, self.gone, revoked_at=self.gone.deleted_at).secret
        yield self._held("a key that ended with its organisation", ended, organization="deleted")
        before = factories.api_key(self.session, self.gone, revoked_at=self.now - 2 * HOUR).secret
        yield self._held("a key revoked before its organisation ended", before, fault="invalid_token")

    def people(self) -> Iterator[Credential]:
        """Yield sign-ins in their three forms."""
        for role in factories.ROLES:
            yield from _forms(role, self._sign_in(self._person(self.acme, role=role), self.acme), role=role)
        owner = self._person(self.acme)
        ended = self._sign_in(owner, self.acme, revoked_at=self.now - HOUR)
        yield from _forms("an ended sign-in", ended, fault="invalid_token", role="owner")
        old = self._sign_in(owner, self.acme, expires_at=self.now - HOUR)
        yield from _forms("an expired sign-in", old, fault="token_expired", role="owner")
        yield from self._people_without_an_organization()
        yield from self._support()
        here = self._sign_in(owner, self.acme)
        for name, headers in {"somewhere else": FROM_ELSEWHERE, "nowhere": {}}.items():
            sent = cookie(here.token) | headers
            yield Credential(f"owner, cookie sent from {name}", "session_token", sent, in_cookie=True, role="owner")
        both = cookie(here.token) | FROM_HERE
        yield Credential("owner, cookie beside another scheme", "unreadable", both | {"Authorization": "Basic eDp5"})
        yield Credential("owner, cookie beside nonsense", "unknown", both | bearer("nonsense"))

    def _people_without_an_organization(self) -> Iterator[Credential]:
        no_member = self._sign_in(self._person(), None)
        yield from _forms("a member of no organisation", no_member, organization="none")
        left = self._sign_in(self._person(), self.acme)
        yield from _with_invalid_jwt(_forms("a former member", left, organization="none"))
        several = self._sign_in(self._person(self.acme, self.globex), None)
        yield from _forms("a member of several, none active", several, organization="not_selected")
        intruder = self._sign_in(self._person(self.globex), self.acme)
        yield from _with_invalid_jwt(_forms("another organisation's owner", intruder, organization="not_selected"))
        orphan = self._person(self.gone)
        yield from _forms("a deleted one's owner", self._sign_in(orphan, self.gone), organization="deleted")
        yield from _forms("a deleted one's owner, none active", self._sign_in(orphan, None), organization="none")

    def _support(self) -> Iterator[Credential]:
        by: dict[str, Any] = {"kind": "support", "support_by": "olga", "support_reason": "to look"}
        looking = self._sign_in(self._person(), self.acme, support=True, **by)
        yield from _forms("support", looking, support=True)
        astray = self._sign_in(self._person(), self.acme, support=True, claim=self.globex, **by)
        yield Credential("support, elsewhere", "jwt", bearer(astray.jwt), fault="invalid_token", support=True)

    def forgers(self) -> Iterator[Credential]:
        """Yield JWTs of another issuer, and expired ones."""
        owner = self._person(self.acme)
        aged = self._sign_in(owner, self.acme, issued_at=self.now - 2 * HOUR)
        yield Credential("an aged JWT", "jwt", bearer(aged.jwt), fault="token_expired", role="owner")
        foreign = replace(self.signer, private_key=new_key_pair()[0])
        wrong = {
            "signed by another key": foreign,
            "of an unknown key": replace(foreign, kid="unknown"),
            "of another issuer": replace(self.signer, issuer="https://elsewhere.example"),
            "for another audience": replace(self.signer, audience="https://elsewhere.example"),
        }
        for name, signer in wrong.items():
            token = self._sign_in(owner, self.acme, signer=signer).jwt
            yield Credential(f"a JWT {name}", "jwt", bearer(token), fault="invalid_token", role="owner")

    def connections(self) -> Iterator[Credential]:
        """Yield access tokens of connections, the good ones first."""
        for role in factories.ROLES:
            yield self.connection(f"a client of a {role}", role, *self.scopes)
        for scope in self.scopes:
            yield self.connection(f"a client of {scope}", "owner", scope)
        hour_ago = {"revoked_at": self.now - HOUR}
        yield self.connection("a disconnected client", "owner", *self.scopes, fault="invalid_token", columns=hour_ago)
        over = {"expires_at": self.now - HOUR}
        yield self.connection("a client whose time is over", "owner", *self.scopes, fault="token_expired", columns=over)
        yield self.connection("a client of a former member", None, *self.scopes, fault="invalid_token")
        elsewhere = {"resource": "https://elsewhere.example/mcp"}
        name = "a client of another resource"
        yield self.connection(name, "owner", *self.scopes, fault="invalid_token", columns=elsewhere)

    def connection(
        self, name: str, role: str | None, *scopes: str, fault: Any = None, columns: Mapping[str, Any] | None = None
    ) -> Credential:
        """Return the access token of a client that a person of this role has connected."""
        person = self._person(self.acme, role=role) if role else self._person()
        grant = factories.connection(self.session, person, self.acme, *scopes, **(columns or {}))
        token = issue_grant_token(self.signer, grant, scopes, now=self.now)
        return Credential(name, "connection", bearer(token), fault=fault, scopes=frozenset(scopes), role=role)

    def _key(self, name: str, *scopes: str) -> Credential:
        secret = factories.api_key(self.session, self.acme, *scopes).secret
        return Credential(name, "key", bearer(secret), scopes=frozenset(scopes))

    def _held(self, name: str, secret: str, **facts: Any) -> Credential:
        return Credential(name, "key", bearer(secret), scopes=frozenset(factories.SCOPES), **facts)

    def _rotated(self, ends_at: datetime) -> tuple[str, str]:
        """Return the old secret and the new one of a key."""
        key, newer = factories.api_key(self.session, self.acme), new_secret()
        mine = ApiKeySecret.api_key_id == key.row.id
        self.session.execute(update(ApiKeySecret).where(mine).values(ends_at=ends_at))
        row = ApiKeySecret(
            secret_hash=secret_hash(newer),
            organization_id=self.acme.id,
            api_key_id=key.row.id,
            created_at=self.now,
        )
        self.session.add(row)
        self.session.flush()
        return key.secret, newer

    def _person(self, *organizations: Organization, role: str = "owner") -> User:
        person = factories.user(self.session)
        for organization in organizations:
            factories.membership(self.session, organization, person, role)
        return person

    def _sign_in(
        self,
        person: User,
        organization: Organization | None,
        *,
        claim: Organization | None = None,
        signer: Signer | None = None,
        issued_at: datetime | None = None,
        **columns: Any,
    ) -> SignIn:
        token = new_session_token()
        row: LoginSession = factories.login(self.session, person, organization, token_hash=token_hash(token), **columns)
        named = claim or organization
        jwt = issue_access_token(
            signer or self.signer,
            user=person.id,
            organization=named.id if named else None,
            sid=row.id,
            lifetime=HOUR,
            now=issued_at or self.now,
            support=row.support,
        )
        return SignIn(jwt, token)


def _with_invalid_jwt(credentials: Iterable[Credential]) -> Iterator[Credential]:
    """Yield credentials of a person who is not a member of the organisation that the JWT among them names."""
    for each in credentials:
        yield replace(each, fault="invalid_token") if each.form == "jwt" else each


def _forms(name: str, tokens: SignIn, **facts: Any) -> Iterator[Credential]:
    yield Credential(f"{name}, JWT", "jwt", bearer(tokens.jwt), **facts)
    yield Credential(f"{name}, session token", "session_token", bearer(tokens.token), **facts)
    sent = cookie(tokens.token) | FROM_HERE
    yield Credential(f"{name}, cookie", "session_token", sent, in_cookie=True, from_here=True, **facts)
