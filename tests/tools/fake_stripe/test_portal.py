"""The billing portal and the page of an invoice."""

import re
from html import unescape
from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import START, Clock
from tests.tools.fake_stripe.shop import BACK, CHALLENGED, DAY, DECLINED, FAILING, VISA, Shop, press, read, renewal

Plans = tuple[stripe.Price, stripe.Price]
FEATURES: Any = {
    "invoice_history": {"enabled": True},
    "payment_method_update": {"enabled": True},
    "subscription_cancel": {"enabled": True, "mode": "at_period_end"},
}


def configure(shop: Shop, *prices: stripe.Price) -> stripe.billing_portal.Configuration:
    """Configure the portal as the service does; with prices, people can change among them."""
    change = {
        "enabled": True,
        "default_allowed_updates": ["price"],
        "products": [{"product": str(price.product), "prices": [price.id]} for price in prices],
        "proration_behavior": "always_invoice",
        "schedule_at_period_end": {"conditions": [{"type": "decreasing_item_amount"}]},
    }
    features: Any = {**FEATURES, **({"subscription_update": change} if prices else {})}
    return shop.api.billing_portal.configurations.create({"features": features})


def enter(shop: Shop, customer: Any, **more: Any) -> stripe.billing_portal.Session:
    """Open a session."""
    params: Any = {"customer": str(customer), "return_url": BACK, **more}
    return shop.api.billing_portal.sessions.create(params)


def test_session_has_the_first_configuration_or_the_one_it_names(shop: Shop) -> None:
    first, second = configure(shop), configure(shop)
    customer = shop.customer()
    assert enter(shop, customer).configuration == first.id
    assert enter(shop, customer, configuration=second.id).configuration == second.id


class TestCancellation:
    def test_cancellation_sets_the_moment_and_leaves_the_flag(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        url = enter(shop, subscription.customer).url
        assert "Cancel subscription" in read(url)
        assert press(url, action="cancel", subscription=subscription.id).status_code == 303
        found = shop.again(subscription)
        assert (found.status, found.cancel_at_period_end) == ("active", False)
        assert found.cancel_at == found["items"].data[0].current_period_end
        other = enter(shop, shop.customer()).url
        assert "no such subscription" in press(other, action="renew", subscription=subscription.id).text
        assert "Don't cancel subscription" in unescape(read(url))
        press(url, action="renew", subscription=subscription.id)
        assert shop.again(subscription).cancel_at is None

    def test_session_for_one_step_shows_it_alone(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        flow = {"type": "subscription_cancel", "subscription_cancel": {"subscription": subscription.id}}
        url = enter(shop, subscription.customer, flow_data=flow).url
        assert "Payment method" not in read(url)
        assert "not enabled" in press(url, action="update", subscription=subscription.id).text


def test_new_card_pays_what_is_past_due(shop: Shop, clock: Clock) -> None:
    configure(shop)
    subscription = shop.subscribe_failing()
    clock.now = renewal(subscription)
    assert shop.again(subscription).status == "past_due"
    url = enter(shop, subscription.customer).url
    assert "Past due" in read(url)
    assert "declined" in press(url, action="card", card=DECLINED).text
    press(url, action="card", card=VISA)
    assert shop.again(subscription).status == "active"
    assert "Visa •••• 4242" in read(url)


class TestPlan:
    @pytest.fixture
    def plans(self, shop: Shop) -> Plans:
        """Offer a price of the plan Team, and a higher one of Business."""
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, team, business)
        return team, business

    def test_upgrade_to_an_offered_price_is_billed_at_once(self, shop: Shop, plans: Plans) -> None:
        team, business = plans
        subscription, other = shop.subscribe(team), shop.price(1)
        url = enter(shop, subscription.customer).url
        assert "Business, 90.00 EUR per month" in read(url)
        assert "not offered" in press(url, action="update", subscription=subscription.id, price=other.id).text
        press(url, action="update", subscription=subscription.id, price=business.id)
        assert shop.again(subscription)["items"].data[0].price.id == business.id
        assert shop.last_invoice(subscription).total == 6000

    def test_change_ends_the_trial(self, shop: Shop, plans: Plans) -> None:
        subscription = shop.subscribe(plans[0], trial_end=START + 14 * DAY)
        press(enter(shop, subscription.customer).url, action="update", subscription=subscription.id, price=plans[1].id)
        assert (shop.again(subscription).status, shop.last_invoice(subscription).total) == ("active", 9000)

    def test_downgrade_waits_for_the_end_of_the_period(self, shop: Shop, clock: Clock, plans: Plans) -> None:
        team, business = plans
        subscription = shop.subscribe(business)
        press(enter(shop, subscription.customer).url, action="update", subscription=subscription.id, price=team.id)
        assert shop.again(subscription)["items"].data[0].price.id == business.id
        clock.now = renewal(subscription)
        assert shop.again(subscription)["items"].data[0].price.id == team.id
        assert shop.last_invoice(subscription).total == 3000


def test_open_invoice_is_paid_on_its_page(shop: Shop, clock: Clock) -> None:
    configure(shop)
    subscription = shop.subscribe_failing()
    clock.now = renewal(subscription)
    url, *_others = re.findall(r'href="([^"]+/i/[^"]+)"', read(enter(shop, subscription.customer).url))
    assert "Team: 49.00 EUR" in read(url)
    assert "declined" in press(url, card=FAILING).text
    assert "Complete authentication" in press(url, card=CHALLENGED).text
    assert "Paid" in press(url, card=CHALLENGED, challenge="complete").text
    assert shop.again(subscription).status == "active"
