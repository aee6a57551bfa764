"""The harness of `tests/jobs`, whose App may not write rulesets, and the page on which an administrator lets it."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from integrations.github import GitHub
from rules.errors import ServiceError
from rules.web_addresses import WebOrigin
from schemas.contract import load_contract
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.enforcement.confirmation import Authorizations
from services.enforcement.setup_plans import set_up
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Harness
from tests.jobs.conftest import build, fake_github, harness
from tests.jobs.setup.requests import ORGANIZATION, add, permit
from tests.web.test_pages import Page
from tools.fake_github.oauth import CLIENT_ID, CLIENT_SECRET
from web.application import create_pages
from web.enforcement import enforcement_pages

__all__ = ["build", "fake_github", "harness"]

WEB = "http://freeze.test"
ADDRESS = "/enforcement/authorized"


@dataclass(slots=True)
class Asked:
    """A setup that waits for an administrator, and their browser."""

    harness: Harness
    uow_factory: UnitOfWorkFactory
    browser: FlaskClient
    authorization_url: str
    expires_at: Any

    def ask_again(self, scope: dict[str, Any] | None = None) -> str:
        """Apply once more, and return the new address."""
        return str(refused_with(self.uow_factory, self.harness, scope or ORGANIZATION)["authorizationUrl"])

    def go(self, login: str = "root", url: str | None = None) -> dict[str, str]:
        """Authorise at GitHub as a person; returns what the browser is sent back with."""
        answer = requests.get(f"{url or self.authorization_url}&login={login}", allow_redirects=False, timeout=10)
        assert answer.status_code == 302, answer.text
        target = urlsplit(answer.headers["location"])
        assert f"{target.scheme}://{target.netloc}{target.path}" == WEB + ADDRESS
        return dict(parse_qsl(target.query))

    def look(self, back: dict[str, str]) -> TestResponse:
        """Open the page."""
        return self.browser.get(ADDRESS, query_string=back, base_url=WEB)

    def confirm(self, form: dict[str, str], **headers: str) -> TestResponse:
        """Send the form, from the page itself unless the headers say otherwise."""
        given = headers or {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
        named = {name.replace("_", "-"): value for name, value in given.items()}
        return self.browser.post(ADDRESS, data=form, headers=named, base_url=WEB)

    def do(self, login: str = "root", url: str | None = None) -> TestResponse:
        """Go the whole way."""
        return self.confirm(form_of(self.look(self.go(login, url))))


def form_of(page: TestResponse) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    assert page.status_code == 200, page.text
    return Form(page.text).fields


class Form(Page):
    """A page, with the fields of its form."""

    def __init__(self, html: str) -> None:
        self.fields: dict[str, str] = {}
        super().__init__(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "input":
            self.fields[given["name"]] = given["value"]
        super().handle_starttag(tag, attrs)


def refused_with(uow_factory: UnitOfWorkFactory, harness: Harness, scope: dict[str, Any]) -> dict[str, Any]:
    """Apply without the App's permission, and return what the refusal shows; its effects are kept, as the edge does."""
    refused: list[ServiceError] = []
    with uow_factory.open(Caller(harness.organization.id, ADA, "dashboard", BUSINESS)) as uow:
        try:
            set_up(uow, scope, "apply")
        except ServiceError as error:
            refused.append(error)
    assert [(each.code, each.commit_on_error) for each in refused] == [("admin_authorization_required", True)]
    return dict(refused[0].details[0].extra or {})


@pytest.fixture
def pages() -> Flask:
    return create_pages(load_contract())


@pytest.fixture
def asked(harness: Harness, pages: Flask) -> Asked:
    """Apply for two repositories, as Ada, without the App's permission."""
    add(harness, "web", "api", rulesets_authorized_by=None, rulesets_authorized_at=None)
    permit(harness)
    settings = replace(
        harness.github.settings, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, web_url=harness.base_url
    )
    github = GitHub(settings)
    ports = Ports(github, CursorSecret(b"a secret of the tests"), WebOrigin(WEB))
    uow_factory = UnitOfWorkFactory(
        harness.uow_factory.engine, harness.uow_factory.clock, harness.uow_factory.wakeups, ports
    )
    pages.register_blueprint(enforcement_pages(Authorizations(uow_factory, github), WEB))
    shown = refused_with(uow_factory, harness, ORGANIZATION)
    harness.run_until_idle()
    return Asked(harness, uow_factory, pages.test_client(), shown["authorizationUrl"], shown["expiresAt"])
