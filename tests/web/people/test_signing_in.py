"""`/sign-in` and `/sign-out`: a new session each time, and nowhere else to go than our own pages."""

from collections.abc import Callable

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import LoginSession, User
from services.core.tokens import SESSION_PREFIX, new_session_token, token_hash
from tests import factories
from tests.web.people.conftest import PASSWORD, Later, Visit
from tests.web.people.forms import Person, set_cookie
from web.context import safe_redirect

WRONG = "Incorrect e-mail address or password, or the address is not confirmed yet."


def open_sessions(session: Session) -> list[LoginSession]:
    query = select(LoginSession).where(LoginSession.revoked_at.is_(None)).order_by(LoginSession.created_at)
    return list(session.scalars(query.execution_options(populate_existing=True)))


@pytest.fixture
def grace(account: Callable[[str], User]) -> User:
    return account("Grace")


class TestSigningIn:
    def test_a_session_begins_that_only_the_browser_holds(
        self, somebody: Person, grace: User, session: Session
    ) -> None:
        page = somebody.open("/sign-in")
        answer = somebody.send(page.form("Sign in"), email=" Grace@Example.test ", password=PASSWORD)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        [row] = open_sessions(session)
        token = somebody.session or ""
        assert token.startswith(SESSION_PREFIX)
        assert row.token_hash == token_hash(token)
        line = set_cookie(answer, "session")
        assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=2592000"} <= set(line.split("; "))
        assert token not in answer.text

    def test_the_session_is_the_apis_too(self, ada: Person) -> None:
        answer = ada.client.get("/api/auth/token")
        assert answer.status_code == 200, answer.text

    @pytest.mark.parametrize(
        ("email", "password"), [("grace@example.test", "wrong"), ("nobody@example.test", PASSWORD)]
    )
    def test_a_wrong_one_is_refused_alike(self, somebody: Person, grace: User, email: str, password: str) -> None:
        page = somebody.sign_in(email, password)
        assert page.status == 401
        assert page.answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert page.links[WRONG] == "#email"
        assert page.form("Sign in").fields["email"] == email
        assert page.form("Sign in").fields["password"] == ""
        assert somebody.session is None

    def test_empty_fields_are_named(self, somebody: Person) -> None:
        page = somebody.sign_in("", "")
        assert page.status == 400
        assert page.links["Email address is required"] == "#email"
        assert page.links["Password is required"] == "#password"

    def test_ten_wrong_ones_are_enough_for_a_quarter_of_an_hour(
        self, somebody: Person, grace: User, later: Later
    ) -> None:
        assert {somebody.sign_in(grace.email, "wrong").status for _ in range(10)} == {401}
        page = somebody.sign_in(grace.email, PASSWORD)
        assert (page.status, page.title) == (429, "Sign in")
        assert 0 < int(page.answer.headers["Retry-After"]) <= 900
        assert "Too many attempts. Try again in 15 minutes." in page.text
        later(minutes=15)
        assert somebody.sign_in(grace.email, PASSWORD).status == 200

    def test_who_is_signed_in_is_led_on(self, ada: Person) -> None:
        answer = ada.client.get("/sign-in", params={"next": "/device"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/device")


class TestFixation:
    def test_a_session_that_somebody_planted_is_not_taken_over(
        self, somebody: Person, grace: User, session: Session
    ) -> None:
        planted = new_session_token()
        somebody.client.cookies.set("session", planted)
        somebody.sign_in(grace.email, PASSWORD)
        [row] = open_sessions(session)
        assert row.token_hash != token_hash(planted)
        assert somebody.client.cookies.get("session", domain="127.0.0.1") != planted

    def test_the_attackers_own_session_in_the_browser_ends_with_the_sign_in(
        self, ada: Person, grace: User, session: Session
    ) -> None:
        before = ada.session
        page = ada.open("/sign-out")
        form = page.form("Sign out")
        form.action, form.fields = "/sign-in", {**form.fields, "next": "/"}
        ada.send(form, email=grace.email, password=PASSWORD)
        [row] = open_sessions(session)
        assert (row.user_id, ada.session != before) == (grace.id, True)

    def test_a_form_that_was_shown_before_the_sign_in_is_worth_nothing_after_it(
        self, somebody: Person, grace: User
    ) -> None:
        page = somebody.open("/sign-in")
        old = page.form("Sign in")
        somebody.send(old, email=grace.email, password=PASSWORD)
        old.action = "/sign-out"
        assert somebody.send(old).status_code == 403
        assert somebody.open("/").title == "Your account"


class TestLeadingOn:
    @pytest.mark.parametrize(
        "wanted",
        ["/", "/device", "/device?user_code=WDJBM-JHTXK", "/invitation?id=inv_1"],
    )
    def test_to_a_page_of_ours(self, somebody: Person, grace: User, wanted: str) -> None:
        page = somebody.open("/sign-in", next=wanted)
        answer = somebody.send(page.form("Sign in"), email=grace.email, password=PASSWORD)
        assert answer.headers["location"] == wanted

    @pytest.mark.parametrize(
        "wanted",
        [
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
            "/api/auth/sign-out",
            "/docs",
            "//[",
            "@evil.test",
            "",
        ],
    )
    def test_to_nowhere_else(self, somebody: Person, grace: User, wanted: str) -> None:
        assert safe_redirect(wanted) == "/"
        page = somebody.open("/sign-in", next=wanted)
        form = page.form("Sign in")
        assert form.fields["next"] == "/"
        answer = somebody.send(form, email=grace.email, password=PASSWORD, next=wanted)
        assert answer.headers["location"] == "/"

    def test_a_line_break_never_reaches_a_header(self) -> None:
        assert "\n" not in safe_redirect("/device?x=\r\nSet-Cookie: session=evil")
        assert "\r" not in safe_redirect("/device?x=\r\nSet-Cookie: session=evil")


class TestSigningOut:
    def test_it_ends_the_session_everywhere_at_once(self, ada: Person, visit: Visit, session: Session) -> None:
        copy = visit()
        copy.client.cookies.set("session", ada.session or "")
        assert copy.open("/").title == "Your account"
        page = ada.press(ada.open("/"), "Sign out")
        assert page.title == "Sign in"
        assert "You are signed out." in page.text
        assert ada.session is None
        assert open_sessions(session) == []
        assert copy.open("/").title == "Sign in"

    def test_a_link_to_it_ends_nothing(self, ada: Person, session: Session) -> None:
        page = ada.open("/sign-out")
        assert page.title == "Sign out?"
        assert len(open_sessions(session)) == 1
        assert ada.press(page, "Sign out").title == "Sign in"

    def test_who_is_not_signed_in_is_led_to_the_sign_in(self, somebody: Person) -> None:
        assert somebody.open("/sign-out").title == "Sign in"


class TestSessionsThatHaveEnded:
    def test_an_expired_one_is_none(self, ada: Person, later: Later) -> None:
        later(days=30)
        assert ada.open("/").title == "Sign in"

    def test_one_of_an_unknown_token_is_none(self, somebody: Person) -> None:
        for token in (new_session_token(), SESSION_PREFIX, "x", SESSION_PREFIX + "x" * 3000):
            somebody.client.cookies.set("session", token)
            assert somebody.open("/").title == "Sign in"

    def test_one_for_support_opens_no_page(self, somebody: Person, grace: User, session: Session) -> None:
        token = new_session_token()
        factories.login(session, grace, None, support=True, token_hash=token_hash(token), kind="support")
        somebody.client.cookies.set("session", token)
        assert somebody.open("/").title == "Sign in"
