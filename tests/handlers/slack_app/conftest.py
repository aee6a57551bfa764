"""The workspace of acme at the simulated Slack: Ada, Grace and Eve, who are linked to members as tests need it."""

from collections.abc import Callable
from typing import Any

import pytest

from integrations.slack.client import SCOPES
from models.organizations import User
from models.slack import SlackConnection
from tests import factories
from tests.handlers.callers import Tenant
from tools.fake_slack import FakeSlack
from tools.fake_slack.model import Message, Token

ADA, GRACE, EVE = "U0ADA", "U0GRACE", "U0EVE"
TOKEN = "xoxb-of-tests"
Link = Callable[..., User]


@pytest.fixture
def workspace(acme: Tenant, slack: FakeSlack) -> SlackConnection:
    """Connect acme's workspace."""
    slack.tokens.append(Token(TOKEN, "T0ACME", list(SCOPES)))
    return factories.slack_connection(acme.session, acme.organization, team_id="T0ACME", token=TOKEN)


@pytest.fixture
def link(acme: Tenant, workspace: SlackConnection) -> Link:
    """Link a Slack user to a new member: `link("member")` is Ada."""

    def link_user(role: str, slack_user_id: str = ADA) -> User:
        user = factories.member(acme.session, acme.organization, role, slack_user_id[2:].capitalize())
        factories.slack_link(acme.session, workspace, user, slack_user_id=slack_user_id)
        return user

    return link_user


@pytest.fixture
def post(slack: FakeSlack) -> Callable[[Any], Message]:
    """Put a message with blocks into #releases, as the service would."""

    def put(blocks: Any) -> Message:
        message = Message(slack.next_ts(), "T0ACME", "C0RELEASES", "A message", list(blocks))
        slack.messages.append(message)
        return message

    return put
