"""Delivery: messages are posted in order and updated, and what Slack refuses ends what it has to."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from integrations.slack import Slack, SlackSettings
from integrations.slack import client as client_module
from integrations.slack.client import SCOPES
from jobs.registry import JOBS
from models.attention import AttentionItem
from models.freezes import Freeze
from models.organizations import Organization
from models.slack import SlackConnection, SlackMessage, SlackSubscription
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.slack import delivery
from services.slack.delivery import send_due
from tests import factories
from tests.harness.clock import MovableClock
from tests.services.slack.conftest import Messages, Take
from tools.fake_slack import FakeSlack, Handle
from tools.fake_slack.model import Message, Token
from tools.fake_slack.settings import Settings

HOSTILE = "<!channel> <https://evil.example|click> & more"
POST, UPDATE = "POST /api/chat.postMessage", "POST /api/chat.update"


@pytest.fixture
def fake(fake_slack_server: Handle) -> FakeSlack:
    fake_slack_server.slack.reset()
    fake_slack_server.slack.settings = Settings(seconds_per_message=0.0)
    fake_slack_server.slack.tokens.append(Token("xoxb-of-tests", "T0ACME", list(SCOPES)))
    return fake_slack_server.slack


@dataclass(frozen=True, slots=True)
class SlackHarness:
    """A channel of acme in the simulated Slack, and the jobs that send its messages; their clock stands still."""

    session: Session
    acme: Organization
    channel: SlackSubscription
    fake: FakeSlack
    jobs: UnitOfWorkFactory
    clock: MovableClock
    take: Take
    messages: Messages

    def start(self, reason: str = "Quarter-end close") -> Freeze:
        """Start a freeze that the channel is notified of."""
        freeze = factories.freeze(self.session, self.acme, reason=reason)
        self.take(("freeze.started", "freeze", freeze.id, reason))
        return freeze

    def wait(self, time: timedelta) -> None:
        """Move the clock on."""
        assert self.clock.at is not None
        self.clock.at += time

    def send(self) -> bool:
        """Send one message that is due; return False if none is."""
        return send_due(self.jobs)

    def send_all(self) -> int:
        """Send what is due, second by second, until nothing is; return the number of messages."""
        sent = 0
        while self.send():
            sent += 1
            self.wait(timedelta(seconds=1))
        return sent

    def posted(self) -> list[Message]:
        """Return what is in #releases."""
        return [message for message in self.fake.messages if message.channel == "C0RELEASES"]


@pytest.fixture
def slack(
    session: Session,
    acme: Organization,
    channel: SlackSubscription,
    fake_slack_server: Handle,
    fake: FakeSlack,
    jobs: UnitOfWorkFactory,
    clock: MovableClock,
    take: Take,
    messages: Messages,
) -> SlackHarness:
    clock.at = factories.now()
    settings = SlackSettings(
        fake.settings.client_id, fake.settings.client_secret, ("secret",), url=fake_slack_server.base_url
    )
    jobs.ports = jobs.ports.having(Slack(settings))
    return SlackHarness(session, acme, channel, fake, jobs, clock, take, messages)


