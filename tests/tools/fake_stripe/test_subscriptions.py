"""The life of a subscription: renewals, trials, failed payments, changes of plan, ends."""

from datetime import UTC, datetime
from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import START, Clock
from tests.tools.fake_stripe.shop import DAY, DRAFT, FAILING, Shop, period, renewal
from tools.fake_stripe import FakeStripe


class TestFirstInvoice:
    @pytest.mark.parametrize("card", [None, FAILING])
    def test_subscription_that_is_not_paid_is_refused(self, shop: Shop, fake: FakeStripe, card: str | None) -> None:
        with pytest.raises(stripe.CardError):
            shop.subscribe(card=card)
        assert fake.store.all("subscription") == []

    def test_trial_that_ended_before_its_begin_is_refused(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="in the future"):
            shop.subscribe(trial_end=START)

    def test_what_costs_nothing_needs_no_card(self, shop: Shop) -> None:
        assert shop.subscribe(shop.price(0), card=None).status == "active"


class TestRenewal:
    def test_period_renews_and_its_invoice_is_paid_an_hour_later(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        invoice = shop.last_invoice(subscription)
        assert (invoice.status, invoice.billing_reason, invoice.total) == ("paid", "subscription_create", 4900)
        clock.now = end = period(subscription)[1]
        assert period(shop.again(subscription))[0] == end
        assert shop.last_invoice(subscription).status == "draft"
        clock.now = end + DRAFT
        assert (shop.last_invoice(subscription).status, shop.again(subscription).status) == ("paid", "active")

    def test_periods_follow_the_calendar(self, shop: Shop, clock: Clock) -> None:
        clock.now = datetime(2027, 1, 31, 12, tzinfo=UTC).timestamp()
        subscription = shop.subscribe()
        ends = []
        for _ in range(4):
            clock.now = period(shop.again(subscription))[1]
            ends.append(datetime.fromtimestamp(clock.now, UTC).date().isoformat())
        assert ends == ["2027-02-28", "2027-03-31", "2027-04-30", "2027-05-31"]

    def test_long_time_brings_every_period(self, shop: Shop, fake: FakeStripe) -> None:
        subscription = shop.subscribe()
        fake.advance(366 * DAY)
        invoices = shop.api.invoices.list({"customer": str(subscription.customer), "limit": 100}).data
        assert (len(invoices), {each.status for each in invoices}) == (13, {"paid"})
        created = [each.created for each in invoices]
        assert created == sorted(created, reverse=True)

    @pytest.mark.parametrize(
        ("after_retries", "status"), [("cancel", "canceled"), ("unpaid", "unpaid"), ("past_due", "past_due")]
    )
    def test_failed_payment_is_repeated_and_given_up(
        self, shop: Shop, fake: FakeStripe, clock: Clock, after_retries: str, status: str
    ) -> None:
        fake.settings.after_retries = after_retries
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), FAILING)
        clock.now = renewal(subscription)
        assert shop.again(subscription).status == "past_due"
        invoice = shop.last_invoice(subscription)
        assert (invoice.status, invoice.attempt_count) == ("open", 1)
        assert invoice.next_payment_attempt == clock.now + 3 * DAY
        for days in (3, 5, 7):
            assert shop.again(subscription).status == "past_due"
            clock.now += days * DAY
        assert shop.again(subscription).status == status
        invoice = shop.last_invoice(subscription)
        assert (invoice.attempt_count, invoice.next_payment_attempt) == (4, None)

    def test_renewal_that_needs_3d_secure_is_paid_with_another_card(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), "pm_card_authenticationRequired")
        clock.now = renewal(subscription)
        assert shop.again(subscription).status == "past_due"
        assert "invoice.payment_action_required" in shop.types()
        shop.change_card(str(subscription.customer), "pm_card_visa")
        clock.now += 3 * DAY
        assert shop.again(subscription).status == "active"

    def test_unpaid_subscription_collects_drafts(self, shop: Shop, fake: FakeStripe) -> None:
        fake.settings.after_retries = "unpaid"
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), FAILING)
        fake.advance(70 * DAY)
        assert shop.again(subscription).status == "unpaid"
        assert shop.last_invoice(subscription).status == "draft"


@pytest.mark.parametrize(("card", "status"), [("pm_card_visa", "active"), (None, "past_due")])
def test_trial_becomes_paid_or_past_due(shop: Shop, clock: Clock, card: str | None, status: str) -> None:
    subscription = shop.subscribe(card=card, trial_end=START + 14 * DAY)
    assert (subscription.status, subscription.trial_end) == ("trialing", START + 14 * DAY)
    clock.now = START + 14 * DAY + DRAFT
    assert shop.again(subscription).status == status


