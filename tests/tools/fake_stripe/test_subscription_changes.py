"""Changes of a subscription: its card, its trial, its price, and what is billed for the rest of the period."""

from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import Clock
from tests.tools.fake_stripe.shop import DAY, DRAFT, FAILING, Shop, period, renewal
from tools.fake_stripe import FakeStripe


class TestUpdate:
    def test_card_collection_and_trial_settings_are_changed(self, shop: Shop) -> None:
        subscription = shop.subscribe()
        card = shop.api.payment_methods.attach("pm_card_mastercard", {"customer": str(subscription.customer)})
        ending: Any = {"end_behavior": {"missing_payment_method": "pause"}}
        changed = shop.api.subscriptions.update(
            subscription.id,
            {
                "default_payment_method": card.id,
                "pause_collection": {"behavior": "void"},
                "trial_settings": ending,
                "cancellation_details": {"comment": "Perhaps", "feedback": "unused"},
            },
        )
        assert changed.default_payment_method == card.id
        assert changed.pause_collection is not None
        assert (changed.pause_collection.behavior, changed.status) == ("void", "active")
        assert changed.cancellation_details is not None
        assert (changed.cancellation_details.comment, changed.cancel_at) == ("Perhaps", None)
        assert shop.api.subscriptions.update(subscription.id, {"pause_collection": ""}).pause_collection is None
        shop.api.payment_methods.detach(card.id)
        assert shop.again(subscription).default_payment_method is None


class TestPlanChange:
    def change(self, shop: Shop, subscription: stripe.Subscription, price: stripe.Price, proration: str) -> None:
        items: Any = [{"id": subscription["items"].data[0].id, "price": price.id}]
        behavior: Any = proration
        shop.api.subscriptions.update(subscription.id, {"items": items, "proration_behavior": behavior})

    def test_upgrade_is_billed_at_once_for_the_rest(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(shop.price(3000))
        start, end = period(subscription)
        clock.now = start + (end - start) / 2
        self.change(shop, subscription, shop.price(6000), "always_invoice")
        invoice = shop.last_invoice(subscription)
        assert [line.amount for line in invoice.lines.data] == [-1500, 3000]
        assert (invoice.total, invoice.billing_reason, invoice.status) == (1500, "subscription_update", "paid")
        assert period(shop.again(subscription)) == (start, end)

    def test_downgrade_is_credited_to_the_next_invoices(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(shop.price(6000))
        start, end = period(subscription)
        clock.now = start + (end - start) / 2
        self.change(shop, subscription, shop.price(3000), "always_invoice")
        invoice = shop.last_invoice(subscription)
        assert (invoice.total, invoice.amount_due, invoice.status) == (-1500, 0, "paid")
        clock.now = end + DRAFT
        invoice = shop.last_invoice(subscription)
        assert (invoice.total, invoice.starting_balance, invoice.amount_paid) == (3000, -1500, 1500)

    def test_change_waits_for_the_next_invoice_by_default(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(shop.price(3000))
        start, end = period(subscription)
        clock.now = start + (end - start) / 2
        self.change(shop, subscription, shop.price(6000), "create_prorations")
        assert len(shop.api.invoices.list({"subscription": subscription.id}).data) == 1
        clock.now = end + DRAFT
        assert shop.last_invoice(subscription).total == 6000 + 1500
        clock.now = renewal(shop.again(subscription))
        assert shop.last_invoice(subscription).total == 6000

    def test_change_without_proration_is_free_until_the_renewal(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(shop.price(3000))
        self.change(shop, subscription, shop.price(6000), "none")
        assert shop.last_invoice(subscription).total == 3000
        clock.now = renewal(subscription)
        assert shop.last_invoice(subscription).total == 6000

    def test_other_interval_begins_a_new_period(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(shop.price(3000))
        start, end = period(subscription)
        clock.now = start + (end - start) / 2
        self.change(shop, subscription, shop.price(30000, "year"), "always_invoice")
        assert shop.last_invoice(subscription).total == 30000 - 1500
        assert period(shop.again(subscription))[0] == int(clock.now)

    def test_trial_changes_for_nothing(self, shop: Shop) -> None:
        subscription = shop.subscribe(shop.price(3000), trial_period_days=14)
        self.change(shop, subscription, shop.price(30000, "year"), "always_invoice")
        assert shop.again(subscription).status == "trialing"
        assert shop.last_invoice(subscription).total == 0

    def test_incomplete_subscription_is_not_changed(self, shop: Shop) -> None:
        subscription = shop.subscribe(card=FAILING)
        with pytest.raises(stripe.InvalidRequestError, match="`incomplete` state"):
            self.change(shop, subscription, shop.price(6000), "always_invoice")
        assert shop.api.subscriptions.update(subscription.id, {"description": "Ours"}).description == "Ours"

    def test_unpaid_subscription_gets_a_draft(self, shop: Shop, fake: FakeStripe) -> None:
        fake.settings.after_retries = "unpaid"
        subscription = shop.subscribe(shop.price(3000))
        shop.change_card(str(subscription.customer), FAILING)
        fake.advance(50 * DAY)
        self.change(shop, subscription, shop.price(6000), "always_invoice")
        assert shop.again(subscription).status == "unpaid"
        assert shop.last_invoice(subscription).status == "draft"

    def test_refused_change_changes_nothing(self, shop: Shop) -> None:
        subscription, year = shop.subscribe(), shop.price(30000, "year")
        items: Any = [{"id": subscription["items"].data[0].id, "quantity": 3}, {"price": year.id}]
        with pytest.raises(stripe.InvalidRequestError, match="same recurring interval"):
            shop.api.subscriptions.update(subscription.id, {"items": items, "metadata": {"a": "b"}})
        assert shop.again(subscription)["items"].data[0].quantity == 1
        assert shop.again(subscription).metadata.to_dict() == {}

    def test_items_are_added_and_deleted(self, shop: Shop) -> None:
        subscription, more = shop.subscribe(), shop.price(1000, plan="extra")
        added: Any = [{"price": more.id, "quantity": 2}]
        changed = shop.api.subscriptions.update(subscription.id, {"items": added})
        assert [each.quantity for each in changed["items"].data] == [1, 2]
        deleted: Any = [{"id": changed["items"].data[0].id, "deleted": True}]
        left = shop.api.subscriptions.update(subscription.id, {"items": deleted})
        assert [each.price.id for each in left["items"].data] == [more.id]
        gone: Any = [{"id": "si_x", "quantity": 2}]
        with pytest.raises(stripe.InvalidRequestError, match="No such subscription item"):
            shop.api.subscriptions.update(subscription.id, {"items": gone})
