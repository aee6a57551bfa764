"""`/slack` and `/slack/link`: nothing happens by following an address, and everything for who is signed in."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from models.identity import OneTimeToken
from models.organizations import LoginSession, Organization, User
from models.slack import SlackConnection, SlackLink, SlackSubscription
from services.core.tokens import token_hash
from tests import factories
from tests.web.people.conftest import PASSWORD, Visit, user_of
from tests.web.people.forms import Page, Person
from tools.fake_slack import FakeSlack, Handle

TOKEN = "a-token-that-is-only-in-a-link-of-the-tests"


@pytest.fixture
def acme(acme: Organization, session: Session) -> Organization:
    """Have Ada act in Acme."""
    session.execute(update(LoginSession).values(organization_id=acme.id))
    return acme


@pytest.fixture
def slack(slack_of_pages: Handle) -> FakeSlack:
    slack_of_pages.slack.reset()
    return slack_of_pages.slack


def back_from_slack(slack: FakeSlack, person: Person, button: str = "Install the app") -> dict[str, str]:
    """Install the app, and return what Slack sends back."""
    page = person.press(person.open("/slack"), button)
    return slack.install(page.links["Continue at Slack"])


def connected(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(SlackConnection)) or 0


def link_address(session: Session, organization: Organization) -> str:
    """Return the address that a Slack user of the organisation's workspace got."""
    connection = factories.slack_connection(session, organization)
    details = {
        "team_id": connection.team_id,
        "team_name": "Acme <b>",
        "slack_user_id": "U0EVE",
        "slack_user_name": "eve",
    }
    session.add(
        OneTimeToken(
            token_hash=token_hash(TOKEN),
            purpose="slack_link",
            subject="U0EVE",
            organization_id=organization.id,
            details=details,
            created_at=factories.now(),
            expires_at=factories.now() + timedelta(minutes=10),
        )
    )
    session.flush()
    return f"/slack/link?token={TOKEN}"


class TestWorkspacePage:
    def test_administrator_connects_and_disconnects_a_workspace(
        self, ada: Person, acme: Organization, slack: FakeSlack, session: Session
    ) -> None:
        assert "is not connected to a workspace" in ada.open("/slack").text
        back = back_from_slack(slack, ada)
        page = ada.open("/slack", **back)
        assert page.title == "Connect Slack to Acme?"
        assert page.answer.headers["Referrer-Policy"] == "no-referrer"
        assert connected(session) == 0
        done = ada.press(page, "Connect")
        assert "Slack is connected." in done.text
        assert connected(session) == 1
        assert "Slack is disconnected." in ada.press(done, "Disconnect").text

    def test_member_chooses_the_channels_that_get_messages(
        self, ada: Person, acme: Organization, slack: FakeSlack, session: Session
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        address = "https://acme.slack.com/archives/C0RELEASES"
        page = ada.open("/slack")
        page = ada.press(page, "Add the channel", channel=address, channel_name="#releases", event="freeze.started")
        assert "The channel gets messages from now on." in page.text
        [row] = session.scalars(select(SlackSubscription))
        assert (row.channel_id, row.events) == ("C0RELEASES", ["freeze.started"])
        assert "#releases Freezes that start" in " ".join(page.text.split())
        page = ada.press(page, "Remove #releases")
        assert "The channel gets no more messages." in page.text
        assert "#releases" not in ada.open("/slack").text

    def test_channel_that_is_no_address_of_one_is_a_problem_of_its_field(
        self, ada: Person, acme: Organization, slack: FakeSlack
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        page = ada.press(ada.open("/slack"), "Add the channel", channel="#releases")
        assert page.status == 422
        assert "#channel" in page.links.values()
        assert page.form("Add the channel").fields["channel"] == "#releases"

    def test_address_of_an_installation_is_accepted_once(
        self, ada: Person, acme: Organization, slack: FakeSlack
    ) -> None:
        back = back_from_slack(slack, ada)
        ada.press(ada.open("/slack", **back), "Connect")
        again = ada.open("/slack", **back)
        assert (again.status, again.title) == (404, "This link is no longer valid")

    def test_installation_of_another_person_is_refused(
        self,
        ada: Person,
        acme: Organization,
        slack: FakeSlack,
        account: Callable[[str], User],
        visit: Visit,
        session: Session,
    ) -> None:
        factories.membership(session, acme, account("Eve"), "owner")
        eve = visit()
        eve.sign_in("eve@example.test", PASSWORD)
        page = eve.open("/slack", **back_from_slack(slack, ada))
        assert (page.status, page.title) == (404, "This link is no longer valid")

    def test_installation_that_was_cancelled_changes_nothing(self, ada: Person, acme: Organization) -> None:
        assert ada.open("/slack", error="access_denied", state="x").title == "Slack is not connected"

    def test_slack_that_fails_is_shown(self, ada: Person, acme: Organization, slack: FakeSlack) -> None:
        page = ada.open("/slack", **back_from_slack(slack, ada))
        slack.faults.add("error", "/api/oauth.v2.access", status=503)
        assert ada.press(page, "Connect").status == 502

    def test_visitor_without_an_organization_is_told_so(self, ada: Person) -> None:
        assert ada.open("/slack").title == "No organisation"

    def test_stranger_signs_in_and_comes_back(self, visitor: Person) -> None:
        answer = visitor.client.get("/slack", params={"state": "s", "code": "c"})
        assert answer.headers["location"] == "/sign-in?next=%2Fslack%3Fstate%3Ds%26code%3Dc"


class TestLinkPage:
    def test_person_lets_a_slack_user_act_as_them(self, ada: Person, acme: Organization, session: Session) -> None:
        address = link_address(session, acme)
        page = ada.open(address)
        assert page.title == "Let @eve act as you?"
        assert "Acme &lt;b&gt;" in page.answer.text
        assert page.answer.headers["Referrer-Policy"] == "no-referrer"
        assert session.scalars(select(SlackLink)).all() == []
        assert ada.press(page, "Link").title == "Your Slack user is linked"
        assert session.scalars(select(SlackLink.user_id)).one() == user_of(session).id
        assert "Your Slack user U0EVE acts as you" in ada.open("/slack").text
        assert ada.open(address).status == 404
        assert "You are unlinked." in ada.press(ada.open("/slack"), "Unlink").text

    def test_link_of_an_organization_of_others_is_refused(
        self, ada: Person, acme: Organization, session: Session
    ) -> None:
        page = ada.open(link_address(session, factories.organization(session, "Globex")))
        assert (page.status, page.title) == (404, "This link is no longer valid")

    def test_link_enters_the_organization_of_the_workspace(
        self, ada: Person, acme: Organization, session: Session
    ) -> None:
        globex = factories.organization(session, "Globex")
        factories.membership(session, globex, user_of(session), "member")
        page = ada.open(link_address(session, globex))
        assert "<strong>Globex</strong>" in page.answer.text
        assert ada.press(page, "Link").status == 200
        assert session.scalars(select(SlackLink.organization_id)).one() == globex.id

    def test_link_without_a_token_is_no_longer_valid(self, ada: Person, acme: Organization) -> None:
        assert ada.open("/slack/link").status == 404

    def test_form_of_another_site_links_nothing(self, ada: Person, acme: Organization, session: Session) -> None:
        form = ada.open(link_address(session, acme)).form("Link")
        answer = ada.client.post(form.action, data=form.fields, headers={"Origin": "https://evil.test"})
        assert Page(answer).status == 403
        assert session.scalars(select(SlackLink)).all() == []
