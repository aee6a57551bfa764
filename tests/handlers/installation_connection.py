"""Connecting an organisation to GitHub: the address, what comes back from it, and the claim."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from sqlalchemy.orm import Session

from tests.handlers.callers import Caller, Tenant, answered
from tools.fake_github import FakeGitHub
from tools.fake_github.model.installations import client_id_of, uninstall
from tools.fake_github.model.world import Actor

URL, STATUS, CLAIM, ONBOARDING = (
    "/v1/github/install-url",
    "/v1/installations/status",
    "/v1/installations/claim",
    "/v1/onboarding",
)
BACK = "http://127.0.0.1:8080/installed"


@dataclass(frozen=True, slots=True)
class ConnectionFixture:
    """An organisation that has no installation yet, and its account at GitHub."""

    tenant: Tenant
    host: FakeGitHub
    admin: Caller

    @property
    def session(self) -> Session:
        return self.tenant.session

    def address(self, who: Caller | None = None) -> str:
        """Request GitHub's address."""
        url: str = answered((who or self.admin).get(URL))["url"]
        return url

    def install(self, login: str = "root", account: str = "acme", address: str | None = None) -> dict[str, Any]:
        """Go to GitHub's address and install the App; returns what a claim takes."""
        query = {"login": login, "account": account}
        url = httpx.URL(address or self.address()).copy_merge_params(query)
        answer = httpx.get(url, follow_redirects=False, timeout=10)
        assert answer.status_code == 302, answer.text
        back = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
        return {"installationId": int(back["installation_id"]), "state": back["state"], "code": back["code"]}

    def code(self, login: str = "root") -> str:
        """Authorise the App once more as a person."""
        return self.host.oauth.give_code(
            client_id_of(self.host.app.id), self.host.world.add_account(login, "User"), BACK
        )

    def claim(self, body: dict[str, Any], who: Caller | None = None) -> httpx.Response:
        return (who or self.admin).post(CLAIM, body)

    def uninstall(self, number: int) -> None:
        """Uninstall at GitHub, without a webhook."""
        with self.host.quietly():
            uninstall(self.host.world, Actor(self.host.maintainer), self.host.world.installations[number])

    def rights(self, login: str, **rights: str) -> None:
        self.host.oauth.rights[login] = {place.replace("__", "/"): level for place, level in rights.items()}
