"""The client of Stripe, with the simulated one over sockets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integrations.stripe import Stripe, StripeError, StripeMissingError, StripeSettings, StripeUnavailableError
from integrations.stripe.client import MAX_CONCURRENT_CALLS, MAX_RETRIES, Purchase
from tests.harness.concurrency import PATIENCE, Task
from tests.tools.fake_stripe.stripe_classes import operation
from tools.fake_stripe import FakeStripe, Handle, serve


@pytest.fixture(scope="module")
def handle() -> Iterator[Handle]:
    running = serve(FakeStripe())
    yield running
    running.stop(wait=False)


@pytest.fixture
def client(handle: Handle) -> Iterator[Stripe]:
    handle.stripe.reset()
    yield Stripe(StripeSettings(handle.stripe.keys.secret_key, api_url=handle.base_url, automatic_tax=True))
    handle.stripe.faults.clear()


def purchase(client: Stripe, handle: Handle) -> Purchase:
    """Return a purchase of a new customer."""
    product = client.api.products.create({"name": "Team", "metadata": {"plan": "team"}})
    params: Any = {
        "product": product.id,
        "currency": "eur",
        "unit_amount": 4900,
        "recurring": {"interval": "month"},
    }
    price = client.api.prices.create(params)
    return Purchase("org_1", client.create_customer("org_1"), price.id, "EUR", "http://web.test/a", "http://web.test/b")


def test_parameters_are_those_of_the_package(client: Stripe, handle: Handle) -> None:
    wanted = purchase(client, handle)
    client.open_checkout(wanted, "token")
    client.list_subscriptions(wanted.customer_id)
    client.list_invoices(wanted.customer_id)
    client.list_prices()
    for exchange in handle.stripe.calls.exchanges:
        assert exchange.template is not None
        assert operation(exchange.method, exchange.template).faults_of_params(exchange.params) == []


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ({"kind": "error", "status": 503}, 1 + MAX_RETRIES),
        ({"kind": "error", "status": 429}, 1),
        ({"kind": "revoked"}, 1),
    ],
)
def test_failing_stripe_is_unavailable(client: Stripe, handle: Handle, fault: dict[str, Any], calls: int) -> None:
    struck = handle.stripe.faults.add(fault.pop("kind"), "", **fault)
    with pytest.raises(StripeUnavailableError):
        client.list_prices()
    assert struck.struck == calls


def test_what_stripe_refuses_is_an_error_and_what_is_missing_another(client: Stripe, handle: Handle) -> None:
    wanted = purchase(client, handle)
    with pytest.raises(StripeMissingError):
        client.list_subscriptions("cus_nobody")
    with pytest.raises(StripeError) as refused:
        client.open_portal(wanted.customer_id, "http://web.test/", None, None)  # there is no configuration
    assert not isinstance(refused.value, StripeUnavailableError | StripeMissingError)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.delete_customer("cus_nobody"),
        lambda client: client.cancel_subscription("sub_nobody"),
        lambda client: client.expire_checkout("cs_nobody"),
    ],
)
def test_removing_what_is_gone_already_is_no_error(client: Stripe, call: Callable[[Stripe], None]) -> None:
    call(client)


def test_hanging_stripe_takes_few_threads_and_the_rest_fail_at_once(client: Stripe, handle: Handle) -> None:
    handle.stripe.faults.add("timeout", "GET /v1/prices", seconds=0.5, after=True)
    calls = [Task(client.list_prices) for _ in range(MAX_CONCURRENT_CALLS + 2)]
    busy = [error for each in calls if isinstance(error := each.exception(PATIENCE), StripeUnavailableError)]
    assert [error.code for error in busy].count("busy") >= 2


@pytest.mark.parametrize(("key", "live"), [("sk_live_1", True), ("rk_live_1", True), ("sk_test_1", False), ("", False)])
def test_mode_follows_from_the_key(key: str, live: bool) -> None:
    assert StripeSettings(key).live is live
