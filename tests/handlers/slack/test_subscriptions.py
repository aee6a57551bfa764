"""Channels that get messages: who may subscribe them, to what, and how many."""

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.notifications import NotificationDestination
from schemas.contract import load_contract
from services.slack import subscriptions
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.people import through_pages
from tests.handlers.slack.conftest import SUBSCRIPTIONS

CHANNEL = {"channelId": "C0RELEASES", "channelName": "releases"}


@pytest.fixture
def connected(acme: Tenant, session: Session) -> Tenant:
    factories.slack_connection(session, acme.organization)
    return acme


def subscribe(tenant: Tenant, **body: Any) -> dict[str, Any]:
    return answered(tenant.person("member").post(SUBSCRIPTIONS, {**CHANNEL, **body}), 201)


def destinations(session: Session) -> dict[str, list[int]]:
    """Return how many minutes before windows each destination gets a reminder."""
    session.expire_all()
    return {row.id: row.remind_before for row in session.scalars(select(NotificationDestination))}


def test_events_are_those_of_the_contract() -> None:
    schemas = load_contract().document["components"]["schemas"]
    assert tuple(schemas["SlackNoticeKind"]["x-extensible-enum"]) == subscriptions.EVENTS
    assert tuple(schemas["SlackEventChoice"]["items"]["enum"]) == subscriptions.EVENTS


class TestSubscribeSlackChannel:
    def test_channel_gets_everything_unless_it_is_chosen(self, connected: Tenant, session: Session) -> None:
        made = subscribe(connected)
        assert made["events"] == list(subscriptions.EVENTS)
        assert (made["patterns"], made["remindBefore"], made["state"]) == (None, [60], "active")
        assert destinations(session) == {made["id"]: [60]}
        assert connected.audit() == ["slack.subscribed"]

    def test_choices_are_kept_without_doubles_and_in_order(self, connected: Tenant, session: Session) -> None:
        chosen = {"events": ["freeze.ended", "freeze.started"], "patterns": ["acme/*"], "remindBefore": [90, 5, 90]}
        made = subscribe(connected, **chosen)
        assert made["events"] == ["freeze.started", "freeze.ended"]
        assert (made["patterns"], made["remindBefore"]) == (["acme/*"], [5, 90])
        assert destinations(session) == {made["id"]: []}  # it is not subscribed to windows

    def test_channel_that_is_subscribed_gets_the_new_choices(self, connected: Tenant, session: Session) -> None:
        first = subscribe(connected)
        body = {"channelId": "C0RELEASES", "events": ["window.upcoming"], "remindBefore": [15]}
        again = connected.person("admin").post(SUBSCRIPTIONS, body).json()
        assert (again["id"], again["channelName"], again["events"]) == (first["id"], "releases", ["window.upcoming"])
        assert destinations(session) == {first["id"]: [15]}
        assert connected.audit() == ["slack.subscribed", "slack.subscription_updated"]

    def test_channel_needs_a_connected_workspace(self, acme: Tenant, session: Session) -> None:
        refusal(acme.person("member").post(SUBSCRIPTIONS, CHANNEL), 409, "invalid_state")
        factories.slack_connection(session, acme.organization, lost_at=factories.now(), encrypted_tokens=None)
        refusal(acme.person("member").post(SUBSCRIPTIONS, CHANNEL), 409, "invalid_state")

    def test_organization_has_a_limited_number_of_channels(
        self, connected: Tenant, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(subscriptions, "MAX_SUBSCRIPTIONS", 2)
        for number in range(2):
            subscribe(connected, channelId=f"C{number}")
        refusal(connected.person("member").post(SUBSCRIPTIONS, CHANNEL), 409, "invalid_state")
        subscribe(connected, channelId="C1", events=["freeze.started"])

    def test_invalid_choice_is_refused(self, connected: Tenant) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"events": []}, "validation_failed"),
            ({"events": ["session.started"]}, "validation_failed"),
            ({"remindBefore": [0]}, "validation_failed"),
            ({"channelId": "releases"}, "validation_failed"),
            ({"channelName": "a b"}, "validation_failed"),
            ({"patterns": ["!acme/docs"]}, "invalid_glob"),
        ]
        for body, code in cases:
            refusal(connected.person("member").post(SUBSCRIPTIONS, {**CHANNEL, **body}), 422, code)


class TestListSlackSubscriptions:
    def test_list_shows_channels_of_the_organization_newest_first(
        self, connected: Tenant, globex: Tenant, session: Session
    ) -> None:
        factories.slack_subscription(session, globex.organization)
        ids = [subscribe(connected, channelId=f"C{number}")["id"] for number in range(3)]
        assert [row["id"] for row in through_pages(connected.person("member"), SUBSCRIPTIONS)] == ids[::-1]


class TestUpdateSlackSubscription:
    def test_change_is_kept_and_audited(self, connected: Tenant, session: Session) -> None:
        made = subscribe(connected, patterns=["acme/*"])
        path = f"{SUBSCRIPTIONS}/{made['id']}"
        body = {"patterns": None, "remindBefore": [15], "channelName": "ship-it"}
        changed = connected.person("member").patch(path, body).json()
        assert changed == {**made, **body}
        assert destinations(session) == {made["id"]: [15]}
        [entry] = factories.audit_entries(session, "slack.subscription_updated")
        assert entry.details["before"] == {"channelName": "releases", "patterns": ["acme/*"], "remindBefore": [60]}
        assert entry.details["after"] == {"channelName": "ship-it", "patterns": None, "remindBefore": [15]}


class TestUnsubscribeSlackChannel:
    def test_channel_is_unsubscribed_with_its_destination(self, connected: Tenant, session: Session) -> None:
        path = f"{SUBSCRIPTIONS}/{subscribe(connected)['id']}"
        assert connected.person("member").delete(path).status_code == 204
        refusal(connected.person("member").delete(path), 404, "slack_subscription_not_found")
        assert destinations(session) == {}
        assert connected.audit() == ["slack.subscribed", "slack.unsubscribed"]
