"""Outgoing webhooks over HTTP: who manages them, what can be chosen, and what is shown of secrets and deliveries."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from rules.audit.actions import ACTIONS
from rules.ids import new_id
from services.outgoing_webhooks.endpoints import MAX_ENDPOINTS
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.people import through_pages
from tests.harness.clock import MovableClock
from tests.harness.wakeups import RecordedWakeups

WEBHOOKS = "/v1/webhooks"
WANTED = {"name": "Status page", "url": "https://hooks.example.com/in?token=a-secret-of-theirs", "events": ["freeze.*"]}


@pytest.fixture
def endpoint(acme: Tenant, session: Session) -> WebhookEndpoint:
    return factories.webhook(session, acme.organization)


def path_of(endpoint: WebhookEndpoint, *rest: str) -> str:
    return "/".join((WEBHOOKS, endpoint.id, *rest))


def new_webhook(caller: Caller, **body: Any) -> dict[str, Any]:
    return answered(caller.post(WEBHOOKS, {**WANTED, **body}), 201)


class TestListWebhookEvents:
    def test_events_are_families_and_actions_and_what_is_private_is_absent(self, admin: Caller) -> None:
        listed = [row["event"] for row in through_pages(admin, f"{WEBHOOKS}/events", limit=50)]
        assert {"*", "freeze.*", "window.upcoming", "freeze.started"} <= set(listed)
        assert len(listed) == len(set(listed))
        private = ("session", "user", "device", "connection", "invitation", "webhook", "support", "calendar_feed")
        assert not [event for event in listed if str(event).startswith(private)]
        assert {event for event in listed if "*" not in str(event)} <= {*ACTIONS, "window.upcoming"}


class TestCreateWebhook:
    def test_secret_is_shown_once_and_stored_encrypted(self, admin: Caller, session: Session) -> None:
        made = new_webhook(admin)
        assert made["secret"].startswith("whsec_")
        assert made["secret"] not in admin.get(WEBHOOKS).text
        assert made["secret"] not in admin.get(f"{WEBHOOKS}/{made['webhook']['id']}").text
        row = session.scalars(select(WebhookEndpoint)).one()
        assert made["secret"].encode() not in (row.encrypted_secret or b"")

    def test_creation_is_audited_without_secret_and_path(self, admin: Caller, session: Session) -> None:
        made = new_webhook(admin, remindBefore=[60, 15])
        [entry] = factories.audit_entries(session)
        assert entry.action == "webhook.created"
        assert entry.target == {"type": "webhook", "id": made["webhook"]["id"], "name": "Status page"}
        assert entry.details["after"]["origin"] == "https://hooks.example.com"
        assert made["webhook"]["remindBefore"] == entry.details["after"]["remindBefore"] == [15, 60]
        assert not {"token", made["secret"]} & set(str(entry.details).replace("=", " ").split())

    def test_every_invalid_field_is_named(self, admin: Caller) -> None:
        body = {**WANTED, "url": "https://10.0.0.1/in", "events": ["freeze.*", "session.started", "kettle.boiled"]}
        error = refusal(admin.post(WEBHOOKS, body), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == ["/url", "/events/1", "/events/2"]

    def test_organization_has_a_limited_number_of_webhooks(self, acme: Tenant, admin: Caller, session: Session) -> None:
        for _ in range(MAX_ENDPOINTS - 1):
            factories.webhook(session, acme.organization)
        made = new_webhook(admin)
        refusal(admin.post(WEBHOOKS, WANTED), 409, "invalid_state")
        assert admin.delete(f"{WEBHOOKS}/{made['webhook']['id']}").status_code == 204
        new_webhook(admin)


class TestListWebhooks:
    def test_list_shows_webhooks_of_the_organization_newest_first(self, admin: Caller, globex: Tenant) -> None:
        new_webhook(globex.person("admin"))
        ids = [new_webhook(admin)["webhook"]["id"] for _ in range(3)]
        assert [row["id"] for row in through_pages(admin, WEBHOOKS)] == ids[::-1]


class TestUpdateWebhook:
    def test_only_what_is_sent_changes_and_is_audited(self, admin: Caller, session: Session) -> None:
        made = new_webhook(admin)["webhook"]
        path = f"{WEBHOOKS}/{made['id']}"
        changed = admin.patch(path, {"events": ["freeze.started"], "url": "https://hooks.example.com/other"}).json()
        assert changed == {
            **made,
            "events": ["freeze.started"],
            "url": "https://hooks.example.com/other",
            "updatedAt": changed["updatedAt"],
        }
        [_, entry] = factories.audit_entries(session)
        assert entry.details["before"] == {"events": ["freeze.*"]}
        assert entry.details["after"] == {"events": ["freeze.started"]}
        assert entry.details["addressChanged"] is True
        admin.patch(path, {"events": ["freeze.started"]})
        assert len(factories.audit_entries(session)) == 2

    def test_disabling_gives_up_what_waits_and_enabling_forgets_failures(
        self, admin: Caller, endpoint: WebhookEndpoint, session: Session
    ) -> None:
        message = factories.webhook_message(session, endpoint)
        endpoint.failing_since = factories.now()
        session.flush()
        shown = admin.patch(path_of(endpoint), {"enabled": False}).json()
        assert (shown["enabled"], shown["disabledReason"]) == (False, "by_person")
        session.refresh(message)
        assert (message.due_at, message.state) == (None, "failed")
        refusal(admin.post(path_of(endpoint, "test")), 409, "invalid_state")
        shown = admin.patch(path_of(endpoint), {"enabled": True}).json()
        assert (shown["enabled"], shown["disabledReason"], shown["failingSince"]) == (True, None, None)

    def test_invalid_change_is_refused(self, admin: Caller, endpoint: WebhookEndpoint) -> None:
        error = refusal(admin.patch(path_of(endpoint), {"events": ["*", "user.*"]}), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == ["/events/1"]


class TestDeleteWebhook:
    def test_deleted_webhook_keeps_neither_address_nor_secret(
        self, admin: Caller, endpoint: WebhookEndpoint, session: Session
    ) -> None:
        message = factories.webhook_message(session, endpoint)
        admin.post(path_of(endpoint, "rotate"))
        assert admin.delete(path_of(endpoint)).status_code == 204
        for rest in ((), ("deliveries",)):
            refusal(admin.get(path_of(endpoint, *rest)), 404, "webhook_not_found")
        session.refresh(endpoint)
        session.refresh(message)
        assert (endpoint.url, endpoint.encrypted_secret, endpoint.encrypted_previous_secret) == ("", None, None)
        assert message.due_at is None
        assert [entry.action for entry in factories.audit_entries(session)] == [
            "webhook.secret_rotated",
            "webhook.deleted",
        ]


class TestRotateWebhookSecret:
    def test_rotation_ends_the_old_secret_after_its_grace(self, admin: Caller, clock: MovableClock) -> None:
        made = new_webhook(admin)
        path = f"{WEBHOOKS}/{made['webhook']['id']}"
        rotated = admin.post(f"{path}/rotate", {"graceSeconds": 60}).json()
        assert rotated["secret"] != made["secret"]
        assert rotated["webhook"]["previousSecretEndsAt"] is not None
        clock.offset = timedelta(seconds=61)
        assert admin.get(path).json()["previousSecretEndsAt"] is None

    def test_rotation_without_grace_ends_the_old_secret_at_once(self, admin: Caller, session: Session) -> None:
        path = f"{WEBHOOKS}/{new_webhook(admin)['webhook']['id']}"
        shown = admin.post(f"{path}/rotate", {"graceSeconds": 0}).json()
        assert shown["webhook"]["previousSecretEndsAt"] is None
        assert session.scalars(select(WebhookEndpoint.encrypted_previous_secret)).one() is None


class TestSendWebhookTest:
    def test_test_event_is_sent_whatever_was_chosen(
        self, admin: Caller, endpoint: WebhookEndpoint, session: Session, wakeups: RecordedWakeups
    ) -> None:
        endpoint.events = ["freeze.started"]
        session.flush()
        shown = admin.post(path_of(endpoint, "test")).json()
        assert (shown["event"], shown["state"], shown["attempts"]) == ("webhook.test", "pending", 0)
        assert "outgoing_webhooks" in wakeups.sent
        assert admin.get(path_of(endpoint, "deliveries")).json()["data"] == [shown]


class TestListWebhookDeliveries:
    def test_deliveries_are_listed_by_state_newest_first(
        self, acme: Tenant, admin: Caller, endpoint: WebhookEndpoint, session: Session
    ) -> None:
        factories.webhook_message(session, factories.webhook(session, acme.organization))
        at = factories.now()
        columns: dict[str, dict[str, Any]] = {
            "pending": {},
            "delivered": {"due_at": None, "delivered_at": at, "last_status": 200},
            "failed": {"due_at": None, "last_status": 500, "last_answer": "No.", "last_error_message": "It failed."},
        }
        ids = {
            state: factories.webhook_message(session, endpoint, created_at=at + timedelta(seconds=second), **given).id
            for second, (state, given) in enumerate(columns.items())
        }
        path = path_of(endpoint, "deliveries")
        assert [row["id"] for row in through_pages(admin, path)] == list(ids.values())[::-1]
        for state, message_id in ids.items():
            assert [(row["id"], row["state"]) for row in admin.get(path, state=state).json()["data"]] == [
                (message_id, state)
            ]
        [failed] = admin.get(path, state="failed").json()["data"]
        assert (failed["lastStatus"], failed["lastAnswer"], failed["lastError"]) == (500, "No.", "It failed.")


class TestRedeliverWebhook:
    def test_delivery_is_sent_again_whatever_became_of_it(
        self, admin: Caller, endpoint: WebhookEndpoint, session: Session, wakeups: RecordedWakeups
    ) -> None:
        done = factories.webhook_message(session, endpoint, due_at=None, delivered_at=factories.now(), attempts=0)
        failed = factories.webhook_message(session, endpoint, due_at=None, attempts=10, last_error_message="No.")
        waiting = factories.webhook_message(session, endpoint, due_at=factories.now() + timedelta(hours=5), attempts=3)
        for message in (done, failed, waiting):
            shown = admin.post(path_of(endpoint, "deliveries", message.id, "redeliver")).json()
            assert (shown["id"], shown["state"], shown["deliveredAt"]) == (message.id, "pending", None)
            session.refresh(message)
            assert message.attempts == 0
            assert message.due_at is not None
            assert message.due_at <= factories.now()
        assert "outgoing_webhooks" in wakeups.sent
        assert {entry.action for entry in factories.audit_entries(session)} == {"webhook.redelivery_requested"}

    def test_delivery_that_is_under_way_is_sent_once_more(
        self, admin: Caller, endpoint: WebhookEndpoint, session: Session
    ) -> None:
        until = factories.now() + timedelta(seconds=30)
        message = factories.webhook_message(session, endpoint, lease_token="held", lease_until=until)
        assert message.due_at is not None
        acquired_at = message.due_at
        admin.post(path_of(endpoint, "deliveries", message.id, "redeliver"))
        session.refresh(message)
        assert message.due_at > acquired_at, "the end of the lease would forget the request"

    def test_delivery_of_another_webhook_is_not_found(
        self, acme: Tenant, admin: Caller, endpoint: WebhookEndpoint, session: Session
    ) -> None:
        other = factories.webhook_message(session, factories.webhook(session, acme.organization))
        for message_id in (other.id, new_id("msg")):
            path = path_of(endpoint, "deliveries", message_id, "redeliver")
            refusal(admin.post(path), 404, "webhook_delivery_not_found")
        assert session.scalars(select(WebhookMessage.attempt_count)).one() == 0


def test_address_that_is_no_uri_is_refused_in_its_field(
    admin: Caller, endpoint: WebhookEndpoint, session: Session
) -> None:
    for text in ("%", "%zz", "{x}", "<x>", '"', "^", "`", "|", "?a=%", "?[x]", "/[x]", "?a=%e", "%2"):
        address = f"https://hooks.example.com/{text}"
        created = admin.post(WEBHOOKS, {**WANTED, "url": address})
        changed = admin.patch(path_of(endpoint), {"url": address})
        for answer in (created, changed):
            assert [row["path"] for row in refusal(answer, 422, "invalid_parameter")["details"]] == ["/url"]
        assert session.scalars(select(WebhookEndpoint)).all() == [endpoint]


def test_address_may_have_everything_that_a_uri_has(admin: Caller) -> None:
    address = "https://hooks.example.com:8443/a~b/(c);d=1/%C3%A9//?q=a/b?c&d=%20'!$*+,:@"
    assert new_webhook(admin, url=address)["webhook"]["url"] == address
