"""What follows from outcomes: endpoints that are gone or fail for days are disabled, and administrators know it."""

from datetime import timedelta

import pytest
from sqlalchemy import select, text

from integrations.mail.templates import render
from models.attention import AttentionItem
from models.identity import Mail
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from services.maintenance.retention import purge_expired
from services.outgoing_webhooks import endpoints
from tests import factories
from tests.harness.concurrency import Task, eventually
from tests.harness.document_server import response
from tests.services.conftest import UnitOfWorkOpener
from tests.services.outgoing_webhooks.conftest import WebhookHarness

DAY = timedelta(days=1)
GONE = response(b"", "410 Gone")
FAILED = response(b"", "500 Internal Server Error")


class TestDisabling:
    def test_endpoint_that_is_gone_is_disabled_at_once_and_administrators_know(self, webhooks: WebhookHarness) -> None:
        for role in ("owner", "admin", "member"):
            factories.member(webhooks.session, webhooks.acme, role)
        webhooks.receiver.answers["/secret-path"] = GONE
        endpoint = webhooks.endpoint("/secret-path", name="Status page")
        waiting = factories.webhook_message(webhooks.session, endpoint, due_at=factories.now() + DAY)
        [message] = webhooks.write(endpoint)
        webhooks.deliver()
        webhooks.saved(endpoint)
        assert (endpoint.enabled, endpoint.disabled_reason) == (False, "gone")
        assert [webhooks.saved(each).state for each in (message, waiting)] == ["failed", "failed"]
        [entry] = factories.audit_entries(webhooks.session)
        assert (entry.action, entry.source, entry.details["after"]["disabledReason"]) == (
            "webhook.disabled",
            "system",
            "gone",
        )
        item = webhooks.session.scalars(select(AttentionItem)).one()
        assert (item.type, item.subject["id"], item.cleared_at) == ("webhook_disabled", endpoint.id, None)
        assert "secret-path" not in item.message
        assert webhooks.session.scalars(select(Mail.template)).all() == ["webhook_disabled"] * 2

    def test_endpoint_that_fails_for_five_days_is_disabled(self, webhooks: WebhookHarness) -> None:
        webhooks.receiver.answers["/in"] = FAILED
        since = factories.now() - 5 * DAY
        endpoint = webhooks.endpoint(failing_since=since, last_failure_at=factories.now() - DAY)
        webhooks.write(endpoint)
        webhooks.deliver()
        assert (webhooks.saved(endpoint).enabled, endpoint.disabled_reason) == (False, "failing")

    @pytest.mark.parametrize(
        ("since", "last"), [(4 * DAY, DAY), (30 * DAY, 3 * DAY)], ids=["four days", "days without a message"]
    )
    def test_endpoint_is_not_disabled_earlier_or_for_what_was_not_sent(
        self, webhooks: WebhookHarness, since: timedelta, last: timedelta
    ) -> None:
        webhooks.receiver.answers["/in"] = FAILED
        now = factories.now()
        endpoint = webhooks.endpoint(failing_since=now - since, last_failure_at=now - last)
        webhooks.write(endpoint)
        webhooks.deliver()
        assert webhooks.saved(endpoint).enabled
        assert factories.audit_entries(webhooks.session) == []

    def test_success_ends_the_time_of_failures(self, webhooks: WebhookHarness) -> None:
        endpoint = webhooks.endpoint(failing_since=factories.now() - 4 * DAY, last_failure_at=factories.now())
        webhooks.write(endpoint)
        webhooks.deliver()
        webhooks.saved(endpoint)
        assert (endpoint.failing_since, endpoint.last_failure_at) == (None, None)

    @pytest.mark.parametrize("answer", [FAILED, response(b"ok")], ids=["failure", "success"])
    def test_endpoint_that_is_disabled_during_an_attempt_gets_no_other(
        self, webhooks: WebhookHarness, unit_of: UnitOfWorkOpener, answer: bytes
    ) -> None:
        webhooks.receiver.hanging.add("/in")
        webhooks.receiver.answers["/in"] = answer
        endpoint = webhooks.endpoint()
        [message] = webhooks.write(endpoint)
        working = Task(webhooks.deliver)
        eventually(lambda: webhooks.receiver.requests, during=working)
        with unit_of(webhooks.acme) as uow:
            endpoints.change(uow, endpoint.id, {"enabled": False})
        webhooks.receiver.release.set()
        working.result()
        assert webhooks.saved(message).due_at is None
        assert (webhooks.saved(endpoint).enabled, endpoint.disabled_reason) == (False, "by_person")

    def test_answer_of_an_address_that_was_replaced_disables_nothing(
        self, webhooks: WebhookHarness, unit_of: UnitOfWorkOpener
    ) -> None:
        webhooks.receiver.hanging.add("/in")
        webhooks.receiver.answers["/in"] = GONE
        endpoint = webhooks.endpoint(failing_since=factories.now() - 4 * DAY, last_failure_at=factories.now())
        [message] = webhooks.write(endpoint)
        working = Task(webhooks.deliver)
        eventually(lambda: webhooks.receiver.requests, during=working)
        with unit_of(webhooks.acme) as uow:
            endpoints.change(uow, endpoint.id, {"url": "https://hooks.example.com/other"})
        webhooks.receiver.release.set()
        working.result()
        assert (webhooks.saved(endpoint).enabled, endpoint.failing_since) == (True, None)
        assert webhooks.saved(message).state == "pending"

    def test_enabling_and_deleting_resolve_the_alert(self, webhooks: WebhookHarness, unit_of: UnitOfWorkOpener) -> None:
        webhooks.receiver.answers["/in"] = GONE
        open_ones = select(AttentionItem.type).where(AttentionItem.cleared_at.is_(None))
        for end in (lambda uow, key: endpoints.change(uow, key, {"enabled": True}), endpoints.delete):
            endpoint = webhooks.endpoint()
            webhooks.write(endpoint)
            webhooks.deliver()
            webhooks.session.rollback()
            assert webhooks.session.scalars(open_ones).all() == ["webhook_disabled"]
            with unit_of(webhooks.acme) as uow:
                end(uow, endpoint.id)
            webhooks.session.rollback()
            assert webhooks.session.scalars(open_ones).all() == []

    def test_mail_says_which_webhook_was_disabled_and_why(self) -> None:
        values = {"organization": "Acme", "webhook": "Status page", "why": "because of it", "url": "https://web.test/x"}
        mail = render("webhook_disabled", values)
        assert "The webhook Status page of the organisation Acme was disabled, because of it." in mail.text


class TestRetention:
    def test_messages_and_deleted_endpoints_are_removed_after_thirty_days(self, webhooks: WebhookHarness) -> None:
        now = factories.now()
        kept = webhooks.endpoint()
        factories.webhook_message(webhooks.session, kept, due_at=None, created_at=now)
        factories.webhook_message(webhooks.session, kept, due_at=None, created_at=now - 31 * DAY)
        gone = webhooks.endpoint(deleted_at=now - 20 * DAY)
        factories.webhook_message(webhooks.session, gone, due_at=None, created_at=now - 25 * DAY)
        webhooks.session.commit()
        purge_expired(webhooks.jobs)
        assert webhooks.session.execute(text("SELECT count(*) FROM webhook_messages")).scalar_one() == 2
        assert len(webhooks.session.scalars(select(WebhookEndpoint.id)).all()) == 2
        webhooks.session.rollback()
        webhooks.clock.offset = 6 * DAY
        purge_expired(webhooks.jobs)
        assert webhooks.session.scalars(select(WebhookEndpoint.id)).all() == [kept.id]
        assert webhooks.session.scalars(select(WebhookMessage.endpoint_id)).all() == [kept.id]
