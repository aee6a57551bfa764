"""The page that GitHub leads to with an installation: it claims for who is signed in, and nothing by itself."""

import re
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from models.installations import Installation
from models.organizations import LoginSession, Membership, User
from services.core.tokens import new_session_token, token_hash
from tests import factories
from tests.handlers.callers import Caller
from tests.handlers.installation_connection import ConnectionFixture

PAGE = "/installed"
WEB_ORIGIN = "http://127.0.0.1:8080"


@dataclass(slots=True)
class Visitor:
    """A person with a browser, in which they may be signed in."""

    http: httpx.Client
    caller: Caller
    """The same person at the API."""
    cookies: dict[str, str]

    def look(self, query: dict[str, Any]) -> httpx.Response:
        page = self.http.get(PAGE, params=query, headers={"Cookie": self._cookies()})
        self.cookies |= dict(page.cookies)
        self.http.cookies.clear()
        return page

    def send(self, page: httpx.Response, origin: str = WEB_ORIGIN, **changes: str) -> httpx.Response:
        """Send the page's form."""
        assert page.status_code == 200, page.text
        form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
        headers = {"Origin": origin, "Cookie": self._cookies()}
        return self.http.post(PAGE, data={**form, **changes}, headers=headers)

    def _cookies(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())


@pytest.fixture
def visit(connection: ConnectionFixture, http: httpx.Client) -> Any:
    def visit(role: str = "admin", *, signed_in: bool = True) -> Visitor:
        person = factories.member(connection.session, connection.tenant.organization, role, role.title())
        token = new_session_token()
        factories.login(connection.session, person, connection.tenant.organization, token_hash=token_hash(token))
        caller = Caller(http, factories.session_token(connection.session, person, connection.tenant.organization))
        return Visitor(http, caller, {"session": token} if signed_in else {})

    return visit


def back(connection: ConnectionFixture, visitor: Visitor) -> dict[str, Any]:
    """Install the App as a visitor; returns the query that GitHub sends back."""
    given = connection.install(address=connection.address(visitor.caller))
    return {"installation_id": given["installationId"], "setup_action": "install", **given}


def claimed(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(Installation)) or 0


def wanted(query: dict[str, Any]) -> dict[str, Any]:
    return {name: query[name] for name in ("installation_id", "setup_action", "state", "code")}


