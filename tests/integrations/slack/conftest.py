"""The client of Slack, at a simulated Slack in which the app is installed."""

from collections.abc import Iterator

import pytest

from integrations.slack import Slack, SlackSettings
from tools.fake_slack import FakeSlack, Handle, serve

REDIRECT = "https://freezes.test/slack"


@pytest.fixture(scope="module")
def handle() -> Iterator[Handle]:
    handle = serve(FakeSlack())
    yield handle
    handle.stop()


@pytest.fixture
def fake(handle: Handle) -> FakeSlack:
    handle.slack.reset()
    handle.slack.settings = type(handle.slack.settings)(seconds_per_message=0.0)
    return handle.slack


@pytest.fixture
def slack(handle: Handle, fake: FakeSlack) -> Slack:
    settings = fake.settings
    return Slack(
        SlackSettings(settings.client_id, settings.client_secret, (settings.signing_secret,), url=handle.base_url)
    )


@pytest.fixture
def token(slack: Slack, fake: FakeSlack) -> str:
    back = fake.install(slack.authorize_url("s", REDIRECT))
    return slack.exchange_code(back["code"], REDIRECT).tokens.access_token
