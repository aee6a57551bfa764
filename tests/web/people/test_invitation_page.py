"""`/invitation`: who invites to what, with which role; only the account of the invited address accepts it."""

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.identity import Invitation, OneTimeToken
from models.organizations import Membership, Organization, User
from services.organizations.received_invitations import PROVES_MAILBOX
from tests import factories
from tests.web.people.conftest import PASSWORD
from tests.web.people.forms import Page, Person

GONE = "This invitation does not exist, is not for you, or has been accepted, revoked, or has expired."

Invite = Callable[..., tuple[str, Invitation]]


@pytest.fixture
def acme(session: Session) -> Organization:
    return factories.organization(session, "Acme")


@pytest.fixture
def invite(session: Session, acme: Organization) -> Invite:
    """Invite an address; returns the token of its mail, and the invitation."""
    return partial(factories.invitation, session, acme)


def roles(session: Session, acme: Organization) -> list[tuple[str, str]]:
    query = select(User.name, Membership.role).join(Membership, Membership.user_id == User.id)
    return [(name, role) for name, role in session.execute(query.where(Membership.organization_id == acme.id))]


class TestInvitationPage:
    def test_invitation_page_names_inviter_address_organization_and_role(self, visitor: Person, invite: Invite) -> None:
        token, _ = invite("ada@example.test", "admin")
        page = visitor.open("/invitation", token=token)
        assert page.status == 200
        words = " ".join(page.text.split())
        assert "Linus <b> invited ada@example.test to join the organisation Acme as admin." in words
        assert "Manage members, invitations" in words
        assert "delete the organisation" not in words
        assert page.answer.headers["Referrer-Policy"] == "no-referrer"

    @pytest.mark.parametrize("token", ["x", "a" * 43, "x" * 5000])
    def test_invitation_with_a_wrong_link_is_not_found(self, visitor: Person, token: str) -> None:
        page = visitor.open("/invitation", token=token)
        assert page.status == 404
        assert GONE in page.text

    def test_invitation_is_found_by_id_only_by_the_invited_person(
        self, ada: Person, visitor: Person, invite: Invite
    ) -> None:
        _, own = invite("ada@example.test")
        _, other = invite("grace@example.test")
        assert ada.open("/invitation", id=own.id).status == 200
        assert ada.open("/invitation", id=other.id).status == 404
        assert visitor.open("/invitation", id=own.id).title == "Sign in"


class TestJoining:
    """The link of the mail proves the mailbox; the page asks only for a name and a password."""

    @pytest.fixture
    def mailed_token(self, invite: Invite, session: Session) -> str:
        token, _ = invite("grace@example.test", "viewer")
        for link in session.scalars(select(OneTimeToken)):
            link.details = {PROVES_MAILBOX: True}
        session.flush()
        return token

    def test_mailed_link_asks_for_name_and_password_and_leads_in(
        self, visitor: Person, mailed_token: str, session: Session, acme: Organization
    ) -> None:
        page = visitor.open("/invitation", token=mailed_token)
        shown = page.form("Join Acme").kinds
        assert {name for name, each in shown.items() if each["type"] != "hidden"} == {"name", "password"}
        home = visitor.press(page, "Join Acme", name="Grace", password=PASSWORD)
        assert "You joined the organisation." in home.text
        assert roles(session, acme) == [("Grace", "viewer")]
        assert visitor.open("/invitation", token=mailed_token).status == 404

    def test_mailed_link_to_an_address_with_an_account_has_it_sign_in(
        self, visitor: Person, mailed_token: str, session: Session, acme: Organization, account: Callable[[str], User]
    ) -> None:
        page = visitor.open("/invitation", token=mailed_token)
        account("Grace")
        answer = visitor.send(page.form("Join Acme"), name="Mallory", password="seven slow trams in May")
        assert answer.headers["location"].startswith("/sign-in?next=%2Finvitation")
        assert (visitor.session, roles(session, acme)) == (None, [])
        assert "Sign in as grace@example.test to accept" in visitor.open("/invitation", token=mailed_token).text

    def test_link_that_was_shown_does_not_say_whether_there_is_an_account(
        self, visitor: Person, invite: Invite, account: Callable[[str], User]
    ) -> None:
        token, _ = invite("grace@example.test")
        without = visitor.open("/invitation", token=token).text
        account("Grace")
        assert visitor.open("/invitation", token=token).text == without

    def test_refused_password_keeps_name_and_link(self, visitor: Person, mailed_token: str) -> None:
        page = visitor.open("/invitation", token=mailed_token)
        page = visitor.press(page, "Join Acme", name="Grace", password="short")
        assert (page.status, page.links["Password must have at least 10 characters"]) == (422, "#password")
        assert page.form("Join Acme").fields["name"] == "Grace"
        assert "You joined" in visitor.press(page, "Join Acme", password=PASSWORD).text

    def test_link_shows_the_other_account_to_a_person_who_is_signed_in(self, ada: Person, mailed_token: str) -> None:
        assert "This invitation is for another account" in ada.open("/invitation", token=mailed_token).text


class TestAcceptance:
    def test_invitation_leads_from_mail_over_sign_in_to_the_organization(
        self, visitor: Person, invite: Invite, session: Session, acme: Organization, account: Callable[[str], User]
    ) -> None:
        account("Grace")
        token, invitation = invite("grace@example.test", "viewer")
        page = visitor.open("/invitation", token=token)
        way = page.links["Sign in"]
        assert token not in "".join(page.links.values())
        back = visitor.press(
            visitor.open("/sign-in", next=f"/invitation?id={invitation.id}"),
            "Sign in",
            email="grace@example.test",
            password=PASSWORD,
        )
        assert invitation.id in way or "/sign-in" in way
        home = visitor.press(back, "Accept invitation")
        assert "You joined the organisation." in home.text
        assert roles(session, acme) == [("Grace", "viewer")]
        assert "invitation.accepted" in factories.audit_actions(session, acme)

    def test_invitation_is_refused_to_another_account(
        self, ada: Person, invite: Invite, session: Session, acme: Organization
    ) -> None:
        token, invitation = invite("grace@example.test")
        page = ada.open("/invitation", token=token)
        assert "This invitation is for another account" in page.text
        form = page.form("Sign out")
        form.action = "/invitation"
        answer = ada.send(form, id=invitation.id)
        assert answer.status_code == 404
        assert GONE in Page(answer).text
        assert roles(session, acme) == []

    def test_role_in_the_invitation_form_is_ignored(
        self, ada: Person, invite: Invite, session: Session, acme: Organization
    ) -> None:
        token, _ = invite("ada@example.test", "viewer")
        ada.send(ada.open("/invitation", token=token).form("Accept invitation"), role="owner", organization_id="org_x")
        assert roles(session, acme) == [("Ada", "viewer")]

    def test_invitation_of_a_member_is_a_conflict(
        self, ada: Person, invite: Invite, session: Session, acme: Organization
    ) -> None:
        token, _ = invite("ada@example.test")
        user = session.scalars(select(User).where(User.email == "ada@example.test")).one()
        factories.membership(session, acme, user, "owner")
        page = ada.press(ada.open("/invitation", token=token), "Accept invitation")
        assert (page.status, page.title) == (409, "Not possible now")
        assert "You are already a member of Acme." in page.text
        assert roles(session, acme) == [("Ada", "owner")]

    def test_home_page_lists_pending_invitations(self, ada: Person, invite: Invite) -> None:
        _, invitation = invite("ada@example.test")
        page = ada.open("/")
        assert f"/invitation?id={invitation.id}" in page.answer.text
