"""Name, address and password of a person who is signed in, signing out everywhere, and leaving."""

from sqlalchemy.orm import Session

from models.organizations import Organization
from tests.web.people.conftest import PASSWORD, Mailed, Visit
from tests.web.people.forms import Person

ANOTHER = "seven slow trams to the harbour"


class TestProfile:
    def test_name_changes(self, ada: Person) -> None:
        page = ada.press(ada.open("/settings/profile"), "Change name", name="Ada Lovelace")
        assert "Your name has been changed." in page.text
        assert page.form("Change name").fields["name"] == "Ada Lovelace"

    def test_password_changes_with_the_present_one(self, ada: Person, visit: Visit) -> None:
        page = ada.press(ada.open("/settings/profile"), "Change password", current_password="wrong", password=ANOTHER)
        assert "#current_password" in page.links.values()
        given = {"current_password": PASSWORD, "password": ANOTHER}
        page = ada.press(ada.open("/settings/profile"), "Change password", **given)
        assert "Your password has been changed" in page.text
        other = visit()
        other.sign_in("ada@example.test", ANOTHER)
        assert other.session is not None

    def test_address_changes_once_the_mailed_link_is_confirmed(self, ada: Person, mailed: Mailed) -> None:
        given = {"email": "countess@example.test", "email_password": PASSWORD}
        page = ada.press(ada.open("/settings/profile"), "Change address", **given)
        assert "We sent a link to the new address." in page.text
        assert "ada@example.test" in page.text
        link = mailed("countess@example.test")
        page = ada.press(ada.open(link), "Change the address")
        assert "Your email address has been changed." in page.text
        assert "countess@example.test" in page.text
        assert ada.press(ada.open(link), "Change the address").title == "This link is no longer valid"

    def test_wrong_password_of_the_address_stands_at_its_own_field(self, ada: Person) -> None:
        given = {"email": "countess@example.test", "email_password": "wrong"}
        page = ada.press(ada.open("/settings/profile"), "Change address", **given)
        assert "#email_password" in page.links.values()

    def test_signing_out_everywhere_ends_this_session_too(self, ada: Person, visit: Visit) -> None:
        other = visit()
        other.sign_in("ada@example.test", PASSWORD)
        ada.press(ada.open("/settings/profile"), "Sign out everywhere")
        assert ada.session is None
        assert other.open("/settings/profile").title == "Sign in"

    def test_member_leaves_the_organization(self, ada: Person, acme: Organization, session: Session) -> None:
        ada.press(ada.open("/settings/account"), "to Acme")
        page = ada.press(ada.open("/settings/profile"), "Leave Acme")
        assert "You left the organisation." in page.text
        assert "Leave Acme" not in ada.open("/settings/profile").text
