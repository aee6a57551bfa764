"""Webhooks: signatures, payloads that are not to be believed, and what a control plane does with them."""

import json
from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import SECRETS, START
from tests.tools.fake_stripe.shop import Shop
from tools.fake_stripe import FakeStripe
from tools.simulation.webhook_receiver import WebhookReceiver


def received(receiver: WebhookReceiver) -> list[dict[str, Any]]:
    """Return the events that came, in their order."""
    return [json.loads(body) for _, body in receiver.deliveries]


def test_webhook_is_signed_with_every_secret(shop: Shop, fake: FakeStripe, receiver: WebhookReceiver) -> None:
    shop.customer()
    assert fake.sender.drain()
    [(headers, body)] = receiver.deliveries
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    for secret in SECRETS:
        assert stripe.WebhookSignature.verify_header(body.decode(), headers["Stripe-Signature"], secret)
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
    [created] = [each for each in received(receiver) if each["type"] == "customer.subscription.created"]
    stub = {"id": subscription.id, "object": "subscription", "customer": subscription.customer}
    assert created["data"]["object"] == stub
    assert (created["api_version"], created["livemode"]) == ("2020-08-27", False)


def test_refused_webhook_is_sent_again(shop: Shop, fake: FakeStripe, receiver: WebhookReceiver) -> None:
    receiver.status = 500
    fake.settings.webhook_retry_seconds = 0.01
    shop.customer()
    assert fake.sender.drain()
    sent = received(receiver)
    assert [each["type"] for each in sent] == ["customer.created"] * fake.settings.webhook_attempts
    assert len({each["id"] for each in sent}) == 1
