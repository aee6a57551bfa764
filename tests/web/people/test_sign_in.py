"""`/sign-in` and `/sign-out`: a new session each time, and nowhere else to go than our own pages."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import LoginSession, User
from services.core.tokens import SESSION_PREFIX, new_session_token, token_hash
from tests import factories
from tests.web.people.conftest import PASSWORD, Later, Visit
from tests.web.people.forms import Person, set_cookie
from web.return_addresses import safe_redirect

WRONG = "Incorrect e-mail address or password, or the address is not confirmed yet."


def open_sessions(session: Session) -> list[LoginSession]:
    query = select(LoginSession).where(LoginSession.revoked_at.is_(None)).order_by(LoginSession.created_at)
    return list(session.scalars(query.execution_options(populate_existing=True)))


@pytest.fixture
def grace(account: Callable[[str], User]) -> User:
    return account("Grace")


class TestSigningIn:
    def test_sign_in_page_starts_a_session_held_only_by_the_browser(
        self, visitor: Person, grace: User, session: Session
    ) -> None:
        page = visitor.open("/sign-in")
        answer = visitor.send(page.form("Sign in"), email=" Grace@Example.test ", password=PASSWORD)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        [row] = open_sessions(session)
        token = visitor.session or ""
        assert token.startswith(SESSION_PREFIX)
        assert row.token_hash == token_hash(token)
        line = set_cookie(answer, "session")
        assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=2592000"} <= set(line.split("; "))
        assert token not in answer.text

    def test_browser_of_the_owner_is_not_locked_out_after_signing_out(self, visit: Visit, grace: User) -> None:
        owner, stranger = visit(), visit()
        owner.sign_in("grace@example.test", PASSWORD)
        owner.press(owner.open("/sign-out"), "Sign out")
        assert owner.session is None
        for _ in range(10):
            stranger.sign_in("grace@example.test", "wrong")
        assert stranger.sign_in("grace@example.test", PASSWORD).status == 429
        owner.sign_in("grace@example.test", PASSWORD)
        assert owner.session is not None

    @pytest.mark.parametrize(
        ("email", "password"), [("grace@example.test", "wrong"), ("nobody@example.test", PASSWORD)]
    )
    def test_wrong_password_and_unknown_address_are_refused_alike(
        self, visitor: Person, grace: User, email: str, password: str
    ) -> None:
        page = visitor.sign_in(email, password)
        assert page.status == 401
        assert page.answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert page.links[WRONG] == "#email"
        assert page.form("Sign in").fields["email"] == email
        assert page.form("Sign in").fields["password"] == ""
        assert visitor.session is None

    def test_sign_in_page_names_empty_fields(self, visitor: Person) -> None:
        page = visitor.sign_in("", "")
        assert page.status == 400
        assert page.links["Email address is required"] == "#email"
        assert page.links["Password is required"] == "#password"

    def test_sign_in_page_locks_the_account_after_ten_failures(
        self, visitor: Person, grace: User, later: Later
    ) -> None:
        assert {visitor.sign_in(grace.email, "wrong").status for _ in range(10)} == {401}
        page = visitor.sign_in(grace.email, PASSWORD)
        assert (page.status, page.title) == (429, "Sign in")
        assert 0 < int(page.answer.headers["Retry-After"]) <= 900
        assert "Too many attempts. Try again in 15 minutes." in page.text
        later(minutes=15)
        assert visitor.sign_in(grace.email, PASSWORD).status == 200

    def test_sign_in_page_redirects_a_signed_in_person(self, ada: Person) -> None:
        answer = ada.client.get("/sign-in", params={"next": "/device"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/device")


class TestFixation:
    def test_sign_in_replaces_a_planted_session_token(self, visitor: Person, grace: User, session: Session) -> None:
        planted = new_session_token()
        visitor.client.cookies.set("session", planted)
        visitor.sign_in(grace.email, PASSWORD)
        [row] = open_sessions(session)
        assert row.token_hash != token_hash(planted)
        assert visitor.client.cookies.get("session", domain="127.0.0.1") != planted

    def test_sign_in_ends_the_previous_session_of_the_browser(self, ada: Person, grace: User, session: Session) -> None:
        before = ada.session
        page = ada.open("/sign-out")
        form = page.form("Sign out")
        form.action, form.fields = "/sign-in", {**form.fields, "next": "/"}
        ada.send(form, email=grace.email, password=PASSWORD)
        [row] = open_sessions(session)
        assert (row.user_id, ada.session != before) == (grace.id, True)

    def test_form_shown_before_the_sign_in_is_refused_after_the_sign_in(self, visitor: Person, grace: User) -> None:
        page = visitor.open("/sign-in")
        old = page.form("Sign in")
        visitor.send(old, email=grace.email, password=PASSWORD)
        old.action = "/sign-out"
        assert visitor.send(old).status_code == 403
        assert visitor.open("/").title == "First steps"


class TestRedirects:
    @pytest.mark.parametrize(
        "address",
        [
            "/attention?severity=info",
            "/billing",
            "/billing?checkout=cs_1",
            "/settings/account",
            "/settings/account/email?token=abc",
            "/settings/profile",
            "/slack?state=s&code=c",
        ],
    )
    def test_page_leads_to_sign_in_and_back(self, visitor: Person, grace: User, address: str) -> None:
        asked = visitor.client.get(address)
        way = f"/sign-in?next={quote(address, safe='')}"
        assert (asked.status_code, asked.headers["location"]) == (303, way)
        answer = visitor.send(visitor.open(way).form("Sign in"), email=grace.email, password=PASSWORD)
        assert answer.headers["location"] == address

    @pytest.mark.parametrize(
        "wanted",
        ["/", "/device", "/device?user_code=WDJBM-JHTXK", "/invitation?id=inv_1"],
    )
    def test_sign_in_redirects_to_a_page_of_the_service(self, visitor: Person, grace: User, wanted: str) -> None:
        page = visitor.open("/sign-in", next=wanted)
        answer = visitor.send(page.form("Sign in"), email=grace.email, password=PASSWORD)
        assert answer.headers["location"] == wanted

    @pytest.mark.parametrize("wanted", ["https://evil.test/", "//evil.test/", "/api/auth/sign-out"])
    def test_sign_in_does_not_redirect_elsewhere(self, visitor: Person, grace: User, wanted: str) -> None:
        page = visitor.open("/sign-in", next=wanted)
        form = page.form("Sign in")
        assert form.fields["next"] == "/"
        answer = visitor.send(form, email=grace.email, password=PASSWORD, next=wanted)
        assert answer.headers["location"] == "/"
        assert visitor.client.get("/sign-in", params={"next": wanted}).headers["location"] == "/"

    def test_redirect_leads_to_pages_of_people_only(self) -> None:
        for wanted in (
            "https://evil.test/",
            "//evil.test/",
            "///evil.test",
            "/\\evil.test",
            "\\\\evil.test",
            "/\t/evil.test",
            "\n//evil.test",
            "javascript:alert(1)",
            "data:text/html,x",
            "/%2f/evil.test",
            "/device/../..//evil.test",
            "http:device",
            "https:evil.test",
            "/device@evil.test",
            "/api/auth/sign-out",
            "/docs",
            "//[",
            "@evil.test",
            "",
        ):
            assert safe_redirect(wanted) == "/", wanted

    def test_redirect_contains_no_line_break(self) -> None:
        assert "\n" not in safe_redirect("/device?x=\r\nSet-Cookie: session=evil")
        assert "\r" not in safe_redirect("/device?x=\r\nSet-Cookie: session=evil")


class TestSigningOut:
    def test_sign_out_ends_the_session_in_every_browser_at_once(
        self, ada: Person, visit: Visit, session: Session
    ) -> None:
        copy = visit()
        copy.client.cookies.set("session", ada.session or "")
        assert copy.open("/").title == "First steps"
        page = ada.press(ada.open("/"), "Sign out")
        assert page.title == "Sign in"
        assert "You are signed out." in page.text
        assert ada.session is None
        assert open_sessions(session) == []
        assert copy.open("/").title == "Sign in"

    def test_link_to_sign_out_does_not_end_the_session(self, ada: Person, session: Session) -> None:
        page = ada.open("/sign-out")
        assert page.title == "Sign out?"
        assert len(open_sessions(session)) == 1
        assert ada.press(page, "Sign out").title == "Sign in"

    def test_sign_out_page_redirects_to_sign_in_without_a_session(self, visitor: Person) -> None:
        assert visitor.open("/sign-out").title == "Sign in"


class TestInvalidSessions:
    def test_expired_session_leads_to_sign_in(self, ada: Person, later: Later) -> None:
        later(days=30)
        assert ada.open("/").title == "Sign in"

    def test_unknown_session_token_leads_to_sign_in(self, visitor: Person) -> None:
        for token in (new_session_token(), SESSION_PREFIX, "x", SESSION_PREFIX + "x" * 3000):
            visitor.client.cookies.set("session", token)
            assert visitor.open("/").title == "Sign in"

    def test_support_session_opens_no_page(self, visitor: Person, grace: User, session: Session) -> None:
        token = new_session_token()
        factories.login(session, grace, None, support=True, token_hash=token_hash(token), kind="support")
        visitor.client.cookies.set("session", token)
        assert visitor.open("/").title == "Sign in"
