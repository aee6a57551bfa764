"""`/sign-up` and `/verify`: an account starts with a mailed link, and accounts cannot be enumerated."""

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.organizations import User
from tests.web.people.conftest import PASSWORD, Mailed, Visit
from tests.web.people.forms import Page, Person

GRACE = {"name": "Grace Hopper", "email": "grace@example.test", "password": PASSWORD}
EXPIRED = "This link has been used, has expired, or is incomplete."


def people(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(User)) or 0


def signed_up(visitor: Person) -> Page:
    return visitor.press(visitor.open("/sign-up"), "Create account", **GRACE)


class TestSigningUp:
    def test_sign_up_page_leads_to_an_account_that_signs_in(
        self, visitor: Person, mailed: Mailed, session: Session
    ) -> None:
        sent = signed_up(visitor)
        assert (sent.status, sent.title) == (202, "Check your email")
        assert people(session) == 0
        confirm = visitor.open(mailed("grace@example.test"))
        assert "as Grace Hopper" in " ".join(confirm.text.split())
        assert people(session) == 0, "looking makes no account"
        assert visitor.session is None, "the link alone does not sign in"
        home = visitor.press(confirm, "Confirm address", password=PASSWORD)
        assert "Signed in as Grace Hopper (grace@example.test)." in home.text

    def test_sign_up_page_answers_a_known_address_alike_but_mails_otherwise(
        self, ada: Person, visitor: Person, session: Session
    ) -> None:
        unknown = signed_up(visitor)
        known = visitor.press(visitor.open("/sign-up"), "Create account", **{**GRACE, "email": "ada@example.test"})
        assert known.status == unknown.status == 202
        assert known.text.replace("ada@", "grace@") == unknown.text
        assert people(session) == 1

    def test_sign_up_page_names_and_links_every_empty_field(self, visitor: Person) -> None:
        page = visitor.press(visitor.open("/sign-up"), "Create account")
        assert page.status == 400
        assert page.answer.text.count("<title>Error: Create your account") == 1
        assert page.links["Your name is required"] == "#name"
        assert page.links["Email address is required"] == "#email"
        assert page.links["Password is required"] == "#password"
        for name, control in page.form("Create account").kinds.items():
            if control["type"] != "hidden":
                assert control["aria-invalid"] == "true"
                assert f"{name}-problem" in control["aria-describedby"].split()

    def test_sign_up_page_reports_invalid_values_at_their_fields(self, visitor: Person, session: Session) -> None:
        cases: list[tuple[str, str]] = [
            ("name", "x" * 101),
            ("email", "grace"),
            ("email", "grace@"),
            ("password", "short"),
            ("password", "password123"),
            ("password", "grace-grace-grace"),
            ("password", "x" * 201),
        ]
        for field, value in cases:
            page = visitor.press(visitor.open("/sign-up"), "Create account", **{**GRACE, field: value})
            assert page.status == 422
            assert f"#{field}" in page.links.values()
            form = page.form("Create account")
            assert form.fields["password"] == "", "a password never comes back"
            assert form.fields["email"] == (value if field == "email" else GRACE["email"])

    def test_sign_up_page_escapes_the_submitted_values(self, visitor: Person) -> None:
        name = '"><script>alert(1)</script>'
        page = visitor.press(visitor.open("/sign-up"), "Create account", **{**GRACE, "name": name, "password": "x"})
        assert "<script>" not in page.answer.text
        assert page.form("Create account").fields["name"] == name


class TestVerificationLink:
    @pytest.mark.parametrize("token", ["", "x", "a" * 43, "ü", "\x00", "x" * 5000])
    def test_invalid_verification_link_offers_a_new_link(self, visitor: Person, token: str) -> None:
        page = visitor.open("/verify", token=token)
        assert (page.status, page.title) == (404, "This link is no longer valid")
        assert EXPIRED in page.text
        assert page.links["Sign up again to get a new link"] == "/sign-up"

    def test_verify_page_names_the_address_and_explains_how_to_decline(self, visitor: Person, mailed: Mailed) -> None:
        signed_up(visitor)
        page = visitor.open(mailed("grace@example.test"))
        assert "Someone signed up with grace@example.test as Grace Hopper." in " ".join(page.text.split())
        assert "If it was not you, close this page and no account is created." in page.text
        assert page.links["sign up yourself"] == "/sign-up"
        assert page.labels["password"] == "Password"
        assert page.form("Confirm").kinds["password"]["type"] == "password"

    @pytest.mark.parametrize(
        ("password", "status", "reported"),
        [
            ("another one of mine", 401, "or sign up again to get a new link."),
            ("", 400, "Password is required"),
            ("x" * 1001, 422, "Password"),
        ],
    )
    def test_wrong_password_is_reported_at_its_field_and_keeps_the_link(
        self, visitor: Person, mailed: Mailed, session: Session, password: str, status: int, reported: str
    ) -> None:
        signed_up(visitor)
        confirm = visitor.open(mailed("grace@example.test"))
        page = visitor.press(confirm, "Confirm address", password=password)
        assert page.status == status
        assert page.answer.text.count("<title>Error: Confirm your email address") == 1
        assert reported in page.text
        assert "#password" in page.links.values()
        assert "grace@example.test" in page.text
        control = page.form("Confirm").kinds["password"]
        assert (control["aria-invalid"], control["value"]) == ("true", "")
        assert people(session) == 0
        assert visitor.press(page, "Confirm address", password=PASSWORD).title == "First steps"

    def test_verification_secret_is_in_no_address_but_the_mailed_link(
        self, visitor: Person, mailed: Mailed, visit: Visit
    ) -> None:
        signed_up(visitor)
        link = mailed("grace@example.test")
        token = link.partition("token=")[2]
        shown = visitor.open(link)
        assert shown.answer.headers["Referrer-Policy"] == "no-referrer"
        assert shown.answer.headers["Cache-Control"] == "no-store"
        assert token not in "".join(shown.links.values())
        assert [form.action for form in shown.forms] == ["/verify"]
        answer = visitor.send(shown.form("Confirm"), password=PASSWORD)
        assert answer.headers["location"] == "/"