class TestPlanChange:
    @pytest.fixture
    def subscription(self, shop: Shop, clock: Clock) -> stripe.Subscription:
        """Return a subscription in the middle of its period."""
        made = shop.subscribe(shop.price(4000))
        start, end = period(made)
        clock.now = start + (end - start) / 2
        return made

    def change(self, shop: Shop, subscription: stripe.Subscription, price: stripe.Price, proration: str) -> None:
        items: Any = [{"id": subscription["items"].data[0].id, "price": price.id}]
        behavior: Any = proration
        shop.api.subscriptions.update(subscription.id, {"items": items, "proration_behavior": behavior})

    def test_upgrade_is_billed_at_once_for_the_rest(self, shop: Shop, subscription: stripe.Subscription) -> None:
        self.change(shop, subscription, shop.price(6000), "always_invoice")
        invoice = shop.last_invoice(subscription)
        assert [line.amount for line in invoice.lines.data] == [-2000, 3000]
        assert (invoice.total, invoice.billing_reason, invoice.status) == (1000, "subscription_update", "paid")
        assert period(shop.again(subscription)) == period(subscription)

    def test_downgrade_is_credited_to_the_next_invoices(
        self, shop: Shop, clock: Clock, subscription: stripe.Subscription
    ) -> None:
        self.change(shop, subscription, shop.price(3000), "always_invoice")
        invoice = shop.last_invoice(subscription)
        assert (invoice.total, invoice.amount_due, invoice.status) == (-500, 0, "paid")
        clock.now = renewal(subscription)
        invoice = shop.last_invoice(subscription)
        assert (invoice.total, invoice.starting_balance, invoice.amount_paid) == (3000, -500, 2500)

    def test_change_without_proration_costs_nothing_until_the_next_invoice(
        self, shop: Shop, clock: Clock, subscription: stripe.Subscription
    ) -> None:
        self.change(shop, subscription, shop.price(6000), "none")
        assert shop.last_invoice(subscription).total == 4000
        clock.now = renewal(subscription)
        assert shop.last_invoice(subscription).total == 6000

    def test_other_interval_begins_a_new_period(
        self, shop: Shop, clock: Clock, subscription: stripe.Subscription
    ) -> None:
        self.change(shop, subscription, shop.price(30000, "year"), "always_invoice")
        assert shop.last_invoice(subscription).total == 30000 - 2000
        assert period(shop.again(subscription))[0] == int(clock.now)


class TestEnd:
    def test_subscription_is_cancelled_at_once(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        ended = shop.api.subscriptions.cancel(subscription.id)
        assert (ended.status, ended.ended_at) == ("canceled", clock.now)
        with pytest.raises(stripe.InvalidRequestError, match="No such subscription"):
            shop.api.subscriptions.cancel(subscription.id)
        with pytest.raises(stripe.InvalidRequestError, match="can only update its cancellation_details"):
            shop.api.subscriptions.update(subscription.id, {"cancel_at_period_end": True})

    def test_subscription_is_cancelled_at_the_end_of_its_period(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        clock.now = period(subscription)[1] - 1
        for ends in (True, False):
            shop.api.subscriptions.update(subscription.id, {"cancel_at_period_end": ends})
        clock.now = renewal(subscription)
        assert shop.again(subscription).status == "active"
        end = period(shop.again(subscription))[1]
        changed = shop.api.subscriptions.update(subscription.id, {"cancel_at_period_end": True})
        assert (changed.status, changed.cancel_at, changed.cancel_at_period_end) == ("active", end, True)
        clock.now = end - 1
        assert shop.again(subscription).status == "active"
        clock.now = end
        assert shop.again(subscription).status == "canceled"

    def test_ended_subscription_is_not_collected(self, shop: Shop, fake: FakeStripe) -> None:
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), FAILING)
        fake.advance(32 * DAY)
        shop.api.subscriptions.cancel(subscription.id)
        before = shop.last_invoice(subscription).attempt_count
        fake.advance(32 * DAY)
        assert shop.last_invoice(subscription).attempt_count == before


def test_ended_subscriptions_are_listed_only_if_wanted(shop: Shop) -> None:
    active, ended = shop.subscribe(), shop.subscribe()
    shop.api.subscriptions.cancel(ended.id)

    def listed(**params: Any) -> set[str]:
        found: Any = params
        return {each.id for each in shop.api.subscriptions.list(found).data}

    assert listed() == {active.id}
    assert listed(status="all") == {active.id, ended.id}
    assert listed(customer=str(ended.customer)) == set()
    assert [each.id for each in shop.api.invoices.list({"customer": str(active.customer)}).data] == [
        active.latest_invoice
    ]
