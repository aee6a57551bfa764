"""Stripe's library for Node and its command line, which know nothing of this simulation, work with it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.tools.fake_stripe.conftest import SECRETS
from tests.tools.fake_stripe.shop import Shop
from tools.fake_stripe import FakeStripe, Handle
from tools.simulation.webhook_receiver import WebhookReceiver

pytestmark = pytest.mark.check
ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("stripe_walk.mjs")
COMMAND_LINE = ROOT / "node_modules" / ".bin" / "stripe"
TIMEOUT = 60.0


def test_library_for_node_sells_a_plan_and_cancels_it(
    shop: Shop, fake: FakeStripe, handle: Handle, receiver: WebhookReceiver
) -> None:
    shop.api.products.create({"name": "Signed"})
    assert fake.sender.drain()
    [(headers, body)] = receiver.deliveries
    fake.settings.webhook_url = None
    signed = json.dumps({"signature": headers["Stripe-Signature"], "payload": body.decode()})
    program = ["node", str(PROGRAM), handle.base_url, fake.keys.secret_key, SECRETS[1]]
    done = subprocess.run(program, input=signed, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr


def trigger(handle: Handle, home: Path, event: str, *options: str) -> None:
    """Cause an event as the command line does: with fixtures of its own."""
    key = handle.stripe.keys.secret_key
    command = [str(COMMAND_LINE), "trigger", event, "--api-base", handle.base_url, "--api-key", key, *options]
    environment = {**os.environ, "HOME": str(home), "STRIPE_CLI_TELEMETRY_OPTOUT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment)
    assert "Trigger succeeded!" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "event",
    [
        "customer.deleted",
        "price.updated",
        "customer.subscription.created",
        "customer.subscription.updated",
        "customer.subscription.deleted",
        "customer.subscription.trial_will_end",
        "customer.subscription.paused",
        "invoice.paid",
        "invoice.payment_failed",
        "invoice.payment_action_required",
        "invoice.voided",
        "billing_portal.configuration.created",
        "test_helpers.test_clock.advancing",
    ],
)
def test_command_line_triggers_an_event(handle: Handle, shop: Shop, tmp_path: Path, event: str) -> None:
    trigger(handle, tmp_path, event)
    if event != "customer.subscription.paused":  # what its fixture pauses is the collection: no such event follows
        assert event in shop.types()


def test_command_line_completes_a_checkout(handle: Handle, shop: Shop, tmp_path: Path) -> None:
    customer = shop.customer()
    trigger(
        handle,
        tmp_path,
        "checkout.session.completed",
        *("--override", "checkout_session:mode=subscription"),
        *("--add", f"checkout_session:customer={customer.id}"),
        *("--remove", "checkout_session:payment_intent_data"),
        *("--add", "price:recurring[interval]=month"),
    )
    assert [each.status for each in shop.api.subscriptions.list({"customer": customer.id}).data] == ["active"]
    assert shop.types()[-1] == "checkout.session.completed"
