"""Checkout: sessions, and the page on which a person pays."""

from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import START, Clock
from tests.tools.fake_stripe.shop import BACK, DAY, DECLINED, FAILING, VISA, Shop, press, read
from tools.fake_stripe import FakeStripe


def test_session_is_paid_once(shop: Shop, fake: FakeStripe) -> None:
    customer = shop.customer()
    session = shop.checkout(customer)
    assert "Team: 49.00 EUR per month" in read(session.url)
    assert press(session.url, card="4242 4242 4242 4242").headers["Location"] == f"{BACK}?checkout={session.id}"
    assert "You have completed your payment" in press(f"{fake.base_url}/c/pay/{session.id}", card=VISA).text
    assert len(shop.subscriptions(customer)) == 1


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (DECLINED, "Your card was declined."),
        (FAILING, "Your card was declined."),
        ("4111 1111 1111 1111", "Your card number is invalid."),
    ],
)
def test_declined_card_leaves_the_session_open(shop: Shop, card: str, message: str) -> None:
    customer = shop.customer()
    session = shop.checkout(customer)
    assert message in press(session.url, card=card).text
    assert shop.subscriptions(customer) == []
    assert press(session.url, card=VISA).status_code == 303


def test_trial_that_ends_within_two_days_is_refused(shop: Shop) -> None:
    with pytest.raises(stripe.InvalidRequestError, match="at least 2 days in the future") as error:
        shop.checkout(shop.customer(), subscription_data={"trial_end": START + 2 * DAY - 1})
    assert error.value.param == "subscription_data[trial_end]"


@pytest.mark.parametrize(
    ("updates", "message"),
    [({}, "requires a valid address"), ({"address": "auto"}, "Tax ID collection requires updating business name")],
)
def test_taxes_need_updates_of_the_customer(shop: Shop, updates: dict[str, str], message: str) -> None:
    tax: Any = {"automatic_tax": {"enabled": True}, "tax_id_collection": {"enabled": True}}
    with pytest.raises(stripe.InvalidRequestError, match=message):
        shop.checkout(shop.customer(), **tax, customer_update=updates)
    assert shop.checkout(shop.customer(), **tax, customer_update={"address": "auto", "name": "auto"}).url


def test_currency_is_chosen_among_those_of_the_price(shop: Shop) -> None:
    customer, price = shop.customer(), shop.price(currency_options={"usd": {"unit_amount": 5900}})
    session = shop.checkout(customer, price, currency="usd")
    assert (session.currency, session.amount_total) == ("usd", 5900)
    press(session.url, card=VISA)
    [subscription] = shop.subscriptions(customer)
    assert (subscription.currency, subscription["items"].data[0].price.currency) == ("usd", "eur")
    with pytest.raises(stripe.InvalidRequestError, match="only supports `eur`"):
        shop.checkout(customer, price, currency="chf")


def test_session_expires_after_a_day(shop: Shop, clock: Clock) -> None:
    session = shop.checkout(shop.customer())
    clock.now += DAY
    assert "This link has expired" in read(session.url)
    assert press(session.url, card=VISA).status_code == 404
    assert shop.fake.store.all("event")[0]["type"] == "checkout.session.expired"
    with pytest.raises(stripe.InvalidRequestError, match="has a status of `expired`"):
        shop.api.checkout.sessions.expire(session.id)
