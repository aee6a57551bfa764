"""The webhook of Stripe: which events are believed, and what of them."""

import time
from typing import Any

import httpx
import orjson
import pytest

from integrations.stripe.signatures import sign
from tests.handlers.billing.conftest import FAILS_LATER, VISA, Shop
from tests.handlers.callers import refusal
from tests.handlers.conftest import STRIPE_SECRETS
from tests.harness.clock import MovableClock
from tests.harness.wakeups import RecordedWakeups
from tests.tools.fake_stripe.shop import press

WEBHOOK = "/webhooks/stripe"


def event(customer: object, kind: str = "customer.subscription.updated", **changes: Any) -> bytes:
    about = {"id": "sub_1", "object": "subscription", "customer": customer}
    return orjson.dumps({"id": "evt_1", "type": kind, "livemode": False, "data": {"object": about}, **changes})


def signed(body: bytes, secret: str = STRIPE_SECRETS[0], late: float = 0) -> str:
    return sign(secret, body, int(time.time() - late))


def deliver(http: httpx.Client, body: bytes, signature: str | bytes | None) -> httpx.Response:
    headers: dict[str, Any] = {"Content-Type": "application/json"}
    if signature is not None:
        headers["Stripe-Signature"] = signature
    return http.post(WEBHOOK, content=body, headers=headers)


@pytest.fixture
def known(shop: Shop) -> str:
    """Return the customer of an organisation, which is not due."""
    shop.buy()
    shop.pass_time(days=2)
    shop.work()
    shop.clock.reset()
    return shop.customer()


def ignored(answer: httpx.Response) -> bool:
    assert answer.status_code == 202, answer.text
    return bool(answer.json()["ignored"])


@pytest.mark.parametrize("secret", STRIPE_SECRETS)
def test_event_signed_with_either_secret_wakes_the_job(
    shop: Shop, known: str, http: httpx.Client, wakeups: RecordedWakeups, secret: str
) -> None:
    wakeups.sent.clear()
    answer = deliver(http, event(known), signed(event(known), secret))
    assert (ignored(answer), answer.json()["eventId"]) == (False, "evt_1")
    assert set(wakeups.sent) == {"billing"}


def test_event_with_several_signatures_needs_one_that_is_right(shop: Shop, known: str, http: httpx.Client) -> None:
    body = event(known)
    stamp, right = signed(body).split(",")
    assert not ignored(deliver(http, body, f"{stamp},v1={'0' * 64},{right},v0=abc"))
    refusal(deliver(http, body, f"{stamp},v1={'0' * 64},v1={'1' * 64}"), 401, "invalid_signature")


def test_event_with_a_malformed_signature_is_rejected(http: httpx.Client, shop: Shop) -> None:
    cases: list[Any] = [
        None,
        "",
        "garbage",
        "t=1",
        "v1=00",
        b"t=1,v1=\xc3\xa9",
        b"\xff\xfe",
        "t=x,v1=00",
        "t=1,t=2,v1=00",
        "," * 5000,
    ]
    for signature in cases:
        refusal(deliver(http, event("cus_1"), signature), 401, "invalid_signature")


def test_event_signed_by_others_or_for_another_body_is_rejected(http: httpx.Client, shop: Shop) -> None:
    body = event("cus_1")
    refusal(deliver(http, body, signed(body, "whsec_of_somebody_else")), 401, "invalid_signature")
    refusal(deliver(http, body + b" ", signed(body)), 401, "invalid_signature")
    refusal(deliver(http, b"\xff\xfe", signed(body)), 401, "invalid_signature")


@pytest.mark.parametrize(("late", "accepted"), [(290, True), (302, False), (-290, True), (-310, False)])
def test_event_is_accepted_for_300_seconds_in_both_directions(
    http: httpx.Client, shop: Shop, late: float, accepted: bool
) -> None:
    body = event("cus_1")
    assert deliver(http, body, signed(body, late=late)).status_code == (202 if accepted else 401)


def test_event_about_an_unknown_customer_is_ignored(http: httpx.Client, shop: Shop) -> None:
    cases: list[bytes] = [
        event("cus_unknown"),
        event(None),
        event({"id": "cus_1"}),
        event("cus_\x00"),
        event("cus_1", data=None),
        event("cus_1", data={"object": 7}),
        orjson.dumps({}),
    ]
    for body in cases:
        assert ignored(deliver(http, body, signed(body)))


def test_event_of_the_live_mode_is_ignored_with_a_test_key(http: httpx.Client, shop: Shop, known: str) -> None:
    for livemode in (True, None, "false"):
        body = event(known, livemode=livemode)
        assert ignored(deliver(http, body, signed(body)))


@pytest.mark.parametrize("body", [b"[]", b"{", b"", b"\xff"])
def test_event_that_is_no_json_object_is_malformed(http: httpx.Client, shop: Shop, body: bytes) -> None:
    refusal(deliver(http, body, signed(body)), 400, "malformed_json")


def test_event_about_prices_has_them_read(http: httpx.Client, shop: Shop, wakeups: RecordedWakeups) -> None:
    shop.price(amount=5900)
    wakeups.sent.clear()
    body = event(None, "price.updated")
    assert not ignored(deliver(http, body, signed(body)))
    assert set(wakeups.sent) == {"prices"}
    shop.work()
    listed = shop.tenant.person("viewer").get("/v1/billing/prices").json()["data"]
    assert [each["unitAmount"] for each in listed] == [5900, 19900]


@pytest.mark.parametrize("order", ["reversed", "doubled"])
def test_events_in_any_order_end_in_the_same_state(shop: Shop, clock: MovableClock, order: str) -> None:
    press(shop.open_checkout(), card=VISA)
    shop.work()
    shop.set_card(FAILS_LATER)
    shop.pass_time(days=31, hours=2)
    assert shop.fake.sender.release(order) > 5
    assert shop.fake.sender.drain()
    assert all(each.is_delivered for each in shop.fake.sender.deliveries.values())
    shop.work()
    assert shop.billing()["subscription"]["state"] == "past_due"
    assert shop.plan() == ("team", "stripe")
