"""Checkout: from a customer to a subscription that is paid."""

import requests
import stripe

from tools.fake_stripe import FakeStripe


def test_checkout_paid_by_card_makes_an_active_subscription(api: stripe.V1Services, fake: FakeStripe) -> None:
    customer = api.customers.create({"name": "Acme"})
    product = api.products.create({"name": "Team"})
    price = api.prices.create(
        {"product": product.id, "currency": "eur", "unit_amount": 4900, "recurring": {"interval": "month"}}
    )
    session = api.checkout.sessions.create(
        {
            "mode": "subscription",
            "customer": customer.id,
            "line_items": [{"price": price.id, "quantity": 1}],
            "success_url": "http://127.0.0.1:9/billing?checkout={CHECKOUT_SESSION_ID}",
        }
    )
    assert session.url
    done = requests.post(session.url, {"card": "4242424242424242"}, allow_redirects=False, timeout=5)
    assert done.headers["Location"].endswith(session.id)
    found = api.subscriptions.list({"customer": customer.id, "expand": ["data.latest_invoice"]}).data
    assert [each.status for each in found] == ["active"]
