"""What the tests sell, and to whom."""

from typing import Any

import requests
import stripe

from tools.fake_stripe import FakeStripe

DAY = 86_400
BACK = "http://127.0.0.1:9/billing"
RETURN = f"{BACK}?checkout={{CHECKOUT_SESSION_ID}}"
FAILING = "pm_card_chargeCustomerFail"
"""A card that is accepted, and then pays nothing."""
DRAFT = 3600
"""Seconds for which the invoice of a period can still be changed."""


class Shop:
    """An account with a few prices; its methods are what people and the service do."""

    def __init__(self, api: stripe.V1Services, fake: FakeStripe) -> None:
        self.api, self.fake = api, fake

    def price(self, amount: int = 4900, interval: str = "month", plan: str = "team", **more: Any) -> stripe.Price:
        """Add a price of a product of its own."""
        params: Any = {
            "product_data": {"name": plan.title(), "metadata": {"plan": plan}},
            "currency": "eur",
            "unit_amount": amount,
            "recurring": {"interval": interval},
            **more,
        }
        return self.api.prices.create(params)

    def customer(self, card: str | None = None, **more: Any) -> stripe.Customer:
        """Add a customer, with a card that is charged by default."""
        params: Any = {"name": "Acme", **more}
        made = self.api.customers.create(params)
        if card:
            self.change_card(made.id, card)
        return made

    def subscribe(
        self, price: stripe.Price | None = None, card: str | None = "pm_card_visa", **more: Any
    ) -> stripe.Subscription:
        """Subscribe a new customer."""
        price = price or self.price()
        params: Any = {"customer": self.customer(card).id, "items": [{"price": price.id}], **more}
        return self.api.subscriptions.create(params)

    def checkout(self, customer: str, price: stripe.Price | None = None, **more: Any) -> stripe.checkout.Session:
        """Open a session."""
        price = price or self.price()
        params: Any = {
            "mode": "subscription",
            "customer": customer,
            "line_items": [{"price": price.id, "quantity": 1}],
            "success_url": RETURN,
            "cancel_url": BACK,
            **more,
        }
        return self.api.checkout.sessions.create(params)

    def again(self, subscription: stripe.Subscription) -> stripe.Subscription:
        """Return a subscription as it is now, with its last invoice."""
        return self.api.subscriptions.retrieve(subscription.id, {"expand": ["latest_invoice"]})

    def last_invoice(self, subscription: stripe.Subscription) -> stripe.Invoice:
        """Return the last invoice of a subscription."""
        invoice = self.again(subscription).latest_invoice
        assert isinstance(invoice, stripe.Invoice)
        return invoice

    def change_card(self, customer: str, card: str) -> None:
        """Give a customer another card, which is charged by default."""
        made = self.api.payment_methods.attach(card, {"customer": customer})
        self.api.customers.update(customer, {"invoice_settings": {"default_payment_method": made.id}})

    def types(self) -> list[str]:
        """Return the types of all events, the oldest first."""
        return [event["type"] for event in reversed(self.fake.store.all("event"))]


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
