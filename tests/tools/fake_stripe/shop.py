"""What the tests sell, and to whom."""

from typing import Any

import requests
import stripe

from tools.fake_stripe import FakeStripe
from tools.fake_stripe.cards import CARDS
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import change_card

DAY = 86_400
BACK = "http://127.0.0.1:9/billing"
RETURN = f"{BACK}?checkout={{CHECKOUT_SESSION_ID}}"
VISA, DECLINED, CHALLENGED = "4242424242424242", "4000000000000002", "4000002500003155"
FAILING = "4000000000000341"
"""A card that is accepted, and then pays nothing."""
DRAFT = 3600
"""Seconds for which the invoice of a period can still be changed."""


class Shop:
    """An account with a few prices; its methods are what people and the service do."""

    def __init__(self, api: stripe.V1Services, fake: FakeStripe) -> None:
        self.api, self.fake = api, fake

    def price(self, amount: int = 4900, interval: str = "month", plan: str = "team", **more: Any) -> stripe.Price:
        """Add a price of a product of its own."""
        product = self.api.products.create({"name": plan.title(), "metadata": {"plan": plan}})
        params: Any = {
            "product": product.id,
            "currency": "eur",
            "unit_amount": amount,
            "recurring": {"interval": interval},
            **more,
        }
        return self.api.prices.create(params)

    def customer(self) -> str:
        """Add a customer, and return its id."""
        return self.api.customers.create({"metadata": {"organization": "org_1"}}).id

    def checkout(self, customer: str, price: stripe.Price | None = None, **more: Any) -> stripe.checkout.Session:
        """Open a session."""
        price = price or self.price()
        params: Any = {
            "mode": "subscription",
            "customer": customer,
            "currency": "eur",
            "line_items": [{"price": price.id, "quantity": 1}],
            "subscription_data": {"metadata": {"organization": "org_1"}},
            "success_url": RETURN,
            "cancel_url": BACK,
            **more,
        }
        return self.api.checkout.sessions.create(params)

    def subscribe(self, price: stripe.Price | None = None, **data: Any) -> stripe.Subscription:
        """Subscribe a new customer, whose card pays."""
        customer = self.customer()
        session = self.checkout(customer, price, subscription_data={"metadata": {"organization": "org_1"}, **data})
        press(session.url, card=VISA)
        return self.subscriptions(customer)[0]

    def subscribe_failing(self) -> stripe.Subscription:
        """Subscribe a new customer, whose next card pays nothing."""
        subscription = self.subscribe()
        change_card(self.fake, self.record("customer", subscription.customer), CARDS[FAILING])
        return subscription

    def subscriptions(self, customer: Any) -> list[stripe.Subscription]:
        """Return a customer's subscriptions as the service reads them."""
        params: Any = {"customer": str(customer), "status": "all", "expand": ["data.latest_invoice"]}
        return self.api.subscriptions.list(params).data

    def again(self, subscription: stripe.Subscription) -> stripe.Subscription:
        """Return a customer's only subscription as it is now, with its last invoice."""
        [found] = self.subscriptions(subscription.customer)
        return found

    def last_invoice(self, subscription: stripe.Subscription) -> stripe.Invoice:
        """Return the last invoice of a subscription."""
        invoice = self.again(subscription).latest_invoice
        assert isinstance(invoice, stripe.Invoice)
        return invoice

    def record(self, kind: str, identifier: Any) -> Json:
        """Return an object as it is stored."""
        return self.fake.store.get(kind, str(identifier))


def press(url: str | None, **sent: str) -> requests.Response:
    """Send the form of a hosted page as a browser does; a redirection is not followed."""
    assert url is not None
    return requests.post(url, sent, allow_redirects=False, timeout=5)


def read(url: str | None) -> str:
    """Return a hosted page."""
    assert url is not None
    return requests.get(url, timeout=5).text


def period(subscription: stripe.Subscription) -> tuple[int, int]:
    """Return begin and end of the current period, which stand at the item."""
    item = subscription["items"].data[0]
    return item.current_period_start, item.current_period_end


def renewal(subscription: stripe.Subscription) -> int:
    """Return when the invoice of the next period is collected."""
    return period(subscription)[1] + DRAFT
