"""People with a password, as they come over HTTP."""

from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy.orm import Session

from models.organizations import Organization, User
from tests import factories
from tests.harness import passwords
from tests.harness.passwords import PASSWORD


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
    user = passwords.account(session, "Ada", *organizations, role=role)
    session.commit()
    return Account(http, user)


def ask(http: httpx.Client, method: str, path: str, token: str | None = None, **request: Any) -> httpx.Response:
    """Send a request with a bearer token."""
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return http.request(method, path, headers={**headers, **request.pop("headers", {})}, **request)


def code(response: httpx.Response) -> tuple[int, str | None]:
    """Return an answer's status, and the code of a refusal."""
    return response.status_code, response.json()["error"]["code"] if response.status_code >= 400 else None


def signs_in(accounts: AccountFixture, email: str, password: str = PASSWORD) -> bool:
    """True if a person can sign in."""
    answer = ask(accounts.http, "POST", "/api/auth/sign-in", json={"email": email, "password": password})
    accounts.http.cookies.clear()
    assert answer.status_code in {200, 401}, answer.text
    return answer.status_code == 200
