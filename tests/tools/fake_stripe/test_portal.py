"""The billing portal and the page of an invoice."""

import re
from html import unescape
from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import Clock
from tests.tools.fake_stripe.shop import BACK, DAY, Shop, press, read

VISA = "4242424242424242"
DRAFT = 3600
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


def enter(shop: Shop, customer: str, **more: Any) -> str:
    """Return the address of a session."""
    params: Any = {"customer": customer, "return_url": BACK, **more}
    return shop.api.billing_portal.sessions.create(params).url


class TestSessions:
    def test_portal_needs_a_configuration(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="No configuration provided") as error:
            shop.api.billing_portal.sessions.create({"customer": shop.customer().id})
        assert error.value.http_status == 400

    def test_first_configuration_is_the_default(self, shop: Shop) -> None:
        first, second = configure(shop), configure(shop)
        assert (first.is_default, second.is_default) == (True, False)
        session = shop.api.billing_portal.sessions.create({"customer": shop.customer().id})
        assert session.configuration == first.id
        assert [each.id for each in shop.api.billing_portal.configurations.list({"is_default": True}).data] == [
            first.id
        ]

    def test_configuration_is_changed(self, shop: Shop) -> None:
        made = configure(shop)
        features: Any = {"subscription_cancel": {"cancellation_reason": {"enabled": True, "options": ["other"]}}}
        shop.api.billing_portal.configurations.update(
            made.id, {"active": False, "features": features, "business_profile": {"headline": "Freezes"}}
        )
        found = shop.api.billing_portal.configurations.retrieve(made.id)
        assert found.features.subscription_cancel.enabled
        assert found.features.subscription_cancel.cancellation_reason.options == ["other"]
        with pytest.raises(stripe.InvalidRequestError, match="not active"):
            enter(shop, shop.customer().id)

    def test_change_of_plan_is_free_unless_the_proration_is_set(self, shop: Shop) -> None:
        price = shop.price()
        change: Any = {
            "enabled": True,
            "default_allowed_updates": ["price"],
            "products": [{"product": str(price.product), "prices": [price.id]}],
        }
        made = shop.api.billing_portal.configurations.create({"features": {"subscription_update": change}})
        assert made.features.subscription_update.proration_behavior == "none"

    def test_more_than_ten_products_are_refused(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="up to 10 products"):
            configure(shop, tuple(shop.price(plan=str(number)) for number in range(11)))
        assert shop.api.billing_portal.configurations.list().data == []


