"""The life of a subscription: renewals, trials, failed payments, changes, ends."""

from datetime import UTC, datetime
from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.conftest import START, Clock
from tests.tools.fake_stripe.shop import DAY, DRAFT, FAILING, Shop, period, renewal
from tools.fake_stripe import FakeStripe


class TestFirstInvoice:
    def test_card_that_pays_makes_the_subscription_active(self, shop: Shop) -> None:
        subscription = shop.subscribe()
        assert subscription.status == "active"
        invoice = shop.last_invoice(subscription)
        assert (invoice.status, invoice.billing_reason, invoice.total) == ("paid", "subscription_create", 4900)
        assert invoice.parent is not None
        assert invoice.parent.subscription_details is not None
        assert invoice.parent.subscription_details.subscription == subscription.id

    def test_card_that_fails_leaves_it_incomplete_for_23_hours(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(card=FAILING)
        assert subscription.status == "incomplete"
        clock.now += 23 * 3600 - 1
        assert shop.again(subscription).status == "incomplete"
        clock.now += 1
        assert shop.again(subscription).status == "incomplete_expired"
        assert shop.last_invoice(subscription).status == "void"

    def test_customer_without_a_card_is_refused(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="no attached payment source") as error:
            shop.subscribe(card=None)
        assert error.value.code == "resource_missing"
        assert shop.api.subscriptions.list({"status": "all"}).data == []

    def test_payment_can_be_required_or_left_for_later(self, shop: Shop) -> None:
        with pytest.raises(stripe.CardError):
            shop.subscribe(card=FAILING, payment_behavior="error_if_incomplete")
        assert shop.api.subscriptions.list({"status": "all"}).data == []
        later = shop.subscribe(card=None, payment_behavior="default_incomplete")
        assert later.status == "incomplete"
        card = shop.api.payment_methods.attach("pm_card_visa", {"customer": str(later.customer)})
        shop.api.invoices.pay(str(later.latest_invoice), {"payment_method": card.id})
        assert shop.again(later).status == "active"

    def test_prices_of_different_intervals_are_refused(self, shop: Shop) -> None:
        items = [{"price": shop.price().id}, {"price": shop.price(interval="year").id}]
        with pytest.raises(stripe.InvalidRequestError, match="same recurring interval"):
            shop.subscribe(items=items)

    def test_trial_that_ended_before_its_begin_is_refused(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="in the future"):
            shop.subscribe(trial_end=START)

    def test_card_of_another_customer_is_refused(self, shop: Shop) -> None:
        card = shop.api.payment_methods.attach("pm_card_visa", {"customer": shop.customer().id})
        with pytest.raises(stripe.InvalidRequestError, match="No such PaymentMethod"):
            shop.subscribe(default_payment_method=card.id)

    def test_what_costs_nothing_needs_no_card(self, shop: Shop) -> None:
        assert shop.subscribe(shop.price(0), card=None).status == "active"


class TestRenewal:
    def test_period_renews_and_its_invoice_is_paid_an_hour_later(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        end = period(subscription)[1]
        clock.now = end
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
        invoices = shop.api.invoices.list({"subscription": subscription.id, "limit": 100}).data
        assert len(invoices) == 13
        assert {each.status for each in invoices} == {"paid"}
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

    def test_other_card_pays_what_is_past_due(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), FAILING)
        clock.now = renewal(subscription)
        shop.change_card(str(subscription.customer), "pm_card_visa")
        clock.now += 3 * DAY
        assert shop.again(subscription).status == "active"

    def test_renewal_that_needs_3d_secure_says_so(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), "pm_card_authenticationRequired")
        clock.now = renewal(subscription)
        assert shop.again(subscription).status == "past_due"
        assert "invoice.payment_action_required" in shop.types()

    def test_unpaid_subscription_collects_drafts(self, shop: Shop, fake: FakeStripe) -> None:
        fake.settings.after_retries = "unpaid"
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), FAILING)
        fake.advance(70 * DAY)
        assert shop.again(subscription).status == "unpaid"
        assert shop.last_invoice(subscription).status == "draft"


