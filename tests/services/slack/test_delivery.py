"""Delivery: messages are posted in order and updated, and what Slack refuses ends what it has to."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from integrations.slack import Slack, SlackSettings
from integrations.slack import client as client_module
from integrations.slack.client import SCOPES
from models.attention import AttentionItem
from models.freezes import Freeze
from models.organizations import Organization
from models.slack import SlackConnection, SlackMessage, SlackSubscription
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.slack import delivery
from services.slack.delivery import has_messages, send_due
from tests import factories
from tests.harness.clock import MovableClock
from tests.services.slack.conftest import Messages, Take
from tools.fake_slack import FakeSlack, Handle, serve
from tools.fake_slack.model import Message, Token
from tools.fake_slack.settings import Settings

HOSTILE = "<!channel> <https://evil.example|click> & more"
POST, UPDATE = "POST /api/chat.postMessage", "POST /api/chat.update"


@pytest.fixture(scope="module")
def handle() -> Iterator[Handle]:
    handle = serve(FakeSlack())
    yield handle
    handle.stop()


@pytest.fixture
def fake(handle: Handle) -> FakeSlack:
    handle.slack.reset()
    handle.slack.settings = Settings(seconds_per_message=0.0)
    handle.slack.tokens.append(Token("xoxb-of-tests", "T0ACME", list(SCOPES)))
    return handle.slack


@pytest.fixture
def sending(jobs: UnitOfWorkFactory, handle: Handle, fake: FakeSlack, clock: MovableClock) -> UnitOfWorkFactory:
    """Units of work of a process that is configured with Slack; its clock stands still."""
    clock.at = factories.now()
    settings = fake.settings
    slack = Slack(SlackSettings(settings.client_id, settings.client_secret, ("secret",), url=handle.base_url))
    jobs.dependencies = replace(jobs.dependencies, slack=slack)
    return jobs


def wait(clock: MovableClock, time: timedelta) -> None:
    """Move the clock on."""
    assert clock.at is not None
    clock.at += time


def posted(fake: FakeSlack) -> list[Message]:
    """Return what is in #releases."""
    return [message for message in fake.messages if message.channel == "C0RELEASES"]


def send_all(uow_factory: UnitOfWorkFactory, clock: MovableClock) -> int:
    """Send what is due, second by second, until nothing is; return the number of messages."""
    sent = 0
    while send_due(uow_factory):
        sent += 1
        wait(clock, timedelta(seconds=1))
    return sent


def start(session: Session, acme: Organization, take: Take, reason: str = "Quarter-end close") -> Freeze:
    """Start a freeze that the channel is notified of."""
    freeze = factories.freeze(session, acme, reason=reason)
    take(("freeze.started", "freeze", freeze.id, reason))
    return freeze


