"""`/forgot` and `/reset`: another password by a mailed link, which ends every session."""

import pytest
from sqlalchemy.orm import Session

from tests.web.people.conftest import PASSWORD, Mailed, Visit
from tests.web.people.forms import Page, Person
from tests.web.people.test_sign_in import open_sessions

ANOTHER = "seven slow trams to the harbour"


def asked(person: Person, email: str = "ada@example.test") -> Page:
    return person.press(person.open("/forgot"), "Send reset link", email=email)


class TestForgot:
    def test_forgot_page_does_not_reveal_whether_an_account_exists(self, ada: Person, visitor: Person) -> None:
        known, unknown = asked(visitor), asked(visitor, "nobody@example.test")
        assert known.status == unknown.status == 202
        assert known.text.replace("ada@", "nobody@") == unknown.text

    def test_forgot_page_reports_an_invalid_address_at_its_field(self, visitor: Person) -> None:
        page = asked(visitor, "ada")
        assert page.status == 422
        assert "#email" in page.links.values()
        assert page.form("Send").fields["email"] == "ada"


class TestReset:
    def test_reset_page_changes_the_password_and_ends_every_session(
        self, ada: Person, visitor: Person, mailed: Mailed, session: Session
    ) -> None:
        asked(visitor)
        page = visitor.open(mailed("ada@example.test"))
        assert "the account ada@example.test" in page.text
        done = visitor.press(page, "Change password", password=ANOTHER)
        assert "Your password has been changed" in done.text
        assert visitor.session is None
        assert open_sessions(session) == []
        assert ada.open("/").title == "Sign in"
        assert visitor.sign_in("ada@example.test", PASSWORD).status == 401
        assert visitor.sign_in("ada@example.test", ANOTHER).title == "First steps"

    def test_browser_of_a_reset_link_is_not_locked_out_by_strangers(
        self, ada: Person, visit: Visit, mailed: Mailed
    ) -> None:
        owner, stranger = visit(), visit()
        asked(owner)
        owner.press(owner.open(mailed("ada@example.test")), "Change password", password=ANOTHER)
        for _ in range(10):
            stranger.sign_in("ada@example.test", "wrong")
        assert stranger.sign_in("ada@example.test", ANOTHER).status == 429
        assert owner.sign_in("ada@example.test", ANOTHER).title == "First steps"

    @pytest.mark.parametrize("password", ["", "short", "password123", "x" * 201])
    def test_rejected_password_does_not_consume_the_reset_link(
        self, ada: Person, visitor: Person, mailed: Mailed, password: str
    ) -> None:
        asked(visitor)
        page = visitor.press(visitor.open(mailed("ada@example.test")), "Change password", password=password)
        assert page.status in {400, 422}
        assert "#password" in page.links.values()
        assert page.form("Change").fields["password"] == ""
        assert visitor.press(page, "Change password", password=ANOTHER).title == "Sign in"

    @pytest.mark.parametrize("token", ["", "x", "a" * 43, "ü", "x" * 5000])
    def test_invalid_reset_link_offers_a_new_link(self, visitor: Person, token: str) -> None:
        page = visitor.open("/reset", token=token)
        assert (page.status, page.links["Request a new link"]) == (404, "/forgot")

    def test_opening_a_reset_link_does_not_consume_the_link(self, ada: Person, visit: Visit, mailed: Mailed) -> None:
        asked(ada)
        link = mailed("ada@example.test")
        assert [visit().open(link).status for _ in range(3)] == [200, 200, 200]

    def test_reset_secret_is_in_no_address_but_the_mailed_link(self, ada: Person, mailed: Mailed) -> None:
        asked(ada)
        link = mailed("ada@example.test")
        page = ada.open(link)
        assert page.answer.headers["Referrer-Policy"] == "no-referrer"
        assert link.partition("token=")[2] not in "".join(page.links.values())
        assert page.form("Change").action == "/reset"
