"""`/slack` and `/slack/link`: nothing happens by following an address, and everything for who is signed in."""

import html
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
from tests.web.people.forms import Person
from tools.fake_slack import FakeSlack, Handle
from tools.fake_slack.model import Channel

TOKEN = "a-token-that-is-only-in-a-link-of-the-tests"


@pytest.fixture
def acme(acme: Organization, session: Session) -> Organization:
    """Have Ada act in Acme."""
    session.execute(update(LoginSession).values(organization_id=acme.id))
    return acme


@pytest.fixture
def slack(slack_of_pages: Handle) -> FakeSlack:
    slack_of_pages.slack.reset()
    slack_of_pages.slack.settings.granted_scopes = None
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
        assert "All channels and links below are removed, and the app's token is revoked." in html.unescape(
            " ".join(done.questions())
        )
        assert "Slack is disconnected." in ada.press(done, "Disconnect Acme").text

    def test_member_chooses_the_channels_that_get_messages(
        self, ada: Person, acme: Organization, slack: FakeSlack, session: Session
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        address = "https://acme.slack.com/archives/C0RELEASES"
        page = ada.open("/slack")
        page = ada.press(page, "Add by address", channel=address, channel_name="#releases", event="freeze.started")
        assert "The channel gets messages from now on." in page.text
        [row] = session.scalars(select(SlackSubscription))
        assert (row.channel_id, row.events) == ("C0RELEASES", ["freeze.started"])
        assert "#releases Freezes that start" in " ".join(page.text.split())
        page = ada.press(page, "Remove #releases")
        assert "The channel gets no more messages." in page.text
        assert "#releases" not in ada.open("/slack").text

    def test_channel_is_found_by_a_part_of_its_name_and_chosen(
        self, ada: Person, acme: Organization, slack: FakeSlack, session: Session
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        page = ada.open("/slack", find="#Rele")
        assert "#releases" in page.text
        assert not {"#general", "#secret", "#old"} & set(page.text.split())
        page = ada.press(page, "Add the channel", event="freeze.ended")
        assert "The channel gets messages from now on." in page.text
        [row] = session.scalars(select(SlackSubscription))
        assert (row.channel_id, row.channel_name, row.events) == ("C0RELEASES", "releases", ["freeze.ended"])
        assert "gets messages: they are chosen anew" in ada.open("/slack", find="releases").text

    def test_private_channel_is_listed_once_the_app_is_in_it(
        self, ada: Person, acme: Organization, slack: FakeSlack
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        page = ada.open("/slack", find="secret")
        assert "No channel has “secret” in its name" in page.text
        assert "/invite" in page.text
        slack.workspaces["T0ACME"].channels["C0SECRET"].joined = True
        assert "#secret (private)" in ada.open("/slack", find="secret").text

    def test_more_channels_than_a_page_are_looked_at_one_page_after_the_other(
        self, ada: Person, acme: Organization, slack: FakeSlack
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        many = {f"C0TEAM{number}": Channel(f"C0TEAM{number}", f"team-{number}") for number in range(60)}
        slack.workspaces["T0ACME"].channels.update(many)
        first = ada.open("/slack", find="team")
        assert ("#team-49" in first.text, "#team-50" in first.text) == (True, False)
        second = ada.open(first.links["Look at more channels"])
        assert ("#team-49" in second.text, "#team-50" in second.text, "#team-59" in second.text) == (False, True, True)
        assert "Look at more channels" not in second.links

    def test_app_without_the_permission_is_installed_again_or_takes_addresses(
        self, ada: Person, acme: Organization, slack: FakeSlack, session: Session
    ) -> None:
        slack.settings.granted_scopes = ["chat:write", "chat:write.public", "commands"]
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        page = ada.open("/slack")
        assert "may not list the channels of the workspace" in page.text
        assert "channels:read, groups:read" in page.text
        assert "find" not in page.labels
        page = ada.press(page, "Add the channel", channel="https://acme.slack.com/archives/C0GENERAL")
        assert "The channel gets messages from now on." in page.text
        slack.settings.granted_scopes = None
        ada.press(ada.open("/slack", **back_from_slack(slack, ada, "Install the app again")), "Connect")
        page = ada.open("/slack", find="general")
        assert "may not list" not in page.text
        assert "C0GENERAL general" in page.form("Add the channel").fields["chosen"]

    def test_slack_that_limits_or_fails_is_told_and_nothing_is_lost(
        self, ada: Person, acme: Organization, slack: FakeSlack
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        slack.faults.add("error", "/api/conversations.list", count=1, status=429, headers={"Retry-After": "17"})
        page = ada.open("/slack", find="releases")
        assert page.status == 502
        assert "Slack lists channels only a few times a minute. Try again in 17 seconds." in page.text
        assert page.form("Find channels").fields["find"] == "releases"
        assert page.form("Add by address")
        slack.faults.add("error", "/api/conversations.list", count=1, status=503)
        assert "Slack did not list the channels (http_503). Try again." in ada.open("/slack", find="x").text
        slack.faults.add("revoked", "/api/conversations.list")
        assert "no longer accepts the app's token in Acme" in html.unescape(ada.open("/slack", find="x").text)

    def test_list_without_a_choice_asks_for_one_and_stays(
        self, ada: Person, acme: Organization, slack: FakeSlack
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        page = ada.press(ada.open("/slack", find="e"), "Add the channel")
        assert (page.status, page.links["Choose a channel."]) == (422, "#chosen")
        assert "#general" in page.text
        assert page.form("Add the channel").fields["find"] == "e"

    def test_channel_that_is_no_address_of_one_is_a_problem_of_its_field(
        self, ada: Person, acme: Organization, slack: FakeSlack
    ) -> None:
        ada.press(ada.open("/slack", **back_from_slack(slack, ada)), "Connect")
        page = ada.press(ada.open("/slack"), "Add by address", channel="#releases")
        assert page.status == 422
        assert "#channel" in page.links.values()
        assert page.form("Add by address").fields["channel"] == "#releases"

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
