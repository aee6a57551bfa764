"""People with a password, as they come over HTTP, and the mails that they are sent."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.identity import Mail
from models.organizations import Organization, User
from services.core.encryption import decrypt
from services.mail.outbox import USE, associated_data
from tests import factories
from tests.harness.passwords import hash_password

PASSWORD = "seven green bicycles"
SECRET_KEY = "what seals the mails of tests"
"""`SECRET_KEY` of the product whose mails are read here."""


@dataclass(frozen=True, slots=True)
class Account:
    """A person who has an account, in an organisation or in none."""

    http: httpx.Client
    user: User

    def sign_in(self, password: str = PASSWORD, **headers: str) -> str:
        """Return a fresh session token."""
        body = {"email": self.user.email, "password": password}
        answer = self.http.post("/api/auth/sign-in", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        self.http.cookies.clear()
        return str(answer.json()["sessionToken"])

    def jwt(self, session_token: str | None = None) -> str:
        """Return a JWT that is minted from a session token, or from that of a new session."""
        answer = ask(self.http, "GET", "/api/auth/token", session_token or self.sign_in())
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])


@dataclass(frozen=True, slots=True)
class AccountFixture:
    """The product over a database of its own, with two organisations, and the owner of the first."""

    http: httpx.Client
    session: Session
    acme: Organization
    globex: Organization
    owner: Account
    token: str
    """A session token of the owner's."""
    jwt: str
    """Minted from it."""

    def key(self, *scopes: str) -> str:
        """Return the secret of a new key of acme."""
        secret = factories.api_key(self.session, self.acme, *scopes).secret
        self.session.commit()
        return secret


def make_account_fixture(session: Session, http: httpx.Client) -> AccountFixture:
    """Found both organisations, and sign the owner in."""
    acme, globex = (factories.organization(session, name) for name in ("Acme", "Globex"))
    factories.installation(session, acme)
    owner = account(session, http, acme)
    token = owner.sign_in()
    return AccountFixture(http, session, acme, globex, owner, token, owner.jwt(token))


def account(session: Session, http: httpx.Client, *organizations: Organization, role: str = "owner") -> Account:
    """Add a person whose address is confirmed, and make them a member."""
    user = factories.user(session)
    user.password_hash, user.email_verified_at = hash_password(PASSWORD), factories.now()
    for organization in organizations:
        factories.membership(session, organization, user, role)
    session.commit()
    return Account(http, user)


def ask(http: httpx.Client, method: str, path: str, token: str | None = None, **request: Any) -> httpx.Response:
    """Send a request with a bearer token."""
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return http.request(method, path, headers={**headers, **request.pop("headers", {})}, **request)


def code(response: httpx.Response) -> tuple[int, str | None]:
    """Return an answer's status, and the code of a refusal."""
    return response.status_code, response.json()["error"]["code"] if response.status_code >= 400 else None


def mailed(session: Session, recipient: str) -> list[dict[str, Any]]:
    """Return what fills the mails to an address, the oldest first."""
    session.expire_all()
    rows = session.scalars(select(Mail).where(Mail.recipient == recipient).order_by(Mail.created_at, Mail.id))
    opened = [
        decrypt(SECRET_KEY.encode(), USE, associated_data(row.id, recipient), row.encrypted_values or b"")
        for row in rows
    ]
    return [orjson.loads(plain) for plain in opened]


def mailed_token(session: Session, recipient: str) -> str:
    """Return the token of the newest mail's link."""
    return token_of(mailed(session, recipient)[-1]["url"])


def token_of(url: str) -> str:
    """Return the token that an address holds."""
    query = parse_qs(urlsplit(url).query)
    [token] = query.get("token") or query["state"]
    return token


def signs_in(accounts: AccountFixture, email: str, password: str = PASSWORD) -> bool:
    """True if a person can sign in."""
    answer = ask(accounts.http, "POST", "/api/auth/sign-in", json={"email": email, "password": password})
    accounts.http.cookies.clear()
    assert answer.status_code in {200, 401}, answer.text
    return answer.status_code == 200
