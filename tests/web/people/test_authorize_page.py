"""`/oauth/authorize` and `/connections`: a person decides on clients, sees them, and disconnects them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.oauth import OAuthClient, OAuthGrant
from models.organizations import LoginSession, Organization, User
from services.core.tokens import new_session_token, token_hash
from tests import factories
from tests.handlers.oauth.requests import CLIENT_ID, DOCUMENT, REDIRECT, answer_of, query_of
from tests.web.people.conftest import PASSWORD, user_of
from tests.web.people.forms import Form, Page, Person

PATH = "/oauth/authorize"
OPENER = "Cross-Origin-Opener-Policy"


@pytest.fixture
def client(session: Session, site: str) -> str:
    """Make the client known, and return its id."""
    fresh_until = factories.now() + timedelta(days=1)
    session.add(OAuthClient(client_id=CLIENT_ID, document=DOCUMENT, fresh_until=fresh_until))
    session.flush()
    return CLIENT_ID


def grants(session: Session) -> list[OAuthGrant]:
    return list(session.scalars(select(OAuthGrant).execution_options(populate_existing=True)))


def query(**changes: str | None) -> str:
    """Return the query of a request, for whatever resource there is."""
    return query_of(**{"resource": None, **changes})


def show(person: Person, **changes: str | None) -> Page:
    return Page(person.client.get(f"{PATH}?{query(**changes)}", follow_redirects=True))


def press(person: Person, page: Page, button: str, *scopes: str, **fields: str) -> httpx.Response:
    """Send the form of the page with these scopes ticked, as the browser does."""
    form = page.form(button)
    pressed = {name: value for name, value, text in form.buttons if button in text}
    data: dict[str, Any] = {**form.fields, **pressed, **fields, "scope": list(scopes)}
    return person.client.post(form.action, data=data, headers={"Origin": person.site})


@pytest.mark.usefixtures("client", "acme")
class TestConsent:
    def test_consent_page_names_client_hosts_organization_and_permissions(self, ada: Person) -> None:
        page = show(ada)
        words = " ".join(page.text.split())
        for shown in (
            "Example Client",
            "client.example",
            "localhost:53076",
            "Ada (ada@example.test)",
            "Acme, as admin",
            "90 days",
            "a program on your own machine",
            "freeze:read",
            "Start, extend, retry and lift freezes.",
        ):
            assert shown in words
        web = show(ada, redirect_uri="https://client.example/callback?kind=web")
        assert "localhost" not in web.text
        assert "your own machine" not in web.text

    def test_approval_leads_back_to_the_client_with_a_code(
        self, ada: Person, acme: Organization, session: Session
    ) -> None:
        answer = press(ada, show(ada), "Approve", "freeze:write")
        assert answer.status_code == 303
        location = answer.headers["Location"]
        assert location.startswith(f"{REDIRECT}?")
        assert answer_of(location).keys() == {"code", "state", "iss"}
        assert answer_of(location)["iss"] == ada.site
        assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
        [grant] = grants(session)
        assert (grant.organization_id, grant.scopes) == (acme.id, ["freeze:read", "freeze:write"])

    def test_denial_leads_back_with_an_error(self, ada: Person, session: Session) -> None:
        answer = press(ada, show(ada), "Deny")
        assert answer.status_code == 303
        assert answer_of(answer.headers["Location"])["error"] == "access_denied"
        assert grants(session) == []

    def test_approval_without_a_permission_shows_the_page_again(self, ada: Person, session: Session) -> None:
        page = Page(press(ada, show(ada), "Approve"))
        assert page.status == 422
        assert "There is a problem" in page.text
        assert "scope" not in page.form("Approve").fields
        assert press(ada, page, "Approve", "freeze:read").status_code == 303
        assert [grant.scopes for grant in grants(session)] == [["freeze:read"]]

    def test_page_that_is_shown_again_keeps_what_was_ticked(self, ada: Person) -> None:
        page = Page(press(ada, show(ada), "Approve", "freeze:read", organization_id=""))
        assert page.status == 422
        assert page.form("Approve").fields["scope"] == "freeze:read"

    def test_person_chooses_among_several_organizations(self, ada: Person, session: Session) -> None:
        globex = factories.organization(session, "Globex")
        factories.membership(session, globex, user_of(session), "viewer")
        page = show(ada)
        assert "Globex, as viewer" in page.text
        press(ada, page, "Approve", "freeze:read", organization_id=globex.id)
        assert [grant.organization_id for grant in grants(session)] == [globex.id]

    def test_person_without_an_organization_is_told_to_create_one(
        self, account: Callable[[str], User], visit: Callable[[], Person]
    ) -> None:
        account("Bob")
        bob = visit()
        bob.sign_in("bob@example.test", PASSWORD)
        page = show(bob)
        assert (page.status, page.title) == (409, "No organisation")

    def test_sign_in_leads_back_to_the_same_request(self, ada: Person, visit: Callable[[], Person]) -> None:
        stranger = visit()
        state = "a&b=c%FF\\é"
        first = stranger.client.get(f"{PATH}?{query(state=None)}&{urlencode({'state': state})}&x=%FF")
        assert first.status_code == 303
        assert urlsplit(first.headers["Location"]).path == "/sign-in"
        sign_in = stranger.open(first.headers["Location"])
        assert OPENER not in sign_in.answer.headers
        again = Page(stranger.send(sign_in.form("Sign in"), email="ada@example.test", password="wrong"))
        assert again.status == 401
        assert OPENER not in again.answer.headers
        page = stranger.press(again, "Sign in", email="ada@example.test", password=PASSWORD)
        assert "Example Client" in page.title
        location = press(stranger, page, "Approve", "freeze:read").headers["Location"]
        assert answer_of(location)["state"] == state

    def test_visitor_sees_errors_of_the_client_before_signing_in(self, visit: Callable[[], Person]) -> None:
        stranger = visit()
        answer = stranger.client.get(f"{PATH}?{query(code_challenge_method='plain')}")
        assert answer.status_code == 303
        assert answer_of(answer.headers["Location"])["error"] == "invalid_request"

    def test_request_in_doubt_is_an_error_page_without_a_redirect(
        self, visit: Callable[[], Person], ada: Person
    ) -> None:
        cases: list[dict[str, str | None]] = [
            {"client_id": None},
            {"client_id": "https://10.0.0.1/metadata.json"},
            {"redirect_uri": "https://evil.example/"},
            {"redirect_uri": "http://localhost:53076@evil.example/callback"},
            {"redirect_uri": "javascript:alert(1)"},
            {"redirect_uri": None},
            {"state": "x" * 5000},
        ]
        for changes in cases:
            for person in (visit(), ada):
                answer = person.client.get(f"{PATH}?{query(**changes)}")
                assert answer.status_code in {400, 422}
                assert "Location" not in answer.headers
                assert "evil.example" not in answer.text


@pytest.mark.usefixtures("client", "acme")
class TestAttacks:
    def test_consent_cannot_be_framed_and_its_form_leads_only_to_the_client(self, ada: Person) -> None:
        page = show(ada)
        policy = page.answer.headers["Content-Security-Policy"].split("; ")
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self' http://localhost:53076" in policy
        assert page.answer.headers["X-Frame-Options"] == "DENY"
        assert page.answer.headers["Cache-Control"] == "no-store"
        assert page.answer.headers["Referrer-Policy"] == "no-referrer"
        assert OPENER not in page.answer.headers
        assert OPENER in ada.open("/").answer.headers
        assert OPENER in ada.open("/connections").answer.headers

    def test_form_with_a_changed_request_is_checked_again(self, ada: Person, session: Session) -> None:
        page = show(ada)
        changed = query(redirect_uri="https://evil.example/")
        answer = press(ada, page, "Approve", "freeze:read", query=changed)
        assert answer.status_code == 400
        assert "Location" not in answer.headers
        assert grants(session) == []

    def test_support_session_cannot_approve(self, site: str, session: Session, acme: Organization, ada: Person) -> None:
        token = new_session_token()
        hashed = {"token_hash": token_hash(token), "kind": "support", "support_by": "olga", "support_reason": "to help"}
        row: LoginSession = factories.login(session, user_of(session), acme, support=True, **hashed)
        assert row.support
        ada.client.cookies.set("session", token, domain="127.0.0.1")
        assert Page(ada.client.get(f"{PATH}?{query()}", follow_redirects=True)).title == "Sign in"
        form = Form(PATH, "post", {"query": query(), "decision": "approve", "organization_id": acme.id})
        assert ada.send(form).status_code in {303, 403}
        assert grants(session) == []

    def test_name_of_a_client_is_shown_as_text(self, ada: Person, session: Session) -> None:
        row = session.get_one(OAuthClient, CLIENT_ID)
        row.document = {**DOCUMENT, "client_name": "<script>alert(1)</script><h1>Bank"}
        session.flush()
        assert "<script>alert" not in show(ada).answer.text

    def test_direction_of_a_name_ends_with_the_name(self, ada: Person, session: Session) -> None:
        row = session.get_one(OAuthClient, CLIENT_ID)
        row.document = {**DOCUMENT, "client_name": "\u202e\u05d1\u05e0\u05e7"}
        session.flush()
        assert "<h1>Connect <q><bdi>\u05d1\u05e0\u05e7</bdi></q>?</h1>" in show(ada).answer.text

    @pytest.mark.parametrize("prompt", ["none", "login", "consent", "select_account"])
    def test_prompt_and_login_hint_change_nothing(
        self, ada: Person, visit: Callable[[], Person], session: Session, prompt: str
    ) -> None:
        given = {"prompt": prompt, "login_hint": "eve@example.test", "id_token_hint": "x", "max_age": "0"}
        page = show(ada, **given)
        assert page.form("Approve")
        assert "eve@example.test" not in page.form("Approve").fields.values()
        sign_in = show(visit(), **given)
        assert sign_in.title == "Sign in"
        assert "eve@example.test" not in sign_in.form("Sign in").fields.values()
        assert grants(session) == []


@pytest.mark.usefixtures("client")
class TestConnections:
    def test_person_sees_and_disconnects_a_client(self, ada: Person, acme: Organization, session: Session) -> None:
        press(ada, show(ada), "Approve", "freeze:read")
        assert "Connected clients" in ada.open("/settings/account").links
        page = ada.open("/connections")
        words = " ".join(page.text.split())
        assert "Example Client" in words
        assert CLIENT_ID in words
        assert "Acme: freeze:read" in words
        assert "never used" in words
        assert page.questions() == [
            "Disconnect Example Client? It can no longer read or freeze for you. To use it again, connect it again."
        ]
        done = ada.press(page, "Disconnect")
        assert "It has no access any more." in done.text
        assert "You have connected no client." in done.text
        assert [grant.revoked_why for grant in grants(session)] == ["by_person"]

    def test_administrator_sees_and_ends_the_connections_of_others(
        self, ada: Person, acme: Organization, session: Session, account: Callable[[str], User], visit: Any
    ) -> None:
        factories.membership(session, acme, account("Bob"), "member")
        bob = visit()
        bob.sign_in("bob@example.test", PASSWORD)
        press(bob, show(bob), "Approve", "freeze:read")
        assert "Of other members" not in bob.open("/connections").text
        ada.press(ada.open("/settings/account"), "Switch")
        page = ada.open("/connections")
        assert "Example Client of Bob" in " ".join(page.text.split())
        assert page.questions() == [
            "Disconnect Example Client? It can no longer read or freeze for Bob. To use it again, connect it again."
        ]
        ada.press(page, "Disconnect")
        assert [grant.revoked_why for grant in grants(session)] == ["by_administrator"]
