"""A simulated Stripe of its own for every test, and the official client on it.

Every exchange of a test is held against the classes of the `stripe` package at its end.
"""

from collections.abc import Iterator

import httpx
import pytest
import stripe

from tests.harness.servers import client_of as httpx_client
from tests.tools.fake_stripe.shop import Shop
from tests.tools.fake_stripe.stripe_classes import operation
from tools.fake_stripe import FakeStripe, Handle, serve
from tools.fake_stripe.calls import Exchange
from tools.simulation.webhook_receiver import WebhookReceiver

VERSION = "2026-10-28.endive"
SECRETS = ("whsec_first", "whsec_second")
START = 1_800_000_000
"""Time stands still here, until a test moves it."""


def faults_of(exchange: Exchange) -> list[str]:
    """Return what is wrong with an exchange, a line each."""
    assert exchange.template is not None
    known = operation(exchange.method, exchange.template)
    return known.faults_of_answer(exchange.body) + known.faults_of_params(exchange.params)


class Clock:
    """The clock of the machine, which a test can set."""

    def __init__(self) -> None:
        self.now = float(START)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def handle(clock: Clock) -> Iterator[Handle]:
    running = serve(FakeStripe(webhook_secrets=SECRETS, clock=clock))
    yield running
    running.stop(wait=False)
    faults = [fault for each in running.stripe.calls.exchanges if each.status == 200 for fault in faults_of(each)]
    assert not faults, "\n".join(sorted(set(faults)))


@pytest.fixture
def fake(handle: Handle) -> FakeStripe:
    return handle.stripe


def client_of(handle: Handle, key: str | None = None) -> stripe.StripeClient:
    """Return the official client as the service uses it."""
    return stripe.StripeClient(
        key or handle.stripe.keys.secret_key,
        stripe_version=VERSION,
        base_addresses={"api": handle.base_url},
        http_client=stripe.RequestsClient(timeout=(3, 6)),
    )


@pytest.fixture
def api(handle: Handle) -> stripe.V1Services:
    return client_of(handle).v1


@pytest.fixture
def shop(api: stripe.V1Services, fake: FakeStripe) -> Shop:
    return Shop(api, fake)


@pytest.fixture
def http(handle: Handle) -> Iterator[httpx.Client]:
    """Return a client without manners: it sends what it is given."""
    headers = {"Authorization": f"Bearer {handle.stripe.keys.secret_key}"}
    with httpx_client(handle.base_url, headers=headers, trust_env=False, timeout=5) as client:
        yield client


@pytest.fixture
def receiver(fake: FakeStripe) -> Iterator[WebhookReceiver]:
    """Receive what Stripe sends in this test."""
    found = WebhookReceiver("/webhooks/stripe")
    fake.settings.webhook_url = found.url
    yield found
    fake.settings.webhook_url = None
    fake.sender.drain()
    found.stop()