class TestInstalledPage:
    def test_installed_page_shows_the_account_and_changes_nothing(
        self, connection: ConnectionFixture, visit: Any
    ) -> None:
        ada = visit()
        page = ada.look(wanted(back(connection, ada)))
        assert page.status_code == 200, page.text
        assert "<strong>Acme</strong>" in page.text
        assert claimed(connection.session) == 0
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-store"

    def test_installed_page_claims_the_installation_by_its_form(
        self, connection: ConnectionFixture, visit: Any
    ) -> None:
        ada = visit()
        done = ada.send(ada.look(wanted(back(connection, ada))))
        assert done.status_code == 200, done.text
        assert "<h1>GitHub is connected</h1>" in done.text
        assert connection.tenant.audit() == ["installation.requested", "installation.claimed"]
        assert claimed(connection.session) == 1

    def test_installed_page_redirects_to_sign_in_and_back(self, connection: ConnectionFixture, visit: Any) -> None:
        query = wanted(back(connection, visit()))
        answer = visit(signed_in=False).look(query)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in?next=%2Finstalled%3F")

    def test_installed_page_is_bound_to_the_requesting_person(self, connection: ConnectionFixture, visit: Any) -> None:
        query = wanted(back(connection, visit()))
        answer = visit("owner").look(query)
        assert answer.status_code == 404
        assert "given to someone else" in answer.text

    def test_installed_page_requires_the_role_at_submission(self, connection: ConnectionFixture, visit: Any) -> None:
        ada = visit()
        page = ada.look(wanted(back(connection, ada)))
        connection.session.execute(update(Membership).values(role="member"))
        assert ada.send(page).status_code == 403
        assert claimed(connection.session) == 0

    def test_installed_page_rejects_a_form_of_another_site(self, connection: ConnectionFixture, visit: Any) -> None:
        ada = visit()
        page = ada.look(wanted(back(connection, ada)))
        assert ada.send(page, "https://evil.test").status_code == 403
        assert claimed(connection.session) == 0

    def test_installed_page_accepts_its_form_once(self, connection: ConnectionFixture, visit: Any) -> None:
        ada = visit()
        page = ada.look(wanted(back(connection, ada)))
        assert ada.send(page).status_code == 200
        again = ada.send(page)
        assert again.status_code == 404
        assert "This address has been used" in again.text

    def test_installed_page_connects_the_organization_of_the_request(
        self, connection: ConnectionFixture, visit: Any
    ) -> None:
        ada = visit()
        query = wanted(back(connection, ada))
        person = connection.session.get_one(User, ada.caller.get("/v1/me").json()["id"])
        globex = factories.organization(connection.session, "Globex")
        factories.membership(connection.session, globex, person, "owner")
        connection.session.execute(update(LoginSession).values(organization_id=globex.id))
        page = ada.look(query)
        assert "<strong>Acme</strong>" in page.text
        assert "connected to <strong>Acme</strong>" in " ".join(ada.send(page).text.split())

    def test_installed_page_refuses_a_person_who_is_no_owner_on_github(
        self, connection: ConnectionFixture, visit: Any
    ) -> None:
        ada = visit()
        query = {**wanted(back(connection, ada)), "code": connection.code("grace")}
        connection.rights("grace", acme="push")
        answer = ada.send(ada.look(query))
        assert answer.status_code == 403
        assert "grace is not an owner of acme" in answer.text
        assert claimed(connection.session) == 0

    def test_installed_page_explains_a_request_to_an_owner(self, visit: Any) -> None:
        answer = visit().look({"setup_action": "request", "state": "x", "code": "y"})
        assert "asked an owner" in answer.text

    @pytest.mark.parametrize("query", [{"setup_action": "install"}, {"installation_id": "1", "state": "x"}])
    def test_installed_page_is_not_found_with_missing_parameters(self, visit: Any, query: dict[str, str]) -> None:
        assert visit().look(query).status_code == 404

    @pytest.mark.parametrize("number", ["x", "0", "1e3", "9" * 40])
    def test_installed_page_rejects_an_invalid_installation_id(
        self, connection: ConnectionFixture, visit: Any, number: str
    ) -> None:
        ada = visit()
        answer = ada.send(ada.look({**wanted(back(connection, ada)), "installation_id": number}))
        assert answer.status_code == 422
        assert claimed(connection.session) == 0


class TestInstallationStart:
    def test_installed_page_gives_an_administrator_the_install_url(
        self, connection: ConnectionFixture, visit: Any
    ) -> None:
        ada = visit()
        page = ada.look({})
        assert "is not connected yet" in page.text
        given = ada.send(page, do="install")
        [url] = re.findall(r'href="([^"]+/installations/new[^"]+)"', given.text)
        back = connection.install(address=url)
        query = {"installation_id": back["installationId"], "state": back["state"], "code": back["code"]}
        assert "<h1>GitHub is connected</h1>" in ada.send(ada.look(query)).text
        assert "is connected to <strong>acme</strong>" in ada.look({}).text

    def test_installed_page_shows_the_status_to_other_members(self, connection: ConnectionFixture, visit: Any) -> None:
        page = visit("member").look({})
        assert "Ask an administrator of the organisation to change this." in page.text
        assert "<button" not in page.text.partition("<main")[2].partition("</main>")[0]

    def test_installed_page_gives_other_members_no_install_url(self, connection: ConnectionFixture, visit: Any) -> None:
        member = visit("member")
        assert member.send(member.look({}), do="install").status_code == 403
        assert connection.tenant.audit() == []

    def test_installed_page_reports_a_removed_installation(self, connection: ConnectionFixture, visit: Any) -> None:
        factories.installation(connection.session, connection.tenant.organization, "acme", state="removed")
        assert "was uninstalled" in visit().look({}).text

    def test_installed_page_requires_an_organization(self, connection: ConnectionFixture, visit: Any) -> None:
        ada = visit()
        connection.session.execute(update(LoginSession).values(organization_id=None))
        answer = ada.look({})
        assert (answer.status_code, "Create an organisation first" in answer.text) == (404, True)
