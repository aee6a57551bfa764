"""A simulated Stripe of its own for every test, and the official client on it.

Every exchange of a test is held against the classes of the `stripe` package at its end.
"""

from collections.abc import Iterator

import pytest
import stripe

from tests.tools.fake_stripe.stripe_classes import operation
from tools.fake_stripe import FakeStripe, Handle, serve
from tools.fake_stripe.calls import Exchange

VERSION = "2026-10-28.endive"
SECRETS = ("whsec_first", "whsec_second")
START = 1_800_000_000
"""Time stands still here, until a test moves it."""
LEFT_OUT = frozenset(
    {
        "*.deleted",
        "Customer.cash_balance",
        "Customer.invoice_credit_balance",
        "Customer.sources",
        "Customer.subscriptions",
        "Customer.tax",
        "Customer.tax_ids",
        "Invoice.Issuer.account",
        "Invoice.payments",
        "LineItem.discounts",
        "LineItem.taxes",
        "PaymentMethod.*",
        "Plan.tiers",
        "Price.currency_options",
        "Price.tiers",
        "Session.PaymentMethodOptions.*",
        "Session.PaymentMethodOptions.Card.*",
        "Session.TotalDetails.breakdown",
        "Session.line_items",
        "Subscription.InvoiceSettings.Issuer.account",
        "SubscriptionSchedule.DefaultSettings.InvoiceSettings.Issuer.account",
    }
)
"""Fields that an answer has only if they are expanded, or if it is about something that is not simulated."""


def faults_of(exchange: Exchange) -> list[str]:
    """Return what is wrong with an exchange, a line each."""
    assert exchange.template is not None
    known = operation(exchange.method, exchange.template)
    return known.faults_of_answer(exchange.body, LEFT_OUT) + known.faults_of_params(exchange.params)


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


def client_of(handle: Handle, key: str | None = None, retries: int = 0) -> stripe.StripeClient:
    """Return the official client as the service uses it."""
    return stripe.StripeClient(
        key or handle.stripe.keys.secret_key,
        stripe_version=VERSION,
        base_addresses={"api": handle.base_url},
        max_network_retries=retries,
        http_client=stripe.RequestsClient(timeout=(3, 6)),
    )


@pytest.fixture
def api(handle: Handle) -> stripe.V1Services:
    return client_of(handle).v1