class TestMessages:
    def test_message_is_posted_then_updated_and_its_end_is_in_the_thread(self, slack: SlackHarness) -> None:
        freeze = slack.start(HOSTILE)
        assert slack.send_all() == 1
        [message] = slack.posted()
        assert [block["type"] for block in message.blocks][-1] == "actions"
        assert "<!channel>" not in str(message.blocks)
        freeze.ended_at, freeze.end_reason = factories.now(), "expired"
        slack.take(("freeze.expired", "freeze", freeze.id, HOSTILE))
        assert slack.send_all() == 2
        message, end = slack.posted()
        assert message.edited
        assert "actions" not in [block["type"] for block in message.blocks]
        assert end.thread_ts == message.ts

    def test_channel_gets_one_message_a_second_in_order(self, slack: SlackHarness) -> None:
        for reason in ("The first one", "The second one"):
            slack.start(reason)
        assert [slack.send(), slack.send()] == [True, False]
        slack.wait(timedelta(seconds=1))
        assert slack.send()
        assert ["first" in message.text for message in slack.posted()] == [True, False]

    def test_change_while_a_message_is_sent_is_sent_afterwards(
        self, slack: SlackHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        freeze = slack.start()
        deliver = delivery._send

        def interrupted(*given: object) -> str:
            ts = deliver(*given)  # type: ignore[arg-type]
            monkeypatch.setattr(delivery, "_send", deliver)
            freeze.enforced_at = factories.now()
            slack.take(("freeze.enforced", "freeze", freeze.id, freeze.reason))
            return ts

        monkeypatch.setattr(delivery, "_send", interrupted)
        assert slack.send_all() == 2
        [message] = slack.posted()
        assert "fully enforced" in str(message.blocks)

    def test_nothing_is_sent_where_slack_is_not_configured(self, slack: SlackHarness) -> None:
        slack.start()
        slack.jobs.ports = slack.jobs.ports.without(Slack)
        assert not slack.send()
        with slack.jobs.open(SYSTEM_CALLER) as uow:
            assert not JOBS["slack"].has_work(uow)


class TestRefusals:
    @pytest.mark.parametrize("error", ["invalid_auth", "token_revoked", "account_inactive"])
    def test_token_that_is_refused_ends_the_connection(self, slack: SlackHarness, error: str) -> None:
        slack.start()
        slack.fake.faults.add(kind="refusal", scope=POST, message=error)
        assert slack.send()
        [message] = slack.messages()
        assert (message.ts, message.due_at, message.last_error_code) == (None, None, error)
        connection = slack.session.query(SlackConnection).one()
        assert (connection.lost_why, connection.encrypted_tokens) == (error, None)
        assert slack.session.query(AttentionItem).one().type == "slack_connection_lost"

    @pytest.mark.parametrize("error", ["channel_not_found", "not_in_channel", "is_archived", "restricted_action"])
    def test_channel_that_is_refused_pauses_the_subscription(self, slack: SlackHarness, error: str) -> None:
        for _ in range(2):
            slack.start()
        slack.fake.faults.add(kind="refusal", scope=POST, message=error)
        assert [slack.send(), slack.send(), slack.send()] == [True, True, False]
        assert [message.due_at for message in slack.messages()] == [None, None]
        slack.session.refresh(slack.channel)
        assert slack.channel.paused_why == error
        assert slack.fake.calls.by_method["chat.postMessage"] == 1

    def test_missing_scope_raises_an_alert_and_the_message_waits(self, slack: SlackHarness) -> None:
        slack.start()
        slack.fake.tokens[0].scopes = ["commands"]
        slack.send()
        assert slack.messages()[0].last_error_code == "missing_scope"
        assert slack.messages()[0].due_at is not None
        assert slack.session.query(AttentionItem).one().type == "slack_scopes_missing"

    @pytest.mark.parametrize("error", ["invalid_blocks", "msg_blocks_too_long"])
    def test_blocks_that_are_refused_are_replaced_by_their_text(self, slack: SlackHarness, error: str) -> None:
        slack.start()
        slack.fake.faults.add(kind="refusal", scope=POST, message=error, count=1)
        slack.send()
        assert [(message.text, message.blocks) for message in slack.posted()] == [
            ("Merging is frozen: Quarter-end close", [])
        ]
        assert slack.messages()[0].ts is not None

    def test_limit_of_the_workspace_delays_all_its_channels(self, slack: SlackHarness) -> None:
        slack.start()
        other = factories.slack_subscription(slack.session, slack.acme, channel_id="C0GENERAL", channel_name="general")
        factories.slack_message(slack.session, other, ts=None, sent_at=None, due_at=factories.now())
        slack.session.commit()
        slack.fake.faults.add(kind="error", scope=POST, status=429, headers={"Retry-After": "30"}, count=1)
        slack.send()
        assert not slack.send()
        slack.wait(timedelta(seconds=31))
        assert slack.send_all() == 2

    @pytest.mark.parametrize("status", [500, 503])
    def test_failing_slack_is_tried_again_later(self, slack: SlackHarness, status: int) -> None:
        slack.start()
        slack.fake.faults.add(kind="error", scope=POST, status=status, count=3)
        for _ in range(4):
            assert slack.send()
            assert not slack.send()
            slack.wait(timedelta(minutes=5))
        assert len(slack.posted()) == 1

    def test_message_without_an_answer_is_sent_once_more_and_then_given_up(
        self, slack: SlackHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client_module, "CALL_TIMEOUT", 0.2)
        slack.start()
        slack.fake.faults.add(kind="disconnect", scope=POST, after=True)
        for _ in range(3):
            slack.send()
            slack.wait(timedelta(minutes=5))
        assert len(slack.posted()) == 2
        assert (slack.messages()[0].due_at, slack.messages()[0].last_error_code) == (None, "no_answer")

    def test_beginning_is_given_up_after_an_hour(self, slack: SlackHarness) -> None:
        slack.start()
        slack.wait(timedelta(hours=1))
        assert slack.send_all() == 1
        assert slack.posted() == []
        assert (slack.messages()[0].due_at, slack.messages()[0].last_error_code) == (None, "expired")

    def test_update_of_a_deleted_message_is_given_up(self, slack: SlackHarness) -> None:
        freeze = slack.start()
        slack.send_all()
        slack.fake.messages.clear()
        slack.take(("freeze.enforced", "freeze", freeze.id, freeze.reason))
        assert slack.send_all() == 1
        assert (slack.messages()[0].due_at, slack.messages()[0].last_error_code) == (None, "message_not_found")

    def test_token_and_words_of_people_are_in_no_log(
        self, slack: SlackHarness, caplog: pytest.LogCaptureFixture
    ) -> None:
        slack.start("A secret acquisition")
        slack.fake.faults.add(kind="refusal", scope=POST, message="invalid_blocks")
        slack.send()
        assert caplog.text
        assert "xoxb-" not in caplog.text
        assert "acquisition" not in caplog.text


def test_message_of_a_channel_that_was_unsubscribed_is_gone(slack: SlackHarness) -> None:
    slack.start()
    slack.session.delete(slack.channel)
    slack.session.commit()
    assert slack.session.query(SlackMessage).all() == []
    assert not slack.send()
