"""Those who call the API in tests, and their answers."""

import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy.orm import Session

from models.installations import Installation
from models.organizations import Organization
from models.repositories import Repository
from services.identity.oauth.access_tokens import issue_grant_token
from tests import factories
from tools.fake_github import FakeGitHub

EVERYTHING = {"scope": {"type": "organization"}, "reason": "Release under way", "impactAcknowledged": True}
"""A freeze of the whole organisation."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller with or without a credential."""

    http: httpx.Client
    token: str | None = None

    def send(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = {**request.pop("headers", {})}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return self.http.request(method, path, headers=headers, **request)

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.send("GET", path, params=params)

    def post(self, path: str, body: Any = None, **request: Any) -> httpx.Response:
        return self.send("POST", path, json=body, **request) if body is not None else self.send("POST", path, **request)

    def patch(self, path: str, body: Any, **request: Any) -> httpx.Response:
        return self.send("PATCH", path, json=body, **request)

    def delete(self, path: str, **request: Any) -> httpx.Response:
        return self.send("DELETE", path, **request)


@dataclass(slots=True)
class Tenant:
    """An organisation, here and at GitHub."""

    session: Session
    http: httpx.Client
    host: FakeGitHub
    account: str
    organization: Organization
    installation: Installation
    _people: dict[str, Caller] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.organization.id

    @property
    def anybody(self) -> Caller:
        """A caller without a credential."""
        return Caller(self.http)

    def key(self, *scopes: str, **columns: Any) -> Caller:
        """Return a new API key with these scopes; none: all of them."""
        return Caller(self.http, factories.api_key(self.session, self.organization, *scopes, **columns).secret)

    def person(self, role: str) -> Caller:
        """Return a member with this role, signed in."""
        if role not in self._people:
            token = factories.member_token(self.session, self.organization, role)
            self._people[role] = Caller(self.http, token)
        return self._people[role]

    def connected(self, role: str, *scopes: str) -> Caller:
        """Return an MCP client that a new member with this role has connected; no scopes: all of them."""
        person = factories.member(self.session, self.organization, role)
        grant = factories.connection(self.session, person, self.organization, *scopes)
        signer = factories.signer(self.session)
        return Caller(self.http, issue_grant_token(signer, grant, grant.scopes, now=factories.now()))

    @property
    def support(self) -> Caller:
        """A support session."""
        return Caller(self.http, factories.member_token(self.session, self.organization, "owner", support=True))

    def repository(self, name: str = "web", *branches: str, **columns: Any) -> Repository:
        """Make a repository at GitHub, with these branches beside `main`, and its row, enabled by default."""
        record = self.host.organization(self.account).repository(name, branches=branches).record
        given = {"github_id": record.id, "node_id": record.node_id, **columns}
        return factories.repository(self.session, self.organization, f"{self.account}/{name}", **given)

    def audit(self) -> list[str]:
        """Return the actions in the audit trail, the oldest first."""
        return factories.audit_actions(self.session, self.organization)


def answered(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """Check that a request succeeded, and return its object."""
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()
    return found


def refusal(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that a request was refused with this code, and return the error."""
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == code, response.text
    assert error["requestId"] == response.headers["x-request-id"]
    return error


def closed(response: httpx.Response, seconds: int, *, since: float) -> None:
    """Assert that a limit was met, for so long from the first try on; `since` is `monotonic()` just before that."""
    refusal(response, 429, "rate_limited")
    passed = time.monotonic() - since
    assert seconds - passed - 1 < int(response.headers["Retry-After"]) <= seconds
