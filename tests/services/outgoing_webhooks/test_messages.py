"""Messages: every chosen event is written once for an endpoint, as the audit log has it, and hostile text is text."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.notifications import NotificationDestination
from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import UnitOfWork, UnitOfWorkFactory
from services.events.event import Event
from services.notifications.dispatch import dispatch_due
from services.outgoing_webhooks import endpoints
from services.outgoing_webhooks.endpoints import NewWebhook
from services.outgoing_webhooks.messages import MAX_BODY_BYTES, body_of, take_events
from tests.harness.concurrency import at_once
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import UnitOfWorkOpener

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
HOSTILE = "Büro </script><script>alert(1)</script>\r\n::error::x\u2028{{7*7}} \"'\\ \x00 <!channel> 😀"
Create = Callable[..., str]


@pytest.fixture
def create(unit_of: UnitOfWorkOpener, acme: Organization) -> Create:
    """Create an endpoint of acme that has chosen these events, and return its id."""

    def created(*events: str, **terms: Any) -> str:
        with unit_of(acme) as uow:
            wanted = NewWebhook("Status page", "https://hooks.example.com/in", list(events), **terms)
            endpoint_id: str = endpoints.create(uow, wanted)["webhook"]["id"]
        return endpoint_id

    return created


def happen(uow: UnitOfWork, *actions: str, **details: Any) -> None:
    for action in actions:
        uow.audit(action, ("freeze", "frz_1", "Quarter-end close"), **{"before": None, "after": {}, **details})


def dispatch_all(jobs: UnitOfWorkFactory) -> None:
    seal_entries(jobs)
    while dispatch_due(jobs):
        pass


def messages(session: Session) -> list[WebhookMessage]:
    session.rollback()
    return list(session.scalars(select(WebhookMessage).order_by(WebhookMessage.sequence)))


class TestTakeEvents:
    def test_chosen_events_become_messages_once(
        self,
        unit_of: UnitOfWorkOpener,
        jobs: UnitOfWorkFactory,
        acme: Organization,
        create: Create,
        session: Session,
        wakeups: RecordedWakeups,
    ) -> None:
        with unit_of(acme) as uow:
            happen(uow, "freeze.started")
        dispatch_all(jobs)
        create("freeze.*", "exception.granted")
        with unit_of(acme) as uow:
            happen(uow, "freeze.lifted", "session.started", "exception.denied", "exception.granted")
        at_once(lambda: dispatch_all(jobs), lambda: dispatch_all(jobs))
        dispatch_all(jobs)
        written = messages(session)
        assert sorted(message.event for message in written) == ["exception.granted", "freeze.lifted"]
        assert all(json.loads(message.body)["type"] == message.event for message in written)
        assert "outgoing_webhooks" in wakeups.sent

    def test_body_has_the_audit_entry_and_hostile_text_is_plain_json(
        self, unit_of: UnitOfWorkOpener, jobs: UnitOfWorkFactory, acme: Organization, create: Create, session: Session
    ) -> None:
        create("*")
        text = HOSTILE.replace("\0", "")  # PostgreSQL stores none, and the contract accepts none
        with unit_of(acme) as uow:
            happen(uow, "freeze.started", after={"reason": text})
        dispatch_all(jobs)
        [message] = messages(session)
        body = json.loads(message.body)
        assert body.keys() == {"type", "timestamp", "data"}
        assert body["data"]["organizationId"] == acme.id
        entry = body["data"]["entry"]
        assert entry["details"]["after"] == {"reason": text}
        assert (entry["id"], entry["sequence"]) == (message.entry_id, message.sequence)
        assert entry["at"] == body["timestamp"]
        assert not set("\r\n") & set(message.body)

    def test_disabled_endpoint_gets_nothing_and_enabled_one_what_follows(
        self, unit_of: UnitOfWorkOpener, jobs: UnitOfWorkFactory, acme: Organization, create: Create, session: Session
    ) -> None:
        endpoint_id = create("*")
        with unit_of(acme) as uow:
            endpoints.change(uow, endpoint_id, {"enabled": False})
            happen(uow, "freeze.started")
        dispatch_all(jobs)
        with unit_of(acme) as uow:
            endpoints.change(uow, endpoint_id, {"enabled": True})
        with unit_of(acme) as uow:
            happen(uow, "freeze.lifted")
        dispatch_all(jobs)
        assert [message.event for message in messages(session)] == ["freeze.lifted"]

    def test_events_that_are_given_twice_are_written_once(
        self, unit_of: UnitOfWorkOpener, jobs: UnitOfWorkFactory, acme: Organization, create: Create, session: Session
    ) -> None:
        endpoint_id = create("*")
        event = event_of("freeze.started", sequence=7)
        for _ in range(2):
            with unit_of(acme) as uow:
                take_events(uow, endpoint_id, [event])
        assert len(messages(session)) == 1

    def test_windows_that_begin_soon_are_sent_to_those_who_chose_them(
        self, unit_of: UnitOfWorkOpener, acme: Organization, create: Create, session: Session
    ) -> None:
        details = {"minutes": 15, "windows": [{"occurrenceId": "occ_1", "reason": HOSTILE}]}
        event = event_of("window.upcoming", sequence=None, details=details)
        for endpoint_id in (create("window.upcoming"), create("freeze.*")):
            with unit_of(acme) as uow:
                take_events(uow, endpoint_id, [event])
        [message] = messages(session)
        assert json.loads(message.body)["data"] == {"organizationId": "", **details}
        assert (message.entry_id, message.sequence) == (None, None)

    def test_destination_of_an_endpoint_has_its_reminders_and_ends_with_it(
        self, unit_of: UnitOfWorkOpener, acme: Organization, create: Create, session: Session
    ) -> None:
        endpoint_id = create("*", remind_before=[60, 15])
        reminders = select(NotificationDestination.remind_before)
        assert session.scalars(reminders).all() == [[15, 60]]
        with unit_of(acme) as uow:
            endpoints.change(uow, endpoint_id, {"remind_before": [5]})
        session.rollback()
        assert session.scalars(reminders).all() == [[5]]
        with unit_of(acme) as uow:
            endpoints.delete(uow, endpoint_id)
        session.rollback()
        assert session.scalars(reminders).all() == []
        assert session.scalars(select(WebhookEndpoint.deleted_at)).one() is not None


class TestBody:
    @pytest.mark.parametrize(
        "data",
        [
            {"entry": {"id": "aud_1", "details": {"after": {"reason": "é" * 40_000}}}},
            {"minutes": 5, "windows": [{"occurrenceId": f"occ_{n}", "reason": "\x01" * 1000} for n in range(1000)]},
        ],
        ids=["details", "windows"],
    )
    def test_body_that_is_too_long_is_cut_and_says_so(self, data: dict[str, Any]) -> None:
        body = body_of("freeze.started", NOW, data)
        assert len(body.encode()) <= MAX_BODY_BYTES
        cut = json.loads(body)["data"]
        assert cut["truncated"] is True
        assert cut.get("entry", {"details": None})["details"] is None

    def test_body_that_fits_is_complete(self) -> None:
        data = {"entry": {"id": "aud_1", "details": {"reason": HOSTILE}}}
        assert json.loads(body_of("freeze.started", NOW, data))["data"] == data


def event_of(action: str, *, sequence: int | None, details: dict[str, Any] | None = None) -> Event:
    return Event(
        organization_id="",
        sequence=sequence,
        entry_id=None if sequence is None else "aud_1",
        at=NOW,
        action=action,
        kind=None,
        actor={"type": "system", "id": "system", "name": "Change-Freeze Service"},
        source="system",
        target={"type": "freeze", "id": "frz_1", "name": "Quarter-end close"},
        details=details or {},
        request_id=None,
    )
