"""What follows from outcomes: endpoints that are gone or fail for days are disabled, and administrators know it."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from integrations.mail.templates import render
from models.attention import AttentionItem
from models.audit import AuditEntry
from models.identity import Mail
from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from services.core.unit_of_work import UnitOfWorkFactory
from services.maintenance.retention import purge_expired
from services.outgoing_webhooks import endpoints
from services.outgoing_webhooks.delivery import deliver_due
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import Task, eventually
from tests.harness.document_server import response
from tests.harness.webhook_receiver import WebhookReceiver
from tests.services.conftest import UnitOfWorkOpener
from tests.services.outgoing_webhooks.conftest import AddEndpoint

DAY = timedelta(days=1)
GONE = response(b"", "410 Gone")
FAILED = response(b"", "500 Internal Server Error")


def fresh(session: Session, row: Any) -> Any:
    session.rollback()
    session.refresh(row)
    return row


def actions(session: Session) -> list[str]:
    return list(session.scalars(select(AuditEntry.action).order_by(AuditEntry.id)))


class TestDisabling:
    def test_endpoint_that_is_gone_is_disabled_at_once_and_administrators_know(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        acme: Organization,
    ) -> None:
        for role in ("owner", "admin", "member"):
            factories.membership(session, acme, factories.user(session), role)
        receiver.answers["/secret-path"] = GONE
        endpoint = add("/secret-path", name="Status page")
        waiting = factories.webhook_message(session, endpoint, due_at=factories.now() + DAY)
        message = factories.webhook_message(session, endpoint)
        session.commit()
        deliver_due(jobs)
        fresh(session, endpoint)
        assert (endpoint.enabled, endpoint.disabled_reason) == (False, "gone")
        assert [fresh(session, each).state for each in (message, waiting)] == ["failed", "failed"]
        entry = session.scalars(select(AuditEntry)).one()
        assert (entry.action, entry.source, entry.details["after"]["disabledReason"]) == (
            "webhook.disabled",
            "system",
            "gone",
        )
        item = session.scalars(select(AttentionItem)).one()
        assert (item.type, item.subject["id"], item.cleared_at) == ("webhook_disabled", endpoint.id, None)
        assert "secret-path" not in item.message
        assert session.scalars(select(Mail.template)).all() == ["webhook_disabled"] * 2

    def test_endpoint_that_fails_for_five_days_is_disabled(
        self, jobs: UnitOfWorkFactory, receiver: WebhookReceiver, add: AddEndpoint, session: Session
    ) -> None:
        receiver.answers["/in"] = FAILED
        since = factories.now() - 5 * DAY
        endpoint = add(failing_since=since, last_failure_at=factories.now() - DAY)
        factories.webhook_message(session, endpoint)
        session.commit()
        deliver_due(jobs)
        assert (fresh(session, endpoint).enabled, endpoint.disabled_reason) == (False, "failing")

    @pytest.mark.parametrize(
        ("since", "last"), [(4 * DAY, DAY), (30 * DAY, 3 * DAY)], ids=["four days", "days without a message"]
    )
    def test_endpoint_is_not_disabled_earlier_or_for_what_was_not_sent(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        since: timedelta,
        last: timedelta,
    ) -> None:
        receiver.answers["/in"] = FAILED
        now = factories.now()
        endpoint = add(failing_since=now - since, last_failure_at=now - last)
        factories.webhook_message(session, endpoint)
        session.commit()
        deliver_due(jobs)
        assert fresh(session, endpoint).enabled
        assert actions(session) == []

    def test_success_ends_the_time_of_failures(
        self, jobs: UnitOfWorkFactory, add: AddEndpoint, session: Session
    ) -> None:
        endpoint = add(failing_since=factories.now() - 4 * DAY, last_failure_at=factories.now())
        factories.webhook_message(session, endpoint)
        session.commit()
        deliver_due(jobs)
        fresh(session, endpoint)
        assert (endpoint.failing_since, endpoint.last_failure_at) == (None, None)

    @pytest.mark.parametrize("answer", [FAILED, response(b"ok")], ids=["failure", "success"])
    def test_endpoint_that_is_disabled_during_an_attempt_gets_no_other(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        unit_of: UnitOfWorkOpener,
        acme: Organization,
        answer: bytes,
    ) -> None:
        receiver.hanging.add("/in")
        receiver.answers["/in"] = answer
        endpoint = add()
        message = factories.webhook_message(session, endpoint)
        session.commit()
        working = Task(lambda: deliver_due(jobs))
        eventually(lambda: receiver.requests, during=working)
        with unit_of(acme) as uow:
            endpoints.change(uow, endpoint.id, {"enabled": False})
        receiver.release.set()
        working.result()
        assert fresh(session, message).due_at is None
        assert (fresh(session, endpoint).enabled, endpoint.disabled_reason) == (False, "by_person")

    def test_answer_of_an_address_that_was_replaced_disables_nothing(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        unit_of: UnitOfWorkOpener,
        acme: Organization,
    ) -> None:
        receiver.hanging.add("/in")
        receiver.answers["/in"] = GONE
        endpoint = add(failing_since=factories.now() - 4 * DAY, last_failure_at=factories.now())
        message = factories.webhook_message(session, endpoint)
        session.commit()
        working = Task(lambda: deliver_due(jobs))
        eventually(lambda: receiver.requests, during=working)
        with unit_of(acme) as uow:
            endpoints.change(uow, endpoint.id, {"url": "https://hooks.example.com/other"})
        receiver.release.set()
        working.result()
        assert (fresh(session, endpoint).enabled, endpoint.failing_since) == (True, None)
        assert fresh(session, message).state == "pending"

    def test_enabling_and_deleting_resolve_the_alert(
        self,
        jobs: UnitOfWorkFactory,
        receiver: WebhookReceiver,
        add: AddEndpoint,
        session: Session,
        unit_of: UnitOfWorkOpener,
        acme: Organization,
    ) -> None:
        receiver.answers["/in"] = GONE
        open_ones = select(AttentionItem.type).where(AttentionItem.cleared_at.is_(None))
        for end in (lambda uow, key: endpoints.change(uow, key, {"enabled": True}), endpoints.delete):
            endpoint = add()
            factories.webhook_message(session, endpoint)
            session.commit()
            deliver_due(jobs)
            session.rollback()
            assert session.scalars(open_ones).all() == ["webhook_disabled"]
            with unit_of(acme) as uow:
                end(uow, endpoint.id)
            session.rollback()
            assert session.scalars(open_ones).all() == []

    def test_mail_says_which_webhook_was_disabled_and_why(self) -> None:
        values = {"organization": "Acme", "webhook": "Status page", "why": "because of it", "url": "https://web.test/x"}
        mail = render("webhook_disabled", values)
        assert "The webhook Status page of the organisation Acme was disabled, because of it." in mail.text


class TestRetention:
    def test_messages_and_deleted_endpoints_are_removed_after_thirty_days(
        self, jobs: UnitOfWorkFactory, add: AddEndpoint, session: Session, clock: MovableClock
    ) -> None:
        now = factories.now()
        kept = add()
        factories.webhook_message(session, kept, due_at=None, created_at=now)
        factories.webhook_message(session, kept, due_at=None, created_at=now - 31 * DAY)
        gone = add(deleted_at=now - 20 * DAY)
        factories.webhook_message(session, gone, due_at=None, created_at=now - 25 * DAY)
        session.commit()
        purge_expired(jobs)
        assert session.execute(text("SELECT count(*) FROM webhook_messages")).scalar_one() == 2
        assert len(session.scalars(select(WebhookEndpoint.id)).all()) == 2
        session.rollback()
        clock.offset = 6 * DAY
        purge_expired(jobs)
        assert session.scalars(select(WebhookEndpoint.id)).all() == [kept.id]
        assert session.scalars(select(WebhookMessage.endpoint_id)).all() == [kept.id]
