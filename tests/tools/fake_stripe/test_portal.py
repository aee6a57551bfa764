"""The billing portal and the page of an invoice."""

import re
from html import unescape
from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import START, Clock
from tests.tools.fake_stripe.shop import BACK, DAY, FAILING, Shop, press, read, renewal

VISA = "4242424242424242"
DECREASE: Any = {"schedule_at_period_end": {"conditions": [{"type": "decreasing_item_amount"}]}}
FEATURES: Any = {
    "invoice_history": {"enabled": True},
    "payment_method_update": {"enabled": True},
    "subscription_cancel": {"enabled": True, "mode": "at_period_end"},
}


def configure(shop: Shop, prices: tuple[stripe.Price, ...] = (), **update: Any) -> stripe.billing_portal.Configuration:
    """Configure the portal; with prices, people can change among them."""
    offered = [{"product": str(price.product), "prices": [price.id]} for price in prices]
    change = {
        "enabled": True,
        "default_allowed_updates": ["price"],
        "products": offered,
        "proration_behavior": "always_invoice",
        **update,
    }
    features: Any = {**FEATURES, **({"subscription_update": change} if prices else {})}
    return shop.api.billing_portal.configurations.create({"features": features})


def enter(shop: Shop, customer: Any, **more: Any) -> str:
    """Return the address of a session."""
    params: Any = {"customer": str(customer), "return_url": BACK, **more}
    return shop.api.billing_portal.sessions.create(params).url


class TestSessions:
    def test_portal_needs_a_configuration(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="No configuration provided"):
            enter(shop, shop.customer().id)

    def test_first_configuration_is_the_default(self, shop: Shop) -> None:
        first, second = configure(shop), configure(shop)
        assert (first.is_default, second.is_default) == (True, False)
        params: Any = {"customer": shop.customer().id}
        assert shop.api.billing_portal.sessions.create(params).configuration == first.id
        params |= {"configuration": second.id}
        assert shop.api.billing_portal.sessions.create(params).configuration == second.id

    def test_configuration_is_changed(self, shop: Shop) -> None:
        made = configure(shop)
        features: Any = {"subscription_cancel": {"enabled": False}}
        found = shop.api.billing_portal.configurations.update(made.id, {"features": features}).features
        assert (found.subscription_cancel.enabled, found.subscription_cancel.mode) == (False, "at_period_end")
        assert found.invoice_history.enabled
        assert found.subscription_update.proration_behavior == "none"

    def test_more_than_ten_products_are_refused(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="up to 10 products"):
            configure(shop, tuple(shop.price(plan=str(number)) for number in range(11)))

    @pytest.mark.parametrize(
        "flow",
        [
            {"type": "subscription_update", "subscription_update": {"subscription": "sub_x"}},
            {"type": "subscription_cancel"},
            {"type": "subscription_cancel", "subscription_cancel": {"subscription": "sub_x"}},
        ],
    )
    def test_step_that_is_not_possible_is_refused(self, shop: Shop, flow: dict[str, Any]) -> None:
        configure(shop)
        with pytest.raises(stripe.InvalidRequestError):
            enter(shop, shop.customer().id, flow_data=flow)


class TestCancellation:
    def test_cancellation_sets_the_moment_and_leaves_the_flag(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        url = enter(shop, subscription.customer)
        assert "Cancel subscription" in read(url)
        assert press(url, action="cancel", subscription=subscription.id).status_code == 303
        found = shop.again(subscription)
        assert (found.status, found.cancel_at_period_end) == ("active", False)
        assert found.cancel_at == found["items"].data[0].current_period_end
        other = enter(shop, shop.customer().id)
        assert "no such subscription" in press(other, action="renew", subscription=subscription.id).text
        assert "Don't cancel subscription" in unescape(read(url))
        press(url, action="renew", subscription=subscription.id)
        assert shop.again(subscription).cancel_at is None

    def test_session_for_one_step_shows_it_alone(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        flow = {"type": "subscription_cancel", "subscription_cancel": {"subscription": subscription.id}}
        url = enter(shop, subscription.customer, flow_data=flow)
        assert "Payment method" not in read(url)
        assert "not enabled" in press(url, action="update", subscription=subscription.id).text


class TestCard:
    def test_new_card_pays_what_is_past_due(self, shop: Shop, clock: Clock) -> None:
        configure(shop)
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), FAILING)
        clock.now = renewal(subscription)
        assert shop.again(subscription).status == "past_due"
        url = enter(shop, subscription.customer)
        assert "Past due" in read(url)
        assert "declined" in press(url, action="card", card="4000000000000002").text
        press(url, action="card", card=VISA)
        assert shop.again(subscription).status == "active"
        assert "Visa •••• 4242" in read(url)

    def test_card_with_3d_secure_is_saved_after_it(self, shop: Shop) -> None:
        configure(shop)
        url = enter(shop, shop.subscribe().customer)
        card = "4000002500003155"
        assert "Complete authentication" in press(url, action="card", card=card).text
        assert "unable to authenticate" in press(url, action="card", card=card, challenge="fail").text
        press(url, action="card", card=card, challenge="complete")
        assert "3155" in read(url)


class TestPlan:
    def test_upgrade_to_an_offered_price_is_billed_at_once(self, shop: Shop) -> None:
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, (team, business))
        subscription, other = shop.subscribe(team), shop.price(1)
        url = enter(shop, subscription.customer)
        assert "Business, 90.00 EUR per month" in read(url)
        assert "not offered" in press(url, action="update", subscription=subscription.id, price=other.id).text
        press(url, action="update", subscription=subscription.id, price=business.id)
        assert shop.again(subscription)["items"].data[0].price.id == business.id
        assert shop.last_invoice(subscription).total == 6000

    def test_change_ends_the_trial(self, shop: Shop) -> None:
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, (team, business))
        subscription = shop.subscribe(team, trial_end=START + 14 * DAY)
        press(enter(shop, subscription.customer), action="update", subscription=subscription.id, price=business.id)
        assert (shop.again(subscription).status, shop.last_invoice(subscription).total) == ("active", 9000)

    def test_downgrade_waits_for_the_end_of_the_period(self, shop: Shop, clock: Clock) -> None:
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, (team, business), **DECREASE)
        subscription = shop.subscribe(business)
        press(enter(shop, subscription.customer), action="update", subscription=subscription.id, price=team.id)
        assert shop.again(subscription)["items"].data[0].price.id == business.id
        clock.now = renewal(subscription)
        assert shop.again(subscription)["items"].data[0].price.id == team.id
        assert shop.last_invoice(subscription).total == 3000


def test_open_invoice_is_paid_on_its_page(shop: Shop, clock: Clock) -> None:
    configure(shop)
    subscription = shop.subscribe()
    shop.change_card(str(subscription.customer), FAILING)
    clock.now = renewal(subscription)
    found = re.search(r'href="([^"]+/i/[^"]+)"', read(enter(shop, subscription.customer)))
    assert found is not None
    url = found[1]
    assert "declined" in press(url, card="4000000000000341").text
    assert "number is invalid" in press(url, card="1").text
    assert "Complete authentication" in press(url, card="4000002500003155").text
    assert "unable to authenticate" in press(url, card="4000002500003155", challenge="fail").text
    assert "Paid" in press(url, card="4000002500003155", challenge="complete").text
    assert shop.again(subscription).status == "active"
