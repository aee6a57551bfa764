"""The life of a subscription: renewals, trials, failed payments, changes of plan, ends."""

from datetime import UTC, datetime

import pytest
import stripe

from tests.tools.fake_stripe.conftest import Clock
from tests.tools.fake_stripe.shop import DAY, DRAFT, Shop, period, renewal
from tools.fake_stripe import FakeStripe
from tools.fake_stripe.subscriptions import change_price


class TestRenewal:
    def test_period_renews_and_its_invoice_is_paid_an_hour_later(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        invoice = shop.last_invoice(subscription)
        assert (invoice.status, invoice.total) == ("paid", 4900)
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

    @pytest.mark.parametrize(
        ("after_retries", "status"), [("cancel", "canceled"), ("unpaid", "unpaid"), ("past_due", "past_due")]
    )
    def test_failed_payment_is_repeated_and_given_up(
        self, shop: Shop, fake: FakeStripe, clock: Clock, after_retries: str, status: str
    ) -> None:
        fake.settings.after_retries = after_retries
        subscription = shop.subscribe_failing()
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


class TestPlanChange:
    @pytest.fixture
    def subscription(self, shop: Shop, clock: Clock) -> stripe.Subscription:
        """Return a subscription in the middle of its period."""
        made = shop.subscribe(shop.price(4000))
        clock.now = sum(period(made)) / 2
        return made

    def change(self, shop: Shop, subscription: stripe.Subscription, price: stripe.Price, proration: str) -> None:
        change_price(shop.fake, shop.record("subscription", subscription.id), shop.record("price", price.id), proration)

    def test_upgrade_is_billed_at_once_for_the_rest(self, shop: Shop, subscription: stripe.Subscription) -> None:
        self.change(shop, subscription, shop.price(6000), "always_invoice")
        invoice = shop.last_invoice(subscription)
        assert (invoice.total, invoice.status) == (3000 - 2000, "paid")
        assert period(shop.again(subscription)) == period(subscription)

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
    def test_subscription_is_cancelled_at_once_and_not_collected(self, shop: Shop, fake: FakeStripe) -> None:
        subscription = shop.subscribe_failing()
        fake.advance(32 * DAY)
        assert shop.api.subscriptions.cancel(subscription.id).status == "canceled"
        with pytest.raises(stripe.InvalidRequestError, match="No such subscription"):
            shop.api.subscriptions.cancel(subscription.id)
        before = shop.last_invoice(subscription).attempt_count
        fake.advance(32 * DAY)
        assert shop.last_invoice(subscription).attempt_count == before

    def test_deleted_customer_has_no_live_subscription(self, shop: Shop, fake: FakeStripe) -> None:
        subscription = shop.subscribe()
        assert shop.api.customers.delete(str(subscription.customer)).deleted
        assert shop.again(subscription).status == "canceled"
        with pytest.raises(stripe.InvalidRequestError, match="No such customer"):
            shop.checkout(str(subscription.customer))