class TestCancellation:
    def test_cancellation_sets_the_moment_and_leaves_the_flag(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        url = enter(shop, str(subscription.customer))
        assert "Cancel subscription" in read(url)
        assert press(url, action="cancel", subscription=subscription.id).status_code == 303
        found = shop.again(subscription)
        assert (found.status, found.cancel_at_period_end) == ("active", False)
        assert found.cancel_at == found["items"].data[0].current_period_end
        assert found.cancellation_details is not None
        assert found.cancellation_details.reason == "cancellation_requested"
        assert "Don't cancel subscription" in unescape(read(url))
        press(url, action="renew", subscription=subscription.id)
        assert shop.again(subscription).cancel_at is None

    def test_cancellation_can_be_immediate(self, shop: Shop) -> None:
        cancel: Any = {"subscription_cancel": {"enabled": True, "mode": "immediately"}}
        shop.api.billing_portal.configurations.create({"features": cancel})
        subscription = shop.subscribe()
        press(enter(shop, str(subscription.customer)), action="cancel", subscription=subscription.id)
        assert shop.again(subscription).status == "canceled"

    def test_session_for_one_step_shows_it_alone_and_leads_back(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        flow = {
            "type": "subscription_cancel",
            "subscription_cancel": {"subscription": subscription.id},
            "after_completion": {"type": "redirect", "redirect": {"return_url": f"{BACK}?done"}},
        }
        url = enter(shop, str(subscription.customer), flow_data=flow)
        assert "Payment method" not in read(url)
        assert "not enabled" in press(url, action="update", subscription=subscription.id).text
        answer = press(url, action="cancel", subscription=subscription.id)
        assert answer.headers["Location"] == f"{BACK}?done"

    def test_step_can_end_on_a_page_of_its_own(self, shop: Shop) -> None:
        configure(shop)
        flow = {
            "type": "payment_method_update",
            "after_completion": {"type": "hosted_confirmation", "hosted_confirmation": {"custom_message": "Thanks!"}},
        }
        url = enter(shop, shop.customer().id, flow_data=flow)
        assert "Thanks!" in press(url, action="card", card=VISA).text

    def test_step_that_is_not_enabled_is_refused(self, shop: Shop) -> None:
        shop.api.billing_portal.configurations.create({"features": {"invoice_history": {"enabled": True}}})
        with pytest.raises(stripe.InvalidRequestError, match="disabled in your portal configuration"):
            enter(shop, shop.customer().id, flow_data={"type": "payment_method_update"})

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

    def test_subscription_of_another_customer_is_not_cancelled(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        url = enter(shop, shop.customer().id)
        assert "no such subscription" in press(url, action="cancel", subscription=subscription.id).text
        assert shop.again(subscription).cancel_at is None


class TestCard:
    def test_new_card_pays_what_is_past_due(self, shop: Shop, clock: Clock) -> None:
        configure(shop)
        subscription = shop.subscribe()
        customer = str(subscription.customer)
        shop.change_card(customer, "pm_card_chargeCustomerFail")
        clock.now = subscription["items"].data[0].current_period_end + DRAFT
        assert shop.again(subscription).status == "past_due"
        url = enter(shop, customer)
        assert "Past due" in read(url)
        assert "declined" in press(url, action="card", card="4000000000000002").text
        press(url, action="card", card=VISA)
        assert shop.again(subscription).status == "active"
        assert "Visa •••• 4242" in read(url)

    def test_card_with_3d_secure_is_saved_after_it(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        url = enter(shop, str(subscription.customer))
        card = "4000002500003155"
        assert "Complete authentication" in press(url, action="card", card=card).text
        assert "unable to authenticate" in press(url, action="card", card=card, challenge="fail").text
        press(url, action="card", card=card, challenge="complete")
        assert "3155" in read(url)


class TestPlan:
    def test_upgrade_is_billed_at_once(self, shop: Shop) -> None:
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, (team, business))
        subscription = shop.subscribe(team)
        url = enter(shop, str(subscription.customer))
        assert "Business, 90.00 EUR per month" in read(url)
        press(url, action="update", subscription=subscription.id, price=business.id)
        assert shop.again(subscription)["items"].data[0].price.id == business.id
        assert shop.last_invoice(subscription).total == 6000

    @pytest.mark.parametrize(("behavior", "status"), [(None, "active"), ("continue_trial", "trialing")])
    def test_change_ends_the_trial_unless_it_may_continue(self, shop: Shop, behavior: str | None, status: str) -> None:
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, (team, business), **({"trial_update_behavior": behavior} if behavior else {}))
        subscription = shop.subscribe(team, trial_period_days=14)
        press(enter(shop, str(subscription.customer)), action="update", subscription=subscription.id, price=business.id)
        assert shop.again(subscription).status == status
        assert shop.last_invoice(subscription).total == (9000 if status == "active" else 0)

    def test_downgrade_waits_for_the_end_of_the_period(self, shop: Shop, clock: Clock) -> None:
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, (team, business), schedule_at_period_end={"conditions": [{"type": "decreasing_item_amount"}]})
        subscription = shop.subscribe(business)
        press(enter(shop, str(subscription.customer)), action="update", subscription=subscription.id, price=team.id)
        waiting = shop.again(subscription)
        assert waiting["items"].data[0].price.id == business.id
        schedule = shop.api.subscription_schedules.retrieve(str(waiting.schedule))
        assert [phase["items"][0].price for phase in schedule.phases] == [business.id, team.id]
        clock.now = waiting["items"].data[0].current_period_end + DRAFT
        changed = shop.again(subscription)
        assert (changed["items"].data[0].price.id, changed.schedule) == (team.id, None)
        assert shop.last_invoice(subscription).total == 3000

    def test_scheduled_downgrade_is_released(self, shop: Shop, clock: Clock) -> None:
        team, business = shop.price(3000), shop.price(9000, plan="business")
        configure(shop, (team, business), schedule_at_period_end={"conditions": [{"type": "decreasing_item_amount"}]})
        subscription = shop.subscribe(business)
        press(enter(shop, str(subscription.customer)), action="update", subscription=subscription.id, price=team.id)
        [schedule] = shop.api.subscription_schedules.list({"customer": str(subscription.customer)}).data
        assert shop.api.subscription_schedules.release(schedule.id).status == "released"
        with pytest.raises(stripe.InvalidRequestError, match="can only release"):
            shop.api.subscription_schedules.release(schedule.id)
        clock.now += 32 * DAY
        assert shop.again(subscription)["items"].data[0].price.id == business.id

    def test_second_downgrade_replaces_the_first(self, shop: Shop) -> None:
        prices = tuple(shop.price(amount, plan=f"plan-{amount}") for amount in (1000, 2000, 3000))
        configure(shop, prices, schedule_at_period_end={"conditions": [{"type": "decreasing_item_amount"}]})
        subscription = shop.subscribe(prices[2])
        url = enter(shop, str(subscription.customer))
        for price in prices[:2]:
            press(url, action="update", subscription=subscription.id, price=price.id)
        schedules = shop.api.subscription_schedules.list().data
        assert [each.status for each in schedules] == ["active", "released"]
        assert schedules[0].phases[1]["items"][0].price == prices[1].id

    def test_price_that_is_not_offered_is_refused(self, shop: Shop) -> None:
        team, other = shop.price(3000), shop.price(1)
        configure(shop, (team,))
        subscription = shop.subscribe(team)
        url = enter(shop, str(subscription.customer))
        assert "not offered" in press(url, action="update", subscription=subscription.id, price=other.id).text


class TestInvoicePage:
    def test_portal_leads_to_invoices(self, shop: Shop) -> None:
        configure(shop)
        subscription = shop.subscribe()
        found = re.search(r'href="([^"]+/i/[^"]+)"', read(enter(shop, str(subscription.customer))))
        assert found is not None
        assert "Amount due: 0.00 EUR" in read(found[1])
        assert read(f"{found[1]}/pdf").startswith("%PDF")

    def test_open_invoice_is_paid_on_its_page(self, shop: Shop) -> None:
        subscription = shop.subscribe(card="pm_card_chargeCustomerFail")
        url = shop.last_invoice(subscription).hosted_invoice_url
        assert "declined" in press(url, card="4000000000000341").text
        assert "number is invalid" in press(url, card="1").text
        assert "Complete authentication" in press(url, card="4000002500003155").text
        assert "unable to authenticate" in press(url, card="4000002500003155", challenge="fail").text
        assert "Paid" in press(url, card="4000002500003155", challenge="complete").text
        assert shop.again(subscription).status == "active"
