"""Delivery of webhooks over real sockets: signatures, endpoints that misbehave, retries, and processes that die."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from integrations.guarded_https import GuardedHttps
from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from rules.outgoing_webhooks.retries import DELAYS
from rules.outgoing_webhooks.signatures import new_secret
from services.core.encryption import encrypt
from services.core.unit_of_work import UnitOfWorkFactory
from services.outgoing_webhooks import delivery, outcomes
from services.outgoing_webhooks.delivery import MAX_FAILING, MAX_OF_ENDPOINT, MAX_OF_ORGANIZATION, deliver_due
from services.outgoing_webhooks.endpoints import USE
from tests import factories
from tests.factories.organizations import SECRET_KEY
from tests.harness.clock import MovableClock
from tests.harness.concurrency import Task, at_once, eventually
from tests.harness.document_server import response
from tests.harness.webhook_receiver import WebhookReceiver
from tests.services.outgoing_webhooks.conftest import AddEndpoint, hurried

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def write(session: Session, endpoint: WebhookEndpoint, number: int = 1) -> list[WebhookMessage]:
    """Add messages that are due, committed."""
    messages = [factories.webhook_message(session, endpoint) for _ in range(number)]
    session.commit()
    return messages


def saved(session: Session, message: WebhookMessage) -> WebhookMessage:
    session.rollback()
    session.refresh(message)
    return message


def states(session: Session) -> list[str]:
    session.rollback()
    session.expire_all()
    return [message.state for message in session.scalars(select(WebhookMessage).order_by(WebhookMessage.id))]


class TestDelivery:
    def test_message_is_delivered_with_a_signature_that_receivers_verify(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        secret = new_secret()
        [message] = write(session, add("/in?from=us", secret=secret))
        assert not deliver_due(jobs)
        [request] = receiver.received("/in?from=us")
        assert Webhook(secret).verify(request.body, request.headers) == json.loads(message.body)
        assert request.body == message.body.encode()
        assert request.headers["webhook-id"] == message.id
        assert request.headers["content-type"] == "application/json"
        row = saved(session, message)
        assert (row.state, row.attempt_count, row.last_status, row.last_answer) == ("delivered", 1, 200, "thanks")
        assert (row.due_at, row.lease_token) == (None, None)

    def test_both_secrets_sign_until_the_end_of_the_grace(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
    ) -> None:
        new, old = new_secret(), new_secret()
        endpoint = add(secret=new)
        endpoint.encrypted_previous_secret = encrypt(SECRET_KEY.encode(), USE, endpoint.id, old.encode())
        endpoint.previous_secret_ends_at = factories.now() + HOUR
        write(session, endpoint)
        deliver_due(jobs)
        endpoint.previous_secret_ends_at = factories.now() - MINUTE
        write(session, endpoint)
        deliver_due(jobs)
        during, after = receiver.received()
        for secret in (new, old):
            Webhook(secret).verify(during.body, during.headers)
        Webhook(new).verify(after.body, after.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(old).verify(after.body, after.headers)

    def test_disabled_endpoint_and_deleted_organization_are_sent_nothing(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session, acme: Organization
    ) -> None:
        write(session, add(enabled=False))
        acme.deleted_at = factories.now()
        write(session, add())
        assert not deliver_due(jobs)
        assert receiver.requests == []

    def test_retry_has_the_same_id_and_body_and_another_timestamp(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        clock: MovableClock,
    ) -> None:
        receiver.answers["/in"] = response(b"", "500 Internal Server Error")
        [message] = write(session, add())
        deliver_due(jobs)
        receiver.answers.clear()
        clock.offset = MINUTE
        deliver_due(jobs)
        first, second = receiver.received()
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == message.id
        assert first.body == second.body
        assert int(second.headers["webhook-timestamp"]) > int(first.headers["webhook-timestamp"])
        row = saved(session, message)
        assert (row.state, row.attempt_count, row.last_error_message) == ("delivered", 2, None)


class TestEndpointsThatMisbehave:
    @pytest.mark.parametrize(
        ("answer", "status", "code"),
        [
            (response(b"no", "500 Internal Server Error"), 500, "status"),
            (response(b"no", "404 Not Found"), 404, "status"),
            (response(b"", "301 Moved", Location="https://localhost/other"), 301, "status"),
            (response(b"", "307 Temporary Redirect", Location="http://169.254.169.254/"), 307, "status"),
            (b"SSH-2.0-OpenSSH_9.9\r\n", None, "unreachable"),
            (b"", None, "unreachable"),
            (response(X="y" * 40_000), None, "unreachable"),
        ],
        ids=["error", "not found", "redirect", "redirect inside", "not HTTP", "nothing", "endless headers"],
    )
    def test_answer_that_is_no_success_is_retried_later(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        answer: bytes,
        status: int | None,
        code: str,
    ) -> None:
        receiver.answers["/in"] = answer
        endpoint = add()
        [message] = write(session, endpoint)
        deliver_due(jobs)
        row = saved(session, message)
        assert (row.state, row.attempts, row.last_status, row.last_error_code) == ("pending", 1, status, code)
        assert row.due_at is not None
        assert row.last_attempt_at is not None
        assert DELAYS[0] * 0.9 <= row.due_at - row.last_attempt_at <= DELAYS[0] * 1.2
        assert len(receiver.requests) == receiver.connections == 1, "a redirect was followed"
        session.refresh(endpoint)
        assert endpoint.failing_since is not None

    def test_oversized_answer_is_cut_and_its_text_made_storable(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.answers["/in"] = response(b"\0\xff<b>" + b"x" * 500_000, "200 OK", Content_Type="text/html")
        [message] = write(session, add())
        deliver_due(jobs)
        row = saved(session, message)
        assert row.state == "delivered"
        assert row.last_answer is not None
        assert len(row.last_answer) == 1024
        assert row.last_answer.startswith("\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}<b>x")

    def test_endpoint_that_hangs_is_retried_after_its_time(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        client: GuardedHttps,
    ) -> None:
        receiver.hanging.add("/in")
        [message] = write(session, add())
        deliver_due(hurried(jobs, client))
        row = saved(session, message)
        assert (row.state, row.last_error_code, row.last_status) == ("pending", "timeout", None)

    def test_endpoint_that_refuses_connections_is_retried(
        self, jobs: UnitOfWorkFactory, add: AddEndpoint, session: Session
    ) -> None:
        [message] = write(session, add(url="https://127.0.0.1:1/in"))
        deliver_due(jobs)
        assert saved(session, message).last_error_code == "unreachable"

    @pytest.mark.parametrize(
        "addresses",
        [["10.0.0.1"], ["8.8.8.8", "192.168.0.1"], ["::ffff:10.0.0.1"], ["169.254.169.254"], []],
        ids=["private", "mixed", "mapped", "metadata", "none"],
    )
    def test_host_that_is_not_public_is_not_connected_to(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        client: GuardedHttps,
        addresses: Sequence[str],
    ) -> None:
        client.resolve = lambda _host, _port: addresses
        [message] = write(session, add())
        deliver_due(jobs)
        assert saved(session, message).last_error_code == "not_public"
        assert receiver.connections == 0

    def test_host_that_becomes_private_is_refused_at_the_next_attempt(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        client: GuardedHttps,
    ) -> None:
        answers = iter([["127.0.0.1"], ["10.0.0.1"]])
        client.resolve = lambda _host, _port: next(answers)
        endpoint = add()
        [first] = write(session, endpoint)
        deliver_due(jobs)
        [second] = write(session, endpoint)
        deliver_due(jobs)
        assert saved(session, first).state == "delivered"
        assert saved(session, second).last_error_code == "not_public"
        assert receiver.connections == 1

    def test_certificate_is_checked(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        client: GuardedHttps,
    ) -> None:
        client.context = None
        [message] = write(session, add())
        deliver_due(jobs)
        assert saved(session, message).last_error_code == "unreachable"
        assert receiver.requests == []

    def test_secret_under_another_key_is_named_and_retried(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        endpoint = add()
        endpoint.encrypted_secret = encrypt(b"another key", USE, endpoint.id, b"whsec_x")
        [message] = write(session, endpoint)
        deliver_due(jobs)
        row = saved(session, message)
        assert (row.state, row.last_error_code) == ("pending", "undecryptable")
        assert receiver.requests == []

    def test_message_that_cannot_be_sent_at_all_holds_up_no_other(
        self, jobs: UnitOfWorkFactory, add: AddEndpoint, session: Session, caplog: pytest.LogCaptureFixture
    ) -> None:
        [broken] = write(session, add(url="https://[::1/secret-path"))
        [good] = write(session, add())
        deliver_due(jobs)
        assert saved(session, good).state == "delivered"
        assert (saved(session, broken).state, broken.last_error_code) == ("pending", "internal")
        assert "secret-path" not in caplog.text

    def test_retry_after_is_obeyed(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.answers["/in"] = response(b"", "503 Unavailable", Retry_After="7200")
        [message] = write(session, add())
        deliver_due(jobs)
        row = saved(session, message)
        assert row.due_at is not None
        assert row.last_attempt_at is not None
        assert row.due_at - row.last_attempt_at == 2 * HOUR

    def test_message_is_given_up_after_ten_attempts(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.answers["/in"] = response(b"", "500 Internal Server Error")
        [message] = write(session, add())
        message.attempts = len(DELAYS)
        session.commit()
        deliver_due(jobs)
        assert saved(session, message).state == "failed"


class TestSharing:
    def test_hanging_endpoint_keeps_no_other_waiting_and_has_few_threads(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.hanging.add("/hangs")
        globex = factories.organization(session, "globex")
        write(session, add("/hangs"), 10)
        good = [*write(session, add("/same"), 5), *write(session, add("/other", organization=globex), 5)]
        working = Task(lambda: deliver_due(jobs))
        eventually(lambda: all(saved(session, message).state == "delivered" for message in good), during=working)
        assert len(receiver.received("/hangs")) == MAX_OF_ENDPOINT
        receiver.release.set()
        working.result()
        assert set(states(session)) == {"delivered"}

    def test_organization_whose_endpoints_hang_leaves_threads_for_others(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.hanging.add("/hangs")
        for _ in range(MAX_OF_ORGANIZATION):
            write(session, add("/hangs"), 3)
        globex = factories.organization(session, "globex")
        [good] = write(session, add("/other", organization=globex))
        working = Task(lambda: deliver_due(jobs))
        eventually(lambda: saved(session, good).state == "delivered", during=working)
        eventually(lambda: len(receiver.received("/hangs")) == MAX_OF_ORGANIZATION, during=working)
        [late] = write(session, session.get_one(WebhookEndpoint, good.endpoint_id))
        eventually(lambda: saved(session, late).state == "delivered", during=working)
        assert len(receiver.received("/hangs")) == MAX_OF_ORGANIZATION
        receiver.release.set()
        working.result()

    def test_failing_endpoints_share_half_of_the_threads(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.hanging.add("/hangs")
        for number in range(MAX_FAILING + 2):
            organization = factories.organization(session, f"organization-{number}")
            write(session, add("/hangs", organization=organization, failing_since=factories.now()), 2)
        [good] = write(session, add("/in"))
        working = Task(lambda: deliver_due(jobs))
        eventually(lambda: saved(session, good).state == "delivered", during=working)
        eventually(lambda: len(receiver.received("/hangs")) == MAX_FAILING, during=working)
        receiver.release.set()
        working.result()
        assert set(states(session)) == {"delivered"}

    def test_two_workers_deliver_each_message_once(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        messages = [message for path in ("/a", "/b", "/c") for message in write(session, add(path), 10)]
        other = UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, replace(jobs.dependencies))
        at_once(lambda: deliver_due(jobs), lambda: deliver_due(other))
        assert set(states(session)) == {"delivered"}
        assert sorted(request.headers["webhook-id"] for request in receiver.requests) == sorted(
            message.id for message in messages
        )

    def test_no_transaction_is_open_during_a_call(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.hanging.add("/in")
        write(session, add())
        working = Task(lambda: deliver_due(jobs))
        eventually(lambda: receiver.requests, during=working)
        database = session.scalars(text("SELECT current_database()")).one()
        open_ones = text("SELECT count(*) FROM pg_stat_activity WHERE datname = :name AND state LIKE 'idle in%'")
        session.rollback()
        eventually(lambda: jobs.engine.pool.checkedout() == 0, during=working)  # type: ignore[attr-defined]
        with jobs.engine.connect() as connection:
            assert connection.execute(open_ones, {"name": database}).scalar_one() == 0
        receiver.release.set()
        working.result()


class TestCrashes:
    def test_message_is_sent_again_with_its_id_when_the_record_is_lost(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        clock: MovableClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        [message] = write(session, add())

        def die(*_: object) -> None:
            raise SystemExit

        with monkeypatch.context() as patch:
            patch.setattr(delivery, "record", die)
            with pytest.raises(SystemExit):
                deliver_due(jobs)
        assert saved(session, message).state == "pending"
        assert not deliver_due(jobs), "the lease of the dead process has not ended"
        assert len(receiver.requests) == 1
        clock.offset = MINUTE
        deliver_due(jobs)
        first, second = receiver.requests
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        row = saved(session, message)
        assert (row.state, row.attempt_count) == ("delivered", 1)

    def test_late_record_of_a_lost_lease_changes_nothing(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        clock: MovableClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        receiver.answers["/in"] = response(b"", "500 Internal Server Error")
        [message] = write(session, add())
        kept: list[Sequence[tuple[outcomes.Attempt, outcomes.Outcome]]] = []
        with monkeypatch.context() as patch:
            patch.setattr(delivery, "record", lambda _factory, found: kept.append(found))
            deliver_due(jobs)
        receiver.answers.clear()
        clock.offset = MINUTE
        deliver_due(jobs)
        for found in kept:
            outcomes.record(jobs, found)
        row = saved(session, message)
        assert (row.state, row.attempt_count, row.last_status) == ("delivered", 1, 200)

    def test_redelivery_that_is_requested_during_an_attempt_follows_it(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.hanging.add("/in")
        [message] = write(session, add())
        working = Task(lambda: deliver_due(jobs))
        eventually(lambda: receiver.requests, during=working)
        session.execute(text("UPDATE webhook_messages SET due_at = due_at + interval '1 microsecond'"))
        session.commit()
        receiver.release.set()
        working.result()
        row = saved(session, message)
        assert (row.state, row.attempt_count, len(receiver.requests)) == ("delivered", 2, 2)
