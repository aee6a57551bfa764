"""Faults strike where and as often as they are set, and the official client meets them as Stripe's."""

from typing import Any

import httpx
import pytest
import stripe

from tests.harness.concurrency import eventually
from tests.tools.fake_stripe.conftest import client_of
from tools.fake_stripe import FakeStripe, Handle


def impatient(handle: Handle, retries: int = 0) -> stripe.V1Services:
    """Return the official client with a timeout that tests can wait for."""
    return stripe.StripeClient(
        handle.stripe.keys.secret_key,
        base_addresses={"api": handle.base_url},
        max_network_retries=retries,
        http_client=stripe.RequestsClient(timeout=0.3),
    ).v1


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, stripe.APIError), (503, stripe.APIError), (429, stripe.RateLimitError), (401, stripe.AuthenticationError)],
)
def test_error_strikes_the_next_calls_of_its_scope(
    handle: Handle, http: httpx.Client, status: int, error: type[stripe.StripeError]
) -> None:
    http.post("/_control/faults", json={"kind": "error", "scope": "GET /v1/prices", "status": status, "count": 1})
    api = client_of(handle).v1
    assert api.customers.list().data == []
    with pytest.raises(error) as raised:
        api.prices.list()
    assert raised.value.http_status == status
    assert api.prices.list().data == []


def test_error_has_its_own_headers(api: stripe.V1Services, fake: FakeStripe) -> None:
    fake.faults.add("error", "/v1/prices", status=429, message="Slow down", headers={"Retry-After": "7"})
    with pytest.raises(stripe.RateLimitError, match="Slow down") as error:
        api.prices.list()
    assert error.value.headers is not None
    assert error.value.headers["Retry-After"] == "7"


def test_revoked_key_is_401(api: stripe.V1Services, fake: FakeStripe) -> None:
    fake.faults.add("revoked", count=1)
    with pytest.raises(stripe.AuthenticationError):
        api.customers.list()


@pytest.mark.parametrize(("after", "customers"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("kind", ["timeout", "disconnect"])
def test_answer_is_lost_before_or_after_the_call_took_effect(
    handle: Handle, fake: FakeStripe, kind: str, customers: int, *, after: bool
) -> None:
    fault = fake.faults.add(kind, "POST /v1/customers", after=after, count=1)
    with pytest.raises(stripe.APIConnectionError):
        impatient(handle).customers.create({"name": "Acme"})
    eventually(lambda: bool(fault.struck))
    eventually(lambda: len(fake.store.all("customer")) == customers)
    eventually(lambda: fake.calls.by_operation == {"POST /v1/customers": 1})


@pytest.mark.parametrize("fault", [{"kind": "timeout"}, {"kind": "disconnect"}, {"kind": "error", "status": 500}])
def test_repeated_call_after_a_lost_answer_makes_one_object(
    handle: Handle, fake: FakeStripe, fault: dict[str, Any]
) -> None:
    details = dict(fault)
    fake.faults.add(details.pop("kind"), "POST /v1/customers", after=True, count=1, **details)
    made = impatient(handle, retries=2).customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"})
    assert [each["id"] for each in fake.store.all("customer")] == [made.id]


def test_rate_limited_call_is_not_repeated_by_the_package(handle: Handle, fake: FakeStripe) -> None:
    fault = fake.faults.add("error", "/v1/prices", status=429)
    with pytest.raises(stripe.RateLimitError):
        impatient(handle, retries=2).prices.list()
    assert fault.struck == 1


def test_body_can_be_slow(handle: Handle, fake: FakeStripe) -> None:
    fake.faults.add("slow_body", "/v1/customers", seconds=0.1, count=1)
    assert client_of(handle).v1.customers.list().data == []


def test_hang_holds_up_no_other_call(handle: Handle, api: stripe.V1Services, fake: FakeStripe) -> None:
    fake.faults.add("timeout", "POST /v1/customers", count=1)
    with pytest.raises(stripe.APIConnectionError):
        impatient(handle).customers.create({"name": "Acme"})
    assert api.customers.list().data == []


def test_faults_are_listed_and_cleared(http: httpx.Client) -> None:
    made = http.post("/_control/faults", json={"kind": "error", "scope": "/v1/"}).json()
    assert [each["id"] for each in http.get("/_control/faults").json()["faults"]] == [made["id"]]
    assert http.delete("/_control/faults", params={"id": made["id"]}).status_code == 204
    assert http.get("/_control/faults").json() == {"faults": []}


@pytest.mark.parametrize("fault", [{"kind": "unknown"}, {"kind": "error", "often": True}, {}])
def test_unknown_fault_is_refused(http: httpx.Client, fault: dict[str, Any]) -> None:
    assert http.post("/_control/faults", json=fault).status_code == 400
