"""`/sign-up` and `/verify`: an account begins with a mailed link, and nobody learns who has one."""

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.organizations import User
from tests.web.people.conftest import PASSWORD, Later, Mailed, Visit
from tests.web.people.forms import Page, Person

GRACE = {"name": "Grace Hopper", "email": "grace@example.test", "password": PASSWORD}
SPENT = "This link has been used already, or is too old, or was cut short on its way."


def people(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(User)) or 0


def signed_up(somebody: Person) -> Page:
    return somebody.press(somebody.open("/sign-up"), "Sign up", **GRACE)


class TestSigningUp:
    def test_from_the_form_to_an_account_that_signs_in(
        self, somebody: Person, mailed: Mailed, session: Session
    ) -> None:
        sent = signed_up(somebody)
        assert (sent.status, sent.title) == (202, "Look into your mailbox")
        assert people(session) == 0
        confirm = somebody.open(mailed("grace@example.test"))
        assert "under the name Grace Hopper" in confirm.text
        assert people(session) == 0, "looking makes no account"
        done = somebody.press(confirm, "Yes, confirm the address")
        assert done.title == "Sign in"
        assert "Your e-mail address is confirmed." in done.text
        assert somebody.session is None, "the link alone signs nobody in"
        home = somebody.press(done, "Sign in", email="grace@example.test", password=PASSWORD)
        assert "You are signed in as Grace Hopper (grace@example.test)." in home.text

    def test_a_known_address_is_answered_alike_and_gets_another_mail(
        self, ada: Person, somebody: Person, session: Session
    ) -> None:
        unknown = signed_up(somebody)
        known = somebody.press(somebody.open("/sign-up"), "Sign up", **{**GRACE, "email": "ada@example.test"})
        assert known.status == unknown.status == 202
        assert known.text.replace("ada@", "grace@") == unknown.text
        assert people(session) == 1

    def test_every_empty_field_is_named_and_led_to(self, somebody: Person) -> None:
        page = somebody.press(somebody.open("/sign-up"), "Sign up")
        assert page.status == 400
        assert page.answer.text.count("<title>Error: Sign up") == 1
        assert page.links["Your name is required"] == "#name"
        assert page.links["E-mail address is required"] == "#email"
        assert page.links["Password is required"] == "#password"
        for name, control in page.form("Sign up").kinds.items():
            if control["type"] != "hidden":
                assert control["aria-invalid"] == "true"
                assert f"{name}-problem" in control["aria-describedby"].split()

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("name", "x" * 101),
            ("email", "grace"),
            ("email", "grace@"),
            ("password", "short"),
            ("password", "password123"),
            ("password", "grace-grace-grace"),
            ("password", "x" * 201),
        ],
    )
    def test_what_the_contract_refuses_is_refused_at_its_field(
        self, somebody: Person, session: Session, field: str, value: str
    ) -> None:
        page = somebody.press(somebody.open("/sign-up"), "Sign up", **{**GRACE, field: value})
        assert page.status == 422
        assert f"#{field}" in page.links.values()
        form = page.form("Sign up")
        assert form.fields["password"] == "", "a password never comes back"
        assert form.fields["email"] == (value if field == "email" else GRACE["email"])

    def test_a_mistyped_address_is_told_in_words(self, somebody: Person) -> None:
        page = somebody.press(somebody.open("/sign-up"), "Sign up", **{**GRACE, "email": "grace"})
        assert "E-mail address must be an e-mail address, such as eve@example.com" in page.text

    def test_what_was_typed_comes_back_as_words(self, somebody: Person) -> None:
        name = '"><script>alert(1)</script>'
        page = somebody.press(somebody.open("/sign-up"), "Sign up", **{**GRACE, "name": name, "password": "x"})
        assert "<script>" not in page.answer.text
        assert page.form("Sign up").fields["name"] == name

    def test_too_many_mails_to_one_address_are_refused_until_later(self, somebody: Person, later: Later) -> None:
        pages = [signed_up(somebody) for _ in range(6)]
        assert [page.status for page in pages] == [202] * 5 + [429]
        assert int(pages[-1].answer.headers["Retry-After"]) > 0
        later(minutes=61)
        assert signed_up(somebody).status == 202


class TestTheLink:
    @pytest.mark.parametrize("token", ["", "x", "a" * 43, "ü", "\x00", "x" * 5000])
    def test_a_wrong_one_leads_to_a_new_one(self, somebody: Person, token: str) -> None:
        page = somebody.open("/verify", token=token)
        assert (page.status, page.title) == (404, "Not found")
        assert SPENT in page.text
        assert page.links["Sign up once more, for a new link"] == "/sign-up"

    def test_it_is_good_once(self, somebody: Person, mailed: Mailed, session: Session) -> None:
        signed_up(somebody)
        link = mailed("grace@example.test")
        confirm = somebody.open(link)
        somebody.press(confirm, "Yes, confirm the address")
        assert somebody.press(confirm, "Yes, confirm the address").status == 404
        again = somebody.open(link)
        assert again.status == 404
        assert "If you have confirmed the address already, just sign in." in again.text
        assert people(session) == 1

    def test_it_is_good_for_a_day(self, somebody: Person, mailed: Mailed, later: Later, session: Session) -> None:
        signed_up(somebody)
        confirm = somebody.open(mailed("grace@example.test"))
        later(hours=24)
        assert somebody.press(confirm, "Yes, confirm the address").status == 404
        assert people(session) == 0

    def test_a_link_to_choose_a_password_confirms_nothing(self, ada: Person, mailed: Mailed) -> None:
        ada.press(ada.open("/forgot"), "Send the link", email="ada@example.test")
        token = mailed("ada@example.test").partition("token=")[2]
        assert ada.open("/verify", token=token).status == 404

    def test_the_secret_is_in_no_address_but_the_mailed_one(
        self, somebody: Person, mailed: Mailed, visit: Visit
    ) -> None:
        signed_up(somebody)
        link = mailed("grace@example.test")
        token = link.partition("token=")[2]
        shown = somebody.open(link)
        assert shown.answer.headers["Referrer-Policy"] == "no-referrer"
        assert shown.answer.headers["Cache-Control"] == "no-store"
        assert token not in "".join(shown.links.values())
        assert [form.action for form in shown.forms] == ["/verify"]
        answer = somebody.send(shown.form("Yes"))
        assert answer.headers["location"] == "/sign-in?notice=verified"
