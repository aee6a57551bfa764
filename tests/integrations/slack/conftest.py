"""The client of Slack, at a simulated Slack in which the app is installed."""

import pytest

from integrations.slack import Slack, SlackSettings
from tools.fake_slack import FakeSlack, Handle
from tools.fake_slack.settings import Settings

REDIRECT = "https://freezes.test/slack"


@pytest.fixture
def fake(fake_slack_server: Handle) -> FakeSlack:
    slack = fake_slack_server.slack
    slack.reset()
    slack.settings = Settings(seconds_per_message=0.0)
    return slack


@pytest.fixture
def slack(fake_slack_server: Handle, fake: FakeSlack) -> Slack:
    settings = fake.settings
    return Slack(
        SlackSettings(
            settings.client_id, settings.client_secret, (settings.signing_secret,), url=fake_slack_server.base_url
        )
    )


@pytest.fixture
def token(slack: Slack, fake: FakeSlack) -> str:
    back = fake.install(slack.authorize_url("s", REDIRECT))
    return slack.exchange_code(back["code"], REDIRECT).tokens.access_token