class TestTrial:
    def test_trial_with_a_card_becomes_paid(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(trial_period_days=14)
        assert (subscription.status, subscription.trial_end) == ("trialing", START + 14 * DAY)
        clock.now += 11 * DAY
        assert shop.again(subscription).status == "trialing"
        assert shop.types()[-1] == "customer.subscription.trial_will_end"
        clock.now = START + 14 * DAY + DRAFT
        assert (shop.again(subscription).status, shop.last_invoice(subscription).status) == ("active", "paid")
        assert shop.types().count("customer.subscription.trial_will_end") == 1

    @pytest.mark.parametrize(
        ("behavior", "status"), [("cancel", "canceled"), ("pause", "paused"), ("create_invoice", "past_due")]
    )
    def test_trial_without_a_card_ends_as_was_chosen(
        self, shop: Shop, clock: Clock, behavior: str, status: str
    ) -> None:
        ending: Any = {"end_behavior": {"missing_payment_method": behavior}}
        subscription = shop.subscribe(card=None, trial_period_days=14, trial_settings=ending)
        clock.now += 14 * DAY + DRAFT
        assert shop.again(subscription).status == status

    def test_paused_subscription_is_resumed_with_a_card(self, shop: Shop, clock: Clock) -> None:
        ending: Any = {"end_behavior": {"missing_payment_method": "pause"}}
        subscription = shop.subscribe(card=None, trial_period_days=14, trial_settings=ending)
        clock.now += 20 * DAY
        assert shop.again(subscription).status == "paused"
        shop.change_card(str(subscription.customer), "pm_card_visa")
        resumed = shop.api.subscriptions.resume(subscription.id)
        assert (resumed.status, period(resumed)[0]) == ("active", clock.now)
        with pytest.raises(stripe.InvalidRequestError, match="can be resumed"):
            shop.api.subscriptions.resume(subscription.id)

    def test_trial_is_ended_or_extended(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(trial_period_days=14)
        longer = shop.api.subscriptions.update(subscription.id, {"trial_end": START + 20 * DAY})
        assert (longer.status, period(longer)[1]) == ("trialing", START + 20 * DAY)
        with pytest.raises(stripe.InvalidRequestError, match="in the future"):
            shop.api.subscriptions.update(subscription.id, {"trial_end": START - 1})
        ended = shop.api.subscriptions.update(subscription.id, {"trial_end": "now"})
        assert (ended.status, period(ended)[0]) == ("active", clock.now)
        assert (shop.last_invoice(subscription).total, shop.last_invoice(subscription).status) == (4900, "paid")


class TestEnd:
    def test_subscription_is_cancelled_at_once(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        details: Any = {"comment": "too dear", "feedback": "too_expensive"}
        ended = shop.api.subscriptions.cancel(subscription.id, {"cancellation_details": details})
        assert (ended.status, ended.ended_at) == ("canceled", clock.now)
        with pytest.raises(stripe.InvalidRequestError, match="No such subscription"):
            shop.api.subscriptions.cancel(subscription.id)
        with pytest.raises(stripe.InvalidRequestError, match="can only update its cancellation_details"):
            shop.api.subscriptions.update(subscription.id, {"cancel_at_period_end": True})
        changed = shop.api.subscriptions.update(subscription.id, {"metadata": {"a": "b"}})
        assert changed.metadata.to_dict() == {"a": "b"}

    def test_subscription_is_cancelled_at_the_end_of_its_period(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe()
        end = period(subscription)[1]
        changed = shop.api.subscriptions.update(subscription.id, {"cancel_at_period_end": True})
        assert (changed.status, changed.cancel_at, changed.cancel_at_period_end) == ("active", end, True)
        clock.now = end - 1
        assert shop.again(subscription).status == "active"
        clock.now = end
        assert shop.again(subscription).status == "canceled"
        assert len(shop.api.invoices.list({"subscription": subscription.id}).data) == 1

    def test_cancellation_at_the_end_of_the_period_is_taken_back(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(cancel_at_period_end=True)
        assert subscription.cancel_at == period(subscription)[1]
        shop.api.subscriptions.update(subscription.id, {"cancel_at_period_end": False})
        clock.now = renewal(subscription)
        assert shop.again(subscription).status == "active"

    def test_subscription_is_cancelled_at_a_chosen_moment(self, shop: Shop, clock: Clock) -> None:
        subscription = shop.subscribe(cancel_at=START + 5 * DAY)
        assert (subscription.cancel_at, subscription.cancel_at_period_end) == (START + 5 * DAY, False)
        twice: Any = {"cancel_at": START + DAY, "cancel_at_period_end": True}
        with pytest.raises(stripe.InvalidRequestError, match="only specify one"):
            shop.api.subscriptions.update(subscription.id, twice)
        shop.api.subscriptions.update(subscription.id, {"cancel_at": START + 6 * DAY})
        clock.now = START + 6 * DAY
        assert shop.again(subscription).status == "canceled"

    def test_ended_subscription_is_not_collected(self, shop: Shop, fake: FakeStripe) -> None:
        subscription = shop.subscribe()
        shop.change_card(str(subscription.customer), FAILING)
        fake.advance(32 * DAY)
        shop.api.subscriptions.cancel(subscription.id)
        before = shop.last_invoice(subscription).attempt_count
        fake.advance(32 * DAY)
        assert shop.last_invoice(subscription).attempt_count == before


class TestList:
    def test_ended_subscriptions_are_listed_only_if_wanted(self, shop: Shop) -> None:
        active, ended = shop.subscribe(), shop.subscribe()
        shop.api.subscriptions.cancel(ended.id)

        def listed(**params: Any) -> set[str]:
            found: Any = params
            return {each.id for each in shop.api.subscriptions.list(found).data}

        assert listed() == {active.id}
        assert listed(status="all") == {active.id, ended.id}
        assert listed(status="canceled") == listed(status="ended") == {ended.id}
        assert listed(status="active", customer=str(ended.customer)) == set()
        assert listed(price=active["items"].data[0].price.id) == {active.id}
        assert listed(current_period_end={"lt": START + 40 * DAY}) == {active.id}
        assert listed(current_period_start={"gt": START}) == set()

    def test_invoices_are_listed_by_customer_and_subscription(self, shop: Shop) -> None:
        first, second = shop.subscribe(), shop.subscribe()
        for params in ({"customer": str(first.customer)}, {"subscription": first.id}):
            wanted: Any = params
            assert [each.id for each in shop.api.invoices.list(wanted).data] == [first.latest_invoice]
        assert len(shop.api.invoices.list({"collection_method": "charge_automatically"}).data) == 2
        assert second.latest_invoice != first.latest_invoice

    def test_unknown_customer_is_refused(self, api: stripe.V1Services) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="No such customer") as error:
            api.subscriptions.list({"customer": "cus_x"})
        assert error.value.param == "customer"


class TestTestClocks:
    def test_clock_moves_its_customers_alone(self, shop: Shop, fake: FakeStripe) -> None:
        clock = shop.api.test_helpers.test_clocks.create({"frozen_time": START + 100 * DAY, "name": "later"})
        customer = shop.customer("pm_card_visa", test_clock=clock.id)
        price = shop.price()
        moved = shop.api.subscriptions.create({"customer": customer.id, "items": [{"price": price.id}]})
        still = shop.subscribe(price)
        assert moved.created == START + 100 * DAY
        advanced = shop.api.test_helpers.test_clocks.advance(clock.id, {"frozen_time": START + 132 * DAY})
        assert advanced.status == "advancing"
        assert shop.api.test_helpers.test_clocks.retrieve(clock.id).status == "ready"
        assert shop.last_invoice(moved).billing_reason == "subscription_cycle"
        assert shop.last_invoice(still).billing_reason == "subscription_create"
        fake.advance(32 * DAY)
        assert shop.last_invoice(still).billing_reason == "subscription_cycle"
        assert [each.id for each in shop.api.test_helpers.test_clocks.list().data] == [clock.id]

    def test_clock_does_not_go_back(self, shop: Shop) -> None:
        clock = shop.api.test_helpers.test_clocks.create({"frozen_time": START})
        with pytest.raises(stripe.InvalidRequestError, match="must be after"):
            shop.api.test_helpers.test_clocks.advance(clock.id, {"frozen_time": START})

    def test_customers_go_with_their_clock(self, shop: Shop) -> None:
        clock = shop.api.test_helpers.test_clocks.create({"frozen_time": START})
        customer = shop.customer(test_clock=clock.id)
        assert shop.api.test_helpers.test_clocks.delete(clock.id).deleted is True
        assert shop.api.customers.retrieve(customer.id).deleted is True
