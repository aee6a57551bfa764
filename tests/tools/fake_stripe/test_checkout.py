"""Checkout: sessions, and the page on which a person pays."""

from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import START, Clock
from tests.tools.fake_stripe.shop import BACK, DAY, Shop, press, read
from tools.fake_stripe import FakeStripe

VISA = "4242 4242 4242 4242"
CHALLENGED = "4000 0025 0000 3155"


def subscriptions(shop: Shop, customer: str) -> list[stripe.Subscription]:
    """Return the subscriptions as the service reads them."""
    return shop.api.subscriptions.list({"customer": customer, "status": "all", "expand": ["data.latest_invoice"]}).data


def test_card_that_pays_makes_an_active_subscription(shop: Shop, fake: FakeStripe) -> None:
    customer = shop.customer().id
    session = shop.checkout(customer, client_reference_id="org_1", subscription_data={"metadata": {"org": "1"}})
    assert "Team: 49.00 EUR per month" in read(session.url)
    answer = press(session.url, card=VISA)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{BACK}?checkout={session.id}")
    [subscription] = subscriptions(shop, customer)
    assert (subscription.status, subscription.metadata.to_dict()) == ("active", {"org": "1"})
    done = fake.store.objects["checkout.session"][session.id]
    assert (done["status"], done["payment_status"], done["subscription"]) == ("complete", "paid", subscription.id)
    assert shop.types()[-1] == "checkout.session.completed"
    assert "You have completed your payment" in press(f"{fake.base_url}/c/pay/{session.id}", card=VISA).text
    assert len(subscriptions(shop, customer)) == 1


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("4000 0000 0000 0002", "Your card was declined."),
        ("4000 0000 0000 9995", "Your card has insufficient funds."),
        ("4000 0000 0000 0341", "Your card was declined."),
        ("4111 1111 1111 1111", "Your card number is invalid."),
    ],
)
def test_declined_card_leaves_the_session_open(shop: Shop, card: str, message: str) -> None:
    customer = shop.customer().id
    session = shop.checkout(customer)
    assert message in press(session.url, card=card).text
    assert subscriptions(shop, customer) == []
    assert press(session.url, card=VISA).status_code == 303


@pytest.mark.parametrize("card", [CHALLENGED, "4000 0027 6000 3184"])
def test_3d_secure_is_passed_or_failed(shop: Shop, card: str) -> None:
    customer = shop.customer().id
    session = shop.checkout(customer)
    assert "Complete authentication" in press(session.url, card=card).text
    assert "unable to authenticate" in press(session.url, card=card, challenge="fail").text
    assert subscriptions(shop, customer) == []
    assert press(session.url, card=card, challenge="complete").status_code == 303
    assert subscriptions(shop, customer)[0].status == "active"


def test_trial_costs_nothing_today(shop: Shop) -> None:
    customer = shop.customer().id
    session = shop.checkout(customer, subscription_data={"trial_end": START + 3 * DAY})
    assert "Start trial" in read(session.url)
    press(session.url, card=VISA)
    [subscription] = subscriptions(shop, customer)
    assert (subscription.status, subscription.trial_end) == ("trialing", START + 3 * DAY)
    assert isinstance(subscription.latest_invoice, stripe.Invoice)
    assert (subscription.latest_invoice.total, subscription.latest_invoice.status) == (0, "paid")


@pytest.mark.parametrize("ahead", [3600, 2 * DAY - 1])
def test_trial_that_ends_within_two_days_is_refused(shop: Shop, ahead: int) -> None:
    with pytest.raises(stripe.InvalidRequestError, match="at least 2 days in the future") as error:
        shop.checkout(shop.customer().id, subscription_data={"trial_end": START + ahead})
    assert error.value.param == "subscription_data[trial_end]"


@pytest.mark.parametrize(
    ("updates", "message"),
    [({}, "requires a valid address"), ({"address": "auto"}, "Tax ID collection requires updating business name")],
)
def test_taxes_need_updates_of_the_customer(shop: Shop, updates: dict[str, str], message: str) -> None:
    tax: Any = {"automatic_tax": {"enabled": True}, "tax_id_collection": {"enabled": True}}
    customer = shop.customer().id
    with pytest.raises(stripe.InvalidRequestError, match=message):
        shop.checkout(customer, **tax, customer_update=updates)
    session = shop.checkout(customer, **tax, customer_update={"address": "auto", "name": "auto"})
    assert "Country" in read(session.url)
    press(session.url, card=VISA, country="FR")
    assert subscriptions(shop, customer)[0].automatic_tax.enabled
    address = shop.api.customers.retrieve(customer).address
    assert address is not None
    assert address.country == "FR"


def test_currency_is_chosen_among_those_of_the_price(shop: Shop) -> None:
    customer, price = shop.customer().id, shop.price(currency_options={"usd": {"unit_amount": 5900}})
    session = shop.checkout(customer, price, currency="usd")
    assert (session.currency, session.amount_total) == ("usd", 5900)
    press(session.url, card=VISA)
    [subscription] = subscriptions(shop, customer)
    assert (subscription.currency, subscription["items"].data[0].price.currency) == ("usd", "eur")
    with pytest.raises(stripe.InvalidRequestError, match="cannot combine currencies"):
        shop.checkout(customer, price, currency="eur")
    assert shop.checkout(customer, price).currency == "usd"
    shop.api.subscriptions.cancel(subscription.id)
    assert shop.checkout(customer, price).currency == "eur"
    with pytest.raises(stripe.InvalidRequestError, match="only supports `eur`"):
        shop.checkout(shop.customer().id, price, currency="chf")


def test_session_expires_after_a_day_or_when_that_is_said(shop: Shop, clock: Clock) -> None:
    session = shop.checkout(shop.customer().id)
    assert shop.api.checkout.sessions.expire(session.id).status == "expired"
    with pytest.raises(stripe.InvalidRequestError, match="has a status of `expired`"):
        shop.api.checkout.sessions.expire(session.id)
    assert press(session.url, card=VISA).status_code == 404
    later = shop.checkout(shop.customer().id)
    clock.now += DAY
    assert "This link has expired" in read(later.url)
    assert shop.types()[-1] == "checkout.session.expired"


def test_unknown_page_is_404(fake: FakeStripe) -> None:
    assert "Page not found" in read(f"{fake.base_url}/c/pay/cs_test_x")
