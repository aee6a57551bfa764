"""Reading Stripe again: what a subscription gives, whatever was lost, late or failed on the way."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from models.billing import PlanGrant
from models.organizations import Organization
from models.stripe import StripeCustomer, StripeSubscription
from rules.billing.settings import BillingSettings
from rules.time.instants import format_instant
from services.billing.stripe_requests import request_sync
from services.billing.sync import CUSTOMERS, sync_customer
from services.core.unit_of_work import SYSTEM_CALLER
from services.offboarding.purge import purge_deleted
from tests.handlers.billing.conftest import DAY, FAILS_LATER, VISA, Shop
from tests.handlers.callers import EVERYTHING
from tests.handlers.test_organization_deletion import signed_in
from tests.tools.fake_stripe.shop import press
from tools.fake_stripe.subscriptions import change_price, make_subscription, period_end, schedule_end

SECOND = timedelta(seconds=1)


def request(shop: Shop) -> None:
    """Have the customer read, as an event does."""
    with shop.jobs.open(SYSTEM_CALLER) as uow:
        request_sync(uow, shop.customer())


def miss_a_payment(shop: Shop) -> dict[str, Any]:
    """Let the first renewal fail, and return the subscription as it is shown."""
    shop.buy()
    shop.set_card(FAILS_LATER)
    shop.pass_time(days=31, hours=2)
    request(shop)
    shop.work()
    found: dict[str, Any] = shop.billing()["subscription"]
    return found


class TestLostEvents:
    def test_payment_is_found_without_an_event(self, shop: Shop) -> None:
        press(shop.open_checkout(), card=VISA)
        shop.work()
        assert shop.plan() == ("team", "stripe")

    def test_payment_long_after_the_checkout_was_opened_is_found(self, shop: Shop) -> None:
        url = shop.open_checkout()
        shop.work()
        for _ in range(4):
            shop.pass_time(hours=1)
            shop.work()
        press(url, card=VISA)
        assert shop.plan() == ("free", "none")
        shop.pass_time(hours=1, minutes=1)
        shop.work()
        assert shop.plan() == ("team", "stripe")

    def test_customer_is_read_every_day(self, shop: Shop) -> None:
        shop.buy()
        shop.pass_time(days=2)
        shop.work()
        [subscription] = shop.subscriptions()
        shop.api.subscriptions.cancel(subscription.id)
        shop.pass_time(hours=23)
        assert not sync_customer(shop.jobs)
        shop.pass_time(hours=1, seconds=1)
        shop.work()
        assert shop.plan() == ("free", "none")

    def test_subscription_is_read_after_the_end_of_its_period(self, shop: Shop) -> None:
        shop.buy()
        end = shop.billing()["subscription"]["currentPeriodEnd"]
        shop.pass_time(days=30, hours=12)
        shop.work()
        shop.pass_time(hours=13)
        shop.work()
        assert shop.billing()["subscription"]["currentPeriodEnd"] > end
        assert shop.billing()["subscription"]["state"] == "active"


def alerts(shop: Shop) -> list[str]:
    """Return the types of the alerts about subscriptions."""
    listed = shop.admin.get("/v1/attention").json()["data"]
    ours = {"payment_failed", "subscription_unclear", "several_subscriptions"}
    return [each["type"] for each in listed if each["type"] in ours]


def message_of(shop: Shop) -> str:
    """Return the message of the only alert about subscriptions."""
    assert len(alerts(shop)) == 1
    listed = shop.admin.get("/v1/attention").json()["data"]
    [found] = [each["message"] for each in listed if each["type"] in {"payment_failed", "subscription_unclear"}]
    return str(found)


class TestGrace:
    def test_plan_goes_on_for_the_grace_after_a_failed_payment(self, shop: Shop, owner: Any) -> None:
        shop.fake.settings.after_retries = "past_due"
        shown = miss_a_payment(shop)
        assert shown["state"] == "past_due"
        assert shown["actionUrl"].startswith(shop.fake.base_url)
        since = shop.tenant.session.query(StripeSubscription).one().past_due_since
        assert since is not None
        assert (shown["pastDueSince"], shown["graceEndsAt"]) == (
            format_instant(since),
            format_instant(since + 14 * DAY),
        )
        assert shop.mails() == ["payment_failed"]
        assert alerts(shop) == ["payment_failed"]
        shop.clock.at = since + 11 * DAY
        shop.work()
        shop.work()
        assert shop.mails() == ["payment_failed", "grace_ending"]
        [link] = shop.links()
        assert link.endswith(f"/billing?organization={shop.tenant.organization.id}")
        for passed, plan in ((14 * DAY - SECOND, ("team", "stripe")), (14 * DAY, ("free", "none"))):
            shop.clock.at = since + passed
            assert shop.plan() == plan

    def test_alert_says_when_the_plan_ends_and_that_it_has_ended(self, shop: Shop) -> None:
        shop.fake.settings.after_retries = "past_due"
        miss_a_payment(shop)
        end = shop.tenant.session.query(PlanGrant.until).filter_by(source="stripe").scalar()
        assert end is not None
        ends = f"The plan ends on {end:%Y-%m-%d %H:%M} UTC if it stays unpaid."
        for at, true, false in ((end - SECOND, ends, "has ended"), (end, "The plan has ended", "ends on")):
            shop.clock.at = at
            message = message_of(shop)
            assert message.startswith("A payment for the team plan failed.")
            assert true in message
            assert false not in message

    def test_alert_about_a_subscription_of_no_plan_names_none(self, shop: Shop) -> None:
        miss_a_payment(shop)
        shop.tenant.session.query(PlanGrant).filter_by(source="stripe").delete()
        shop.tenant.session.query(StripeSubscription).update({"plan": None})
        assert message_of(shop).startswith("A payment for a subscription failed. Pay it or change")
        assert "The plan" not in message_of(shop)

    def test_grace_shorter_than_the_notice_is_announced_once(self, shop: Shop, owner: Any) -> None:
        shop.fake.settings.after_retries = "past_due"
        shop.jobs.ports = shop.jobs.ports.having(BillingSettings(grace=2 * DAY))
        miss_a_payment(shop)
        shop.pass_time(days=1)
        request(shop)
        shop.work()
        assert shop.mails() == ["payment_failed"]

    def test_payment_during_the_grace_restores_the_subscription(self, shop: Shop) -> None:
        miss_a_payment(shop)
        shop.set_card(VISA)
        shop.pass_time(days=4)
        request(shop)
        shop.work()
        shown = shop.billing()["subscription"]
        assert (shown["state"], shown["pastDueSince"], shown["graceEndsAt"]) == ("active", None, None)
        assert shop.billing()["until"] is None
        assert alerts(shop) == []

    @pytest.mark.parametrize(("after", "state"), [("unpaid", "unpaid"), ("cancel", None)])
    def test_plan_ends_when_stripe_gives_up(self, shop: Shop, after: str, state: str | None) -> None:
        shop.fake.settings.after_retries = after
        shop.fake.settings.retry_days = [1]
        miss_a_payment(shop)
        shop.pass_time(days=3)
        shop.work()
        assert shop.plan() == ("free", "none")
        shown = shop.billing()["subscription"]
        assert (shown and shown["state"]) == state
        if state is not None:
            assert "The plan has ended" in message_of(shop)


class TestChanges:
    def test_cancellation_that_is_taken_back_keeps_the_plan(self, shop: Shop) -> None:
        shop.buy()
        with shop.changing() as subscription:
            schedule_end(shop.fake, subscription, period_end(subscription))
        request(shop)
        shop.work()
        assert shop.billing()["subscription"]["cancelAt"] is not None
        with shop.changing() as subscription:
            schedule_end(shop.fake, subscription, None)
        request(shop)
        shop.work()
        assert shop.billing()["subscription"]["cancelAt"] is None
        shop.pass_time(days=32)
        shop.work()
        assert shop.plan() == ("team", "stripe")
        assert [set(change["after"]) for change in shop.changes()[1:3]] == [{"cancelAt"}] * 2

    def test_two_subscriptions_give_the_better_plan(self, shop: Shop) -> None:
        shop.buy()
        with shop.fake.lock:
            [customer] = shop.fake.store.all("customer")
            second = make_subscription(shop.fake, customer, shop.price_of("business"), "eur")
        request(shop)
        shop.work()
        assert shop.plan() == ("business", "stripe")
        assert shop.billing()["subscription"]["id"] == second["id"]
        assert alerts(shop) == ["several_subscriptions"]
        shop.api.subscriptions.cancel(second["id"])
        request(shop)
        shop.work()
        assert shop.plan() == ("team", "stripe")

    def test_unknown_price_keeps_the_last_known_plan_for_the_grace(self, shop: Shop) -> None:
        shop.buy()
        shop.price("gold", 100)
        with shop.changing() as subscription:
            change_price(shop.fake, subscription, shop.price_of("gold"), "none")
        request(shop)
        shop.work()
        since = shop.tenant.session.query(StripeSubscription).one().unclear_since
        assert since is not None
        assert shop.billing()["until"] == format_instant(since + 14 * DAY)
        assert alerts(shop) == ["subscription_unclear"]
        assert f"The last known plan ends on {since + 14 * DAY:%Y-%m-%d %H:%M} UTC" in message_of(shop)
        shop.clock.at = since + 14 * DAY
        assert shop.plan() == ("free", "none")
        assert "It gives no plan." in message_of(shop)

    def test_values_that_stripe_added_are_shown_as_unknown(self, shop: Shop) -> None:
        shop.buy()
        [subscription], [invoice] = shop.fake.store.all("subscription"), shop.fake.store.all("invoice")
        subscription["status"] = "dormant"
        subscription["items"]["data"][0]["price"]["recurring"]["interval"] = "quarter"
        invoice["status"] = "disputed"
        request(shop)
        shop.work()
        since = shop.tenant.session.query(StripeSubscription).one().unclear_since
        assert since is not None
        shown, end = shop.billing(), format_instant(since + 14 * DAY)
        assert (shown["plan"], shown["until"], shown["subscription"]["graceEndsAt"]) == ("team", end, end)
        assert (shown["subscription"]["state"], shown["subscription"]["interval"]) == ("unknown", "unknown")
        assert [each["state"] for each in shown["invoices"]] == ["unknown"]
        assert alerts(shop) == ["subscription_unclear"]
        shop.clock.at = since + 14 * DAY
        assert shop.plan() == ("free", "none")
        assert shop.billing()["subscription"]["state"] == "unknown"
        shop.fake.calls.reset()  # such answers are not in the description of this version

    def test_customer_that_stripe_does_not_have_keeps_the_plan_for_the_grace(self, shop: Shop) -> None:
        shop.buy()
        shop.fake.store.clear()
        shop.pass_time(days=2)
        shop.work()
        assert shop.plan() == ("team", "stripe")
        since = shop.tenant.session.query(StripeSubscription).one().unclear_since
        assert since is not None
        shop.clock.at = since + 14 * DAY
        assert shop.plan() == ("free", "none")


class TestStripeDown:
    def test_customer_is_read_again_after_a_failure(self, shop: Shop) -> None:
        press(shop.open_checkout(), card=VISA)
        shop.fake.faults.add("error", "GET /v1/subscriptions", status=500)
        assert sync_customer(shop.jobs)
        assert not sync_customer(shop.jobs)
        shop.tenant.session.expire_all()
        assert shop.tenant.session.query(StripeCustomer).one().last_error_code == "APIError"
        shop.fake.faults.clear()
        shop.pass_time(seconds=11)
        shop.work()
        assert shop.plan() == ("team", "stripe")

    def test_event_during_a_reading_has_the_customer_read_again(self, shop: Shop) -> None:
        shop.buy()
        request(shop)
        with shop.jobs.open(SYSTEM_CALLER) as uow:
            lease = CUSTOMERS.acquire(uow)
        assert lease is not None
        request(shop)
        assert not sync_customer(shop.jobs)
        with shop.jobs.open(SYSTEM_CALLER) as uow:
            lease.release(uow, due_at=uow.now + DAY)
        assert sync_customer(shop.jobs)

    def test_freeze_lift_and_reads_do_not_wait_for_stripe(self, shop: Shop) -> None:
        shop.tenant.repository("web")
        hanging = shop.fake.faults.add("timeout", "/v1/")
        started = shop.admin.post("/v1/freezes", EVERYTHING)
        assert started.status_code in {201, 422}, started.text
        for path in ("/v1/billing", "/v1/billing/prices", "/v1/entitlements", "/v1/plans", "/v1/overview"):
            assert shop.tenant.person("admin").get(path).status_code == 200, path
        assert shop.admin.post("/v1/freezes/lift", {"scope": {"type": "organization"}}).status_code in {200, 409}
        assert hanging.struck == 0


class TestDeletedOrganization:
    @pytest.fixture(autouse=True)
    def answering(self, shop: Shop) -> Iterator[None]:
        yield
        shop.fake.faults.clear()

    def delete(self, shop: Shop) -> None:
        owner = signed_in(shop.tenant, "owner")
        answer = owner.post("/api/auth/org/delete", {"name": shop.tenant.organization.name})
        assert answer.status_code < 300, answer.text

    def test_deleted_organization_has_its_subscription_cancelled(self, shop: Shop) -> None:
        shop.buy()
        self.delete(shop)
        shop.work()
        assert [each.status for each in shop.subscriptions()] == ["canceled"]

    def test_deleted_organization_while_stripe_is_down_is_cancelled_later(self, shop: Shop) -> None:
        shop.buy()
        shop.fake.faults.add("error", "/v1/", status=503)
        self.delete(shop)
        shop.work()
        shop.fake.faults.clear()
        assert [each.status for each in shop.subscriptions()] == ["active"]
        shop.pass_time(seconds=11)
        shop.work()
        assert [each.status for each in shop.subscriptions()] == ["canceled"]

    def test_checkout_that_is_open_cannot_be_paid_after_the_deletion(self, shop: Shop) -> None:
        url = shop.open_checkout()
        self.delete(shop)
        shop.work()
        assert press(url, card=VISA).status_code != 303

    @pytest.mark.check
    def test_purged_organization_has_its_customer_deleted(self, shop: Shop) -> None:
        shop.buy()
        customer = shop.customer()
        self.delete(shop)
        shop.work()
        shop.fake.faults.add("error", "/v1/", status=503)
        shop.pass_time(days=30, seconds=1)
        while purge_deleted(shop.jobs):
            pass
        session = shop.tenant.session
        session.expire_all()
        assert session.get_one(Organization, shop.tenant.id).purged_at is not None
        assert session.query(StripeSubscription).count() == 0
        shop.work()
        shop.fake.faults.clear()
        shop.pass_time(minutes=11)
        shop.work()
        assert customer in shop.fake.store.deleted
        session.expire_all()
        assert session.query(StripeCustomer).count() == 0