class TestMessages:
    def test_message_is_posted_then_updated_and_its_end_is_in_the_thread(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
    ) -> None:
        freeze = start(session, acme, take, HOSTILE)
        assert send_all(sending, clock) == 1
        [message] = posted(fake)
        assert [block["type"] for block in message.blocks][-1] == "actions"
        assert "<!channel>" not in str(message.blocks)
        freeze.ended_at, freeze.end_reason = factories.now(), "expired"
        take(("freeze.expired", "freeze", freeze.id, HOSTILE))
        assert send_all(sending, clock) == 2
        message, end = posted(fake)
        assert message.edited
        assert "actions" not in [block["type"] for block in message.blocks]
        assert end.thread_ts == message.ts

    def test_channel_gets_one_message_a_second_in_order(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
    ) -> None:
        for reason in ("The first one", "The second one"):
            start(session, acme, take, reason)
        assert [send_due(sending), send_due(sending)] == [True, False]
        wait(clock, timedelta(seconds=1))
        assert send_due(sending)
        assert ["first" in message.text for message in posted(fake)] == [True, False]

    def test_change_while_a_message_is_sent_is_sent_afterwards(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        freeze = start(session, acme, take)
        deliver = delivery._send

        def interrupted(*given: object) -> str:
            ts = deliver(*given)  # type: ignore[arg-type]
            monkeypatch.setattr(delivery, "_send", deliver)
            freeze.enforced_at = factories.now()
            take(("freeze.enforced", "freeze", freeze.id, freeze.reason))
            return ts

        monkeypatch.setattr(delivery, "_send", interrupted)
        assert send_all(sending, clock) == 2
        [message] = posted(fake)
        assert "fully enforced" in str(message.blocks)

    @pytest.mark.usefixtures("fake")
    def test_nothing_is_sent_where_slack_is_not_configured(
        self, session: Session, acme: Organization, take: Take, jobs: UnitOfWorkFactory
    ) -> None:
        start(session, acme, take)
        assert not send_due(jobs)
        with jobs.open(SYSTEM_CALLER) as uow:
            assert not has_messages(uow)


class TestRefusals:
    @pytest.mark.parametrize("error", ["invalid_auth", "token_revoked", "account_inactive"])
    def test_token_that_is_refused_ends_the_connection(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        messages: Messages,
        error: str,
    ) -> None:
        start(session, acme, take)
        fake.faults.add(kind="refusal", scope=POST, message=error)
        assert send_due(sending)
        [message] = messages()
        assert (message.ts, message.due_at, message.last_error_code) == (None, None, error)
        connection = session.query(SlackConnection).one()
        assert (connection.lost_why, connection.encrypted_tokens) == (error, None)
        assert session.query(AttentionItem).one().type == "slack_connection_lost"

    @pytest.mark.parametrize("error", ["channel_not_found", "not_in_channel", "is_archived", "restricted_action"])
    def test_channel_that_is_refused_pauses_the_subscription(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        messages: Messages,
        channel: SlackSubscription,
        error: str,
    ) -> None:
        for _ in range(2):
            start(session, acme, take)
        fake.faults.add(kind="refusal", scope=POST, message=error)
        assert [send_due(sending), send_due(sending), send_due(sending)] == [True, True, False]
        assert [message.due_at for message in messages()] == [None, None]
        session.refresh(channel)
        assert channel.paused_why == error
        assert fake.calls.by_method["chat.postMessage"] == 1

    def test_missing_scope_raises_an_alert_and_the_message_waits(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        messages: Messages,
    ) -> None:
        start(session, acme, take)
        fake.tokens[0].scopes = ["commands"]
        send_due(sending)
        assert messages()[0].last_error_code == "missing_scope"
        assert messages()[0].due_at is not None
        assert session.query(AttentionItem).one().type == "slack_scopes_missing"

    @pytest.mark.parametrize("error", ["invalid_blocks", "msg_blocks_too_long"])
    def test_blocks_that_are_refused_are_replaced_by_their_text(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        messages: Messages,
        error: str,
    ) -> None:
        start(session, acme, take)
        fake.faults.add(kind="refusal", scope=POST, message=error, count=1)
        send_due(sending)
        assert [(message.text, message.blocks) for message in posted(fake)] == [
            ("Merging is frozen: Quarter-end close", [])
        ]
        assert messages()[0].ts is not None

    def test_limit_of_the_workspace_delays_all_its_channels(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
        channel: SlackSubscription,
    ) -> None:
        start(session, acme, take)
        other = factories.slack_subscription(session, acme, channel_id="C0GENERAL", channel_name="general")
        due = factories.now() - timedelta(seconds=1)
        waiting = factories.slack_message(session, other, ts=None, sent_at=None, due_at=due + timedelta(minutes=1))
        waiting.due_at = due + timedelta(seconds=1)
        session.commit()
        fake.faults.add(kind="error", scope=POST, status=429, headers={"Retry-After": "30"}, count=1)
        send_due(sending)
        assert not send_due(sending)
        wait(clock, timedelta(seconds=31))
        assert send_all(sending, clock) == 2

    @pytest.mark.parametrize("status", [500, 503])
    def test_failing_slack_is_tried_again_later(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
        status: int,
    ) -> None:
        start(session, acme, take)
        fake.faults.add(kind="error", scope=POST, status=status, count=3)
        for _ in range(4):
            assert send_due(sending)
            assert not send_due(sending)
            wait(clock, timedelta(minutes=5))
        assert len(posted(fake)) == 1

    def test_message_without_an_answer_is_sent_once_more_and_then_given_up(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
        messages: Messages,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(client_module, "CALL_TIMEOUT", 0.2)
        start(session, acme, take)
        fake.faults.add(kind="disconnect", scope=POST, after=True)
        for _ in range(3):
            send_due(sending)
            wait(clock, timedelta(minutes=5))
        assert len(posted(fake)) == 2
        assert (messages()[0].due_at, messages()[0].last_error_code) == (None, "no_answer")

    def test_beginning_is_given_up_after_an_hour(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
        messages: Messages,
    ) -> None:
        start(session, acme, take)
        wait(clock, timedelta(hours=1))
        assert send_all(sending, clock) == 1
        assert posted(fake) == []
        assert (messages()[0].due_at, messages()[0].last_error_code) == (None, "expired")

    def test_update_of_a_deleted_message_is_given_up(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        clock: MovableClock,
        messages: Messages,
    ) -> None:
        freeze = start(session, acme, take)
        send_all(sending, clock)
        fake.messages.clear()
        take(("freeze.enforced", "freeze", freeze.id, freeze.reason))
        assert send_all(sending, clock) == 1
        assert (messages()[0].due_at, messages()[0].last_error_code) == (None, "message_not_found")

    def test_token_and_words_of_people_are_in_no_log(
        self,
        session: Session,
        acme: Organization,
        take: Take,
        sending: UnitOfWorkFactory,
        fake: FakeSlack,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        start(session, acme, take, "A secret acquisition")
        fake.faults.add(kind="refusal", scope=POST, message="invalid_blocks")
        send_due(sending)
        assert caplog.text
        assert "xoxb-" not in caplog.text
        assert "acquisition" not in caplog.text


def test_message_of_a_channel_that_was_unsubscribed_is_gone(
    session: Session, acme: Organization, take: Take, channel: SlackSubscription, sending: UnitOfWorkFactory
) -> None:
    start(session, acme, take)
    session.delete(channel)
    session.commit()
    assert session.query(SlackMessage).all() == []
    assert not send_due(sending)
