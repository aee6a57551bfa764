"""Delivery of webhooks over real sockets: signatures, endpoints that misbehave, retries, and processes that die."""

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import text
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from models.outgoing_webhooks import WebhookEndpoint
from rules.outgoing_webhooks.retries import DELAYS
from rules.outgoing_webhooks.signatures import new_secret
from services.core.encryption import encrypt
from services.core.unit_of_work import UnitOfWorkFactory
from services.outgoing_webhooks import delivery, outcomes
from services.outgoing_webhooks.delivery import MAX_FAILING, MAX_OF_ENDPOINT, MAX_OF_ORGANIZATION, deliver_due
from services.outgoing_webhooks.endpoints import USE
from tests import factories
from tests.factories.organizations import SECRET_KEY
from tests.harness.concurrency import Task, at_once, eventually
from tests.harness.document_server import response
from tests.services.outgoing_webhooks.conftest import WebhookHarness, hurried

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class TestDelivery:
    def test_message_is_delivered_with_a_signature_that_receivers_verify(self, webhooks: WebhookHarness) -> None:
        secret = new_secret()
        [message] = webhooks.write(webhooks.endpoint("/in?from=us", secret=secret))
        assert not webhooks.deliver()
        [request] = webhooks.receiver.received("/in?from=us")
        assert Webhook(secret).verify(request.body, request.headers) == json.loads(message.body)
        assert request.body == message.body.encode()
        assert request.headers["webhook-id"] == message.id
        assert request.headers["content-type"] == "application/json"
        row = webhooks.saved(message)
        assert (row.state, row.attempt_count, row.last_status, row.last_answer) == ("delivered", 1, 200, "thanks")
        assert (row.due_at, row.lease_token) == (None, None)

    def test_both_secrets_sign_until_the_end_of_the_grace(self, webhooks: WebhookHarness) -> None:
        new, old = new_secret(), new_secret()
        endpoint = webhooks.endpoint(secret=new)
        endpoint.encrypted_previous_secret = encrypt(SECRET_KEY.encode(), USE, endpoint.id, old.encode())
        endpoint.previous_secret_ends_at = factories.now() + HOUR
        webhooks.write(endpoint)
        webhooks.deliver()
        endpoint.previous_secret_ends_at = factories.now() - MINUTE
        webhooks.write(endpoint)
        webhooks.deliver()
        during, after = webhooks.receiver.received()
        for secret in (new, old):
            Webhook(secret).verify(during.body, during.headers)
        Webhook(new).verify(after.body, after.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(old).verify(after.body, after.headers)

    def test_disabled_endpoint_and_deleted_organization_are_sent_nothing(self, webhooks: WebhookHarness) -> None:
        webhooks.write(webhooks.endpoint(enabled=False))
        webhooks.acme.deleted_at = factories.now()
        webhooks.write(webhooks.endpoint())
        assert not webhooks.deliver()
        assert webhooks.receiver.requests == []

    def test_retry_has_the_same_id_and_body_and_another_timestamp(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.answers["/in"] = response(b"", "500 Internal Server Error")
        [message] = webhooks.write(webhooks.endpoint())
        webhooks.deliver()
        webhooks.receiver.answers.clear()
        webhooks.clock.offset = MINUTE
        webhooks.deliver()
        first, second = webhooks.receiver.received()
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == message.id
        assert first.body == second.body
        assert int(second.headers["webhook-timestamp"]) > int(first.headers["webhook-timestamp"])
        row = webhooks.saved(message)
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
        self, webhooks: WebhookHarness, answer: bytes, status: int | None, code: str
    ) -> None:
        webhooks.receiver.answers["/in"] = answer
        endpoint = webhooks.endpoint()
        row = webhooks.attempted(endpoint)
        assert (row.state, row.attempts, row.last_status, row.last_error_code) == ("pending", 1, status, code)
        assert row.due_at is not None
        assert row.last_attempt_at is not None
        assert DELAYS[0] * 0.9 <= row.due_at - row.last_attempt_at <= DELAYS[0] * 1.2
        assert len(webhooks.receiver.requests) == webhooks.receiver.connections == 1, "a redirect was followed"
        webhooks.session.refresh(endpoint)
        assert endpoint.failing_since is not None

    def test_oversized_answer_is_cut_and_its_text_made_storable(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.answers["/in"] = response(b"\0\xff<b>" + b"x" * 500_000, "200 OK", Content_Type="text/html")
        row = webhooks.attempted()
        assert row.state == "delivered"
        assert row.last_answer is not None
        assert len(row.last_answer) == 1024
        assert row.last_answer.startswith("\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}<b>x")

    def test_endpoint_that_hangs_is_retried_after_its_time(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.hanging.add("/in")
        [message] = webhooks.write(webhooks.endpoint())
        deliver_due(hurried(webhooks.jobs, webhooks.client))
        row = webhooks.saved(message)
        assert (row.state, row.last_error_code, row.last_status) == ("pending", "timeout", None)

    def test_endpoint_that_refuses_connections_is_retried(self, webhooks: WebhookHarness) -> None:
        assert webhooks.attempted(webhooks.endpoint(url="https://127.0.0.1:1/in")).last_error_code == "unreachable"

    @pytest.mark.parametrize(
        "addresses",
        [["10.0.0.1"], ["8.8.8.8", "192.168.0.1"], ["::ffff:10.0.0.1"], ["169.254.169.254"], []],
        ids=["private", "mixed", "mapped", "metadata", "none"],
    )
    def test_host_that_is_not_public_is_not_connected_to(
        self, webhooks: WebhookHarness, addresses: Sequence[str]
    ) -> None:
        webhooks.client.resolve = lambda _host, _port: addresses
        assert webhooks.attempted().last_error_code == "not_public"
        assert webhooks.receiver.connections == 0

    def test_host_that_becomes_private_is_refused_at_the_next_attempt(self, webhooks: WebhookHarness) -> None:
        answers = iter([["127.0.0.1"], ["10.0.0.1"]])
        webhooks.client.resolve = lambda _host, _port: next(answers)
        endpoint = webhooks.endpoint()
        [first] = webhooks.write(endpoint)
        webhooks.deliver()
        [second] = webhooks.write(endpoint)
        webhooks.deliver()
        assert webhooks.saved(first).state == "delivered"
        assert webhooks.saved(second).last_error_code == "not_public"
        assert webhooks.receiver.connections == 1

    def test_certificate_is_checked(self, webhooks: WebhookHarness) -> None:
        webhooks.client.context = None
        assert webhooks.attempted().last_error_code == "unreachable"
        assert webhooks.receiver.requests == []

    def test_secret_under_another_key_is_named_and_retried(self, webhooks: WebhookHarness) -> None:
        endpoint = webhooks.endpoint()
        endpoint.encrypted_secret = encrypt(b"another key", USE, endpoint.id, b"whsec_x")
        row = webhooks.attempted(endpoint)
        assert (row.state, row.last_error_code) == ("pending", "undecryptable")
        assert webhooks.receiver.requests == []

    def test_message_that_cannot_be_sent_at_all_holds_up_no_other(
        self, webhooks: WebhookHarness, caplog: pytest.LogCaptureFixture
    ) -> None:
        [broken] = webhooks.write(webhooks.endpoint(url="https://[::1/secret-path"))
        [good] = webhooks.write(webhooks.endpoint())
        webhooks.deliver()
        assert webhooks.saved(good).state == "delivered"
        assert (webhooks.saved(broken).state, broken.last_error_code) == ("pending", "internal")
        assert "secret-path" not in caplog.text

    def test_retry_after_is_obeyed(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.answers["/in"] = response(b"", "503 Unavailable", Retry_After="7200")
        row = webhooks.attempted()
        assert row.due_at is not None
        assert row.last_attempt_at is not None
        assert row.due_at - row.last_attempt_at == 2 * HOUR

    def test_message_is_given_up_after_ten_attempts(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.answers["/in"] = response(b"", "500 Internal Server Error")
        [message] = webhooks.write(webhooks.endpoint())
        message.attempts = len(DELAYS)
        webhooks.session.commit()
        webhooks.deliver()
        assert webhooks.saved(message).state == "failed"


class TestSharing:
    def test_hanging_endpoint_keeps_no_other_waiting_and_has_few_threads(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.hanging.add("/hangs")
        globex = factories.organization(webhooks.session, "globex")
        webhooks.write(webhooks.endpoint("/hangs"), 10)
        good = [
            *webhooks.write(webhooks.endpoint("/same"), 5),
            *webhooks.write(webhooks.endpoint("/other", organization=globex), 5),
        ]
        working = Task(webhooks.deliver)
        eventually(lambda: all(webhooks.saved(message).state == "delivered" for message in good), during=working)
        assert len(webhooks.receiver.received("/hangs")) == MAX_OF_ENDPOINT
        webhooks.receiver.release.set()
        working.result()
        assert set(webhooks.states()) == {"delivered"}

    def test_organization_whose_endpoints_hang_leaves_threads_for_others(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.hanging.add("/hangs")
        for _ in range(MAX_OF_ORGANIZATION):
            webhooks.write(webhooks.endpoint("/hangs"), 3)
        globex = factories.organization(webhooks.session, "globex")
        [good] = webhooks.write(webhooks.endpoint("/other", organization=globex))
        working = Task(webhooks.deliver)
        eventually(lambda: webhooks.saved(good).state == "delivered", during=working)
        eventually(lambda: len(webhooks.receiver.received("/hangs")) == MAX_OF_ORGANIZATION, during=working)
        [late] = webhooks.write(webhooks.session.get_one(WebhookEndpoint, good.endpoint_id))
        eventually(lambda: webhooks.saved(late).state == "delivered", during=working)
        assert len(webhooks.receiver.received("/hangs")) == MAX_OF_ORGANIZATION
        webhooks.receiver.release.set()
        working.result()

    def test_failing_endpoints_share_half_of_the_threads(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.hanging.add("/hangs")
        for number in range(MAX_FAILING + 2):
            organization = factories.organization(webhooks.session, f"organization-{number}")
            webhooks.write(webhooks.endpoint("/hangs", organization=organization, failing_since=factories.now()), 2)
        [good] = webhooks.write(webhooks.endpoint("/in"))
        working = Task(webhooks.deliver)
        eventually(lambda: webhooks.saved(good).state == "delivered", during=working)
        eventually(lambda: len(webhooks.receiver.received("/hangs")) == MAX_FAILING, during=working)
        webhooks.receiver.release.set()
        working.result()
        assert set(webhooks.states()) == {"delivered"}

    def test_two_workers_deliver_each_message_once(self, webhooks: WebhookHarness) -> None:
        messages = [message for path in ("/a", "/b", "/c") for message in webhooks.write(webhooks.endpoint(path), 10)]
        jobs = webhooks.jobs
        other = UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, jobs.ports.having())
        at_once(webhooks.deliver, lambda: deliver_due(other))
        assert set(webhooks.states()) == {"delivered"}
        assert sorted(request.headers["webhook-id"] for request in webhooks.receiver.requests) == sorted(
            message.id for message in messages
        )

    def test_no_transaction_is_open_during_a_call(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.hanging.add("/in")
        webhooks.write(webhooks.endpoint())
        working = Task(webhooks.deliver)
        eventually(lambda: webhooks.receiver.requests, during=working)
        database = webhooks.session.scalars(text("SELECT current_database()")).one()
        open_ones = text("SELECT count(*) FROM pg_stat_activity WHERE datname = :name AND state LIKE 'idle in%'")
        webhooks.session.rollback()
        eventually(lambda: webhooks.jobs.engine.pool.checkedout() == 0, during=working)  # type: ignore[attr-defined]
        with webhooks.jobs.engine.connect() as connection:
            assert connection.execute(open_ones, {"name": database}).scalar_one() == 0
        webhooks.receiver.release.set()
        working.result()


class TestCrashes:
    def test_message_is_sent_again_with_its_id_when_the_record_is_lost(
        self, webhooks: WebhookHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        [message] = webhooks.write(webhooks.endpoint())

        def die(*_: object) -> None:
            raise SystemExit

        with monkeypatch.context() as patch:
            patch.setattr(delivery, "record", die)
            with pytest.raises(SystemExit):
                webhooks.deliver()
        assert webhooks.saved(message).state == "pending"
        assert not webhooks.deliver(), "the lease of the dead process has not ended"
        assert len(webhooks.receiver.requests) == 1
        webhooks.clock.offset = MINUTE
        webhooks.deliver()
        first, second = webhooks.receiver.requests
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        row = webhooks.saved(message)
        assert (row.state, row.attempt_count) == ("delivered", 1)

    def test_late_record_of_a_lost_lease_changes_nothing(
        self, webhooks: WebhookHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        webhooks.receiver.answers["/in"] = response(b"", "500 Internal Server Error")
        [message] = webhooks.write(webhooks.endpoint())
        kept: list[Sequence[tuple[outcomes.Attempt, outcomes.Outcome]]] = []
        with monkeypatch.context() as patch:
            patch.setattr(delivery, "record", lambda _factory, found: kept.append(found))
            webhooks.deliver()
        webhooks.receiver.answers.clear()
        webhooks.clock.offset = MINUTE
        webhooks.deliver()
        for found in kept:
            outcomes.record(webhooks.jobs, found)
        row = webhooks.saved(message)
        assert (row.state, row.attempt_count, row.last_status) == ("delivered", 1, 200)

    def test_redelivery_that_is_requested_during_an_attempt_follows_it(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.hanging.add("/in")
        [message] = webhooks.write(webhooks.endpoint())
        working = Task(webhooks.deliver)
        eventually(lambda: webhooks.receiver.requests, during=working)
        webhooks.session.execute(text("UPDATE webhook_messages SET due_at = due_at + interval '1 microsecond'"))
        webhooks.session.commit()
        webhooks.receiver.release.set()
        working.result()
        row = webhooks.saved(message)
        assert (row.state, row.attempt_count, len(webhooks.receiver.requests)) == ("delivered", 2, 2)
