"""Programs and browsers that sign in to accounts with a password."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.organizations import User
from tests.handlers.callers import answered
from tests.harness.passwords import PASSWORD
from tests.harness.response_conformance import checked_client

EVE = {"name": "Eve Adams", "email": "eve@example.com", "password": PASSWORD}
"""The fields of a sign-up."""
OTHER = "eight green bicycles"
HERE = "http://127.0.0.1:8080"
"""The web origin of the service that tests talk to."""


@dataclass(frozen=True, slots=True)
class Client:
    """A program or a browser with cookies of its own; every answer is checked against the contract."""

    http: httpx.Client
    token: str = ""

    def send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request, with the session token where there is one."""
        headers = {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **request.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **request)

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.send("GET", path, params=params)

    def post(self, path: str, body: Any = None, **request: Any) -> httpx.Response:
        return self.send("POST", path, **({"json": body} if body is not None else {}), **request)

    def delete(self, path: str, **request: Any) -> httpx.Response:
        return self.send("DELETE", path, **request)

    def auth(self, operation: str, **body: Any) -> httpx.Response:
        """Post to one of the operations below `/api/auth`."""
        return self.post(f"/api/auth/{operation}", body)

    def sign_in(self, email: str, password: str = PASSWORD, **request: Any) -> httpx.Response:
        return self.post("/api/auth/sign-in", {"email": email, "password": password}, **request)

    def jwt(self) -> str:
        """Mint a JWT from the session."""
        return str(answered(self.get("/api/auth/token"))["token"])

    def ask(self, jwt: str) -> httpx.Response:
        """Ask the API something with a JWT."""
        return self.http.get("/v1/branches", headers={"Authorization": f"Bearer {jwt}"})

    def calls(self, jwt: str | None = None) -> int:
        """Ask the API something with a JWT, by default a new one, and return the status."""
        return self.ask(jwt or self.jwt()).status_code

    def signed_in(self, user: User, password: str = PASSWORD) -> "Client":
        """Return a program that has signed in: it has a token, and no cookie."""
        answer = answered(self.sign_in(user.email, password))
        self.http.cookies.clear()
        return Client(self.http, answer["sessionToken"])


@contextmanager
def client(base_url: str) -> Iterator[Client]:
    """Yield a client that is not signed in."""
    with checked_client(base_url) as http:
        yield Client(http)


def confirmed(visitor: Client, token: str, password: str = PASSWORD) -> httpx.Response:
    """Follow the link of a sign-up, with the password that was chosen there."""
    return visitor.auth("verify-email", token=token, password=password)


def accounts(session: Session) -> int:
    """Return how many people have an account."""
    return session.scalar(select(func.count()).select_from(User)) or 0
