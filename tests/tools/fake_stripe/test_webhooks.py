"""Webhooks: signatures, payloads that are not to be believed, and what a control plane does with them."""

import json
from typing import Any

import httpx
import pytest
import stripe

from tests.tools.fake_stripe.conftest import SECRETS, START
from tests.tools.fake_stripe.shop import Shop
from tools.fake_stripe import FakeStripe
from tools.simulation.webhook_receiver import WebhookReceiver


def received(receiver: WebhookReceiver) -> list[str]:
    """Return the types of what came, in its order."""
    return [json.loads(body)["type"] for _, body in receiver.deliveries]


def hold_three(http: httpx.Client, shop: Shop) -> list[str]:
    """Hold three events, and return their ids."""
    http.put("/_control/settings", json={"webhooks": "hold"})
    for name in ("Acme", "Globex", "Initech"):
        shop.customer(name=name)
    held: list[str] = [each.event["id"] for each in shop.fake.sender.held]
    assert len(held) == 3
    return held


def ids(receiver: WebhookReceiver) -> list[str]:
    """Return the ids of the events that came."""
    return [json.loads(body)["id"] for _, body in receiver.deliveries]


def test_webhook_is_signed_with_every_secret(shop: Shop, fake: FakeStripe, receiver: WebhookReceiver) -> None:
    shop.customer()
    assert fake.sender.drain()
    [(headers, body)] = receiver.deliveries
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    for secret in SECRETS:
        header = headers["Stripe-Signature"]
        signed = stripe.WebhookSignature.verify_header(body.decode(), header, secret)
        assert signed
    with pytest.raises(stripe.SignatureVerificationError):
        stripe.WebhookSignature.verify_header(body.decode(), headers["Stripe-Signature"], "whsec_other")


def test_signature_is_stamped_with_the_clock_of_its_receiver(
    shop: Shop, fake: FakeStripe, receiver: WebhookReceiver
) -> None:
    fake.advance(100 * 86_400)
    shop.customer()
    assert fake.sender.drain()
    assert receiver.deliveries[0][0]["Stripe-Signature"].startswith(f"t={START},v1=")


def test_payload_says_which_object_and_customer_and_nothing_else(
    shop: Shop, fake: FakeStripe, receiver: WebhookReceiver
) -> None:
    subscription = shop.subscribe()
    assert fake.sender.drain()
    bodies = [json.loads(body) for _, body in receiver.deliveries]
    [created] = [body for body in bodies if body["type"] == "customer.subscription.created"]
    stub = {"id": subscription.id, "object": "subscription", "customer": subscription.customer}
    assert created["data"]["object"] == stub
    assert (created["api_version"], created["livemode"]) == ("2020-08-27", False)


def test_refused_webhook_is_sent_again(shop: Shop, fake: FakeStripe, receiver: WebhookReceiver) -> None:
    receiver.status = 500
    fake.settings.webhook_retry_seconds = 0.01
    shop.customer()
    assert fake.sender.drain()
    assert received(receiver) == ["customer.created"] * fake.settings.webhook_attempts
    assert len(set(ids(receiver))) == 1


def test_sender_forgets_the_oldest_deliveries(shop: Shop, fake: FakeStripe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fake_stripe.webhooks.KEPT", 2)
    fake.settings.webhook_url, fake.settings.webhooks = "http://127.0.0.1:9", "hold"
    for _ in range(3):
        shop.customer()
    assert len(fake.sender.deliveries) == 2


class TestDisorder:
    @pytest.mark.parametrize(
        ("order", "expected"), [("sent", [0, 1, 2]), ("reversed", [2, 1, 0]), ("doubled", [0, 1, 2, 0, 1, 2])]
    )
    def test_held_events_are_released_in_an_order(
        self,
        shop: Shop,
        fake: FakeStripe,
        receiver: WebhookReceiver,
        http: httpx.Client,
        order: str,
        expected: list[int],
    ) -> None:
        held = hold_three(http, shop)
        assert fake.sender.drain()
        assert not receiver.deliveries
        assert http.post("/_control/webhooks/release", json={"order": order}).json() == {"released": len(expected)}
        assert fake.sender.drain()
        assert ids(receiver) == [held[position] for position in expected]
        assert http.post("/_control/webhooks/release").json() == {"released": 0}

    def test_unknown_order_is_refused(self, http: httpx.Client) -> None:
        assert http.post("/_control/webhooks/release", json={"order": "sideways"}).status_code == 400

    def test_dropped_events_never_come(
        self, shop: Shop, fake: FakeStripe, receiver: WebhookReceiver, http: httpx.Client
    ) -> None:
        http.put("/_control/settings", json={"webhooks": "drop"})
        shop.customer()
        assert fake.sender.drain()
        assert not receiver.deliveries

    @pytest.mark.parametrize(
        ("fault", "count"),
        [
            ({"kind": "webhook_drop"}, 0),
            ({"kind": "webhook_duplicate"}, 2),
            ({"kind": "webhook_delay", "seconds": 0.05}, 1),
            ({"kind": "webhook_reorder", "seconds": 0.05}, 1),
        ],
    )
    def test_faults_strike_single_types(
        self, shop: Shop, fake: FakeStripe, receiver: WebhookReceiver, fault: dict[str, Any], count: int
    ) -> None:
        details = dict(fault)
        fake.faults.add(details.pop("kind"), "webhook customer.created", **details)
        shop.customer()
        assert fake.sender.drain()
        assert received(receiver) == ["customer.created"] * count
