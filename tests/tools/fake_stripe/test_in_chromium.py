"""The hosted pages in a real browser, by keyboard alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.browser import CHROMIUM, Browser, chromium
from tests.tools.fake_stripe.shop import Shop
from tools.fake_stripe import Handle

pytestmark = [pytest.mark.check, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]
FEATURES: Any = {
    "invoice_history": {"enabled": True},
    "payment_method_update": {"enabled": True},
    "subscription_cancel": {"enabled": True, "mode": "at_period_end"},
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


def pay_with(browser: Browser, card: str, button: str) -> None:
    """Write a card into the page, and press its button."""
    browser.tab_to("Card number")
    browser.write(card)
    browser.tab_to(button)
    browser.press_and_go()


def press(browser: Browser, button: str) -> None:
    """Reach a button with the Tab key, and press it."""
    browser.tab_to(button)
    browser.press_and_go()


def test_person_pays_after_a_declined_card_and_3d_secure(browser: Browser, shop: Shop, handle: Handle) -> None:
    customer = shop.customer().id
    session = shop.checkout(customer, success_url=f"{handle.base_url}/back?{{CHECKOUT_SESSION_ID}}")
    browser.open(str(session.url))
    pay_with(browser, "4000000000000002", "Subscribe")
    assert "Your card was declined." in browser.text
    pay_with(browser, "4000002500003155", "Subscribe")
    press(browser, "Fail authentication")
    assert "unable to authenticate" in browser.text
    pay_with(browser, "4000002500003155", "Subscribe")
    press(browser, "Complete authentication")
    assert browser.path == f"/back?{session.id}"
    assert [each.status for each in shop.api.subscriptions.list({"customer": customer}).data] == ["active"]


def test_person_cancels_renews_and_changes_the_card(browser: Browser, shop: Shop) -> None:
    shop.api.billing_portal.configurations.create({"features": FEATURES})
    subscription = shop.subscribe()
    portal = shop.api.billing_portal.sessions.create({"customer": str(subscription.customer)})
    browser.open(portal.url)
    press(browser, "Cancel subscription")
    assert shop.again(subscription).cancel_at is not None
    press(browser, "Don't cancel subscription")
    assert shop.again(subscription).cancel_at is None
    pay_with(browser, "5555555555554444", "Save card")
    assert "Mastercard •••• 4444" in browser.text
    browser.tab_to("49.00 EUR, paid")
    browser.press_and_go()
    assert browser.title.startswith("Invoice ")
