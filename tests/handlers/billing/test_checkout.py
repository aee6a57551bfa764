"""Buying a plan, and the pages of Stripe."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from app.database import WORKER_ROLE
from integrations.stripe.signatures import sign
from jobs.registry import JOBS
from rules.access.permissions import SYSTEM
from rules.errors import ServiceError
from services.billing.checkout import open_checkout, open_portal
from services.billing.prices import Order, refresh_prices
from services.billing.stripe_requests import request_prices
from services.billing.sync import sync_customer
from services.core.ports import Ports
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.webhooks.stripe_events import receive
from tests.factories.plans import change_plan, grant
from tests.handlers.billing.conftest import DAY, ORDER, VISA, Shop
from tests.handlers.callers import Tenant, answered, refusal
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.tools.fake_stripe.shop import press

CHECKOUT, PORTAL, PRICES = "/v1/billing/checkout", "/v1/billing/portal", "/v1/billing/prices"


class TestListBillingPrices:
    def test_prices_are_listed_from_the_copy_without_calling_stripe(self, shop: Shop) -> None:
        shop.fake.faults.add("error", "/v1/")
        listed = answered(shop.tenant.person("viewer").get(PRICES))["data"]
        assert [(each["plan"], each["unitAmount"]) for each in listed] == [("team", 4900), ("business", 19900)]
        assert listed[0].items() >= {"interval": "month", "currency": "EUR", "currencyExponent": 2}.items()
        shop.fake.faults.clear()

    def test_prices_are_filtered_by_currency_and_interval(self, shop: Shop) -> None:
        shop.price(amount=49000, interval="year", currency_options={"usd": {"unit_amount": 50000}})
        shop.read_prices()
        viewer = shop.tenant.person("viewer")
        yearly = viewer.get(PRICES, interval="year").json()["data"]
        assert [(each["currency"], each["unitAmount"]) for each in yearly] == [("EUR", 49000), ("USD", 50000)]
        assert [each["unitAmount"] for each in viewer.get(PRICES, currency="USD").json()["data"]] == [50000]

    def test_price_that_another_one_replaced_is_no_longer_listed(self, shop: Shop) -> None:
        shop.price(amount=5900)
        shop.read_prices()
        listed = shop.tenant.person("viewer").get(PRICES).json()["data"]
        assert [each["unitAmount"] for each in listed] == [5900, 19900]

    def test_prices_that_were_never_read_are_stripe_unavailable(self, globex: Tenant) -> None:
        refusal(globex.person("viewer").get(PRICES), 502, "stripe_unavailable")


class TestOpenCheckout:
    def test_checkout_that_is_paid_gives_the_plan(self, shop: Shop) -> None:
        assert press(shop.open_checkout(), card=VISA).status_code == 303
        assert shop.plan() == ("free", "none")
        shop.work()
        assert shop.plan() == ("team", "stripe")
        shown = shop.billing()
        assert (
            shown["subscription"].items()
            >= {
                "state": "active",
                "plan": "team",
                "interval": "month",
                "currency": "EUR",
                "unitAmount": 4900,
                "cancelAt": None,
                "pastDueSince": None,
                "graceEndsAt": None,
                "actionUrl": None,
            }.items()
        )
        [invoice] = shown["invoices"]
        assert (invoice["state"], invoice["total"], invoice["currency"]) == ("paid", 4900, "EUR")
        assert shown["syncedAt"] is not None
        assert shop.tenant.audit() == ["billing.checkout_started", "billing.subscription_changed"]
        [change] = shop.changes()
        assert (change["before"], change["after"]["state"], change["after"]["plan"]) == (None, "active", "team")

    def test_checkout_returns_to_a_path_of_our_origin(self, shop: Shop) -> None:
        answer = press(shop.open_checkout(returnPath="/plans/done"), card=VISA)
        session = shop.fake.store.all("checkout.session")[0]["id"]
        assert answer.headers["Location"].endswith(f"/plans/done?checkout={session}")

    def test_checkout_with_another_address_is_rejected(self, shop: Shop) -> None:
        for path in ("https://evil.test/", "//evil.test", "billing", "/a?b", "/a//b", "/\\evil.test"):
            refusal(shop.admin.post(CHECKOUT, {**ORDER, "returnPath": path}), 422, "validation_failed")

    @pytest.mark.parametrize(
        ("order", "path", "message"),
        [
            ({"interval": "year"}, "/interval", "The team plan is sold per month in EUR."),
            ({"currency": "JPY"}, "/currency", "The team plan is sold per month in EUR."),
            ({"plan": "free"}, "/plan", "plan must be one of team, business"),
        ],
    )
    def test_checkout_of_what_is_not_sold_says_what_is(
        self, shop: Shop, order: dict[str, str], path: str, message: str
    ) -> None:
        error = refusal(shop.admin.post(CHECKOUT, {**ORDER, **order}), 422, "validation_failed")
        assert (error["message"], error["details"][0]["path"]) == (message, path)

    def test_checkout_of_a_plan_without_a_price_is_rejected(self, shop: Shop) -> None:
        for each in shop.fake.store.all("price"):
            each["active"] = False
        shop.read_prices()
        error = refusal(shop.admin.post(CHECKOUT, ORDER), 422, "validation_failed")
        assert error["message"] == "The team plan is not sold at the moment."

    def test_second_checkout_expires_the_first_one(self, shop: Shop) -> None:
        first, second = shop.open_checkout(), shop.open_checkout(plan="business")
        assert press(first, card=VISA).status_code != 303
        assert press(second, card=VISA).status_code == 303
        shop.work()
        assert [each.status for each in shop.subscriptions()] == ["active"]
        assert shop.plan() == ("business", "stripe")

    def test_two_checkouts_at_once_give_one_page_to_pay(self, shop: Shop) -> None:
        answers = at_once(*[lambda: shop.admin.post(CHECKOUT, ORDER)] * 2)
        urls = [answer.json()["url"] for answer in answers if answer.status_code == 200]
        assert urls
        for answer in answers:
            if answer.status_code != 200:
                refusal(answer, 409, "invalid_state")
        paid = [press(url, card=VISA).status_code for url in urls]
        assert paid.count(303) == 1
        assert len(shop.subscriptions()) == 1

    def test_checkout_is_rejected_while_there_is_a_subscription(self, shop: Shop) -> None:
        shop.buy()
        refusal(shop.admin.post(CHECKOUT, ORDER), 409, "invalid_state")

    def test_checkout_is_rejected_after_a_payment_that_was_not_read(self, shop: Shop) -> None:
        press(shop.open_checkout(), card=VISA)
        refusal(shop.admin.post(CHECKOUT, ORDER), 409, "invalid_state")
        assert len(shop.subscriptions()) == 1
        shop.work()
        assert shop.plan() == ("team", "stripe")

    def test_checkout_follows_a_cancellation_that_was_not_read(self, shop: Shop) -> None:
        shop.buy()
        shop.api.subscriptions.cancel(shop.subscriptions()[0].id)
        assert shop.billing()["subscription"]["state"] == "active"
        assert press(shop.open_checkout(), card=VISA).status_code == 303

    def test_checkout_and_portal_conflict_with_a_plan_of_an_operator(self, shop: Shop) -> None:
        change_plan(shop.tenant.session, shop.tenant.organization, "team")
        refusal(shop.admin.post(CHECKOUT, ORDER), 409, "billing_source_conflict")
        refusal(shop.admin.post(PORTAL, {}), 409, "billing_source_conflict")

    @pytest.mark.parametrize(("left", "waits"), [(3 * DAY, True), (DAY, False)])
    def test_checkout_during_a_trial_is_first_paid_at_its_end(self, shop: Shop, left: Any, waits: bool) -> None:
        until = shop.clock.read(datetime.now().astimezone()) + left
        grant(shop.tenant.session, shop.tenant.organization, "business", "trial", until=until)
        shop.buy(plan="business")
        [subscription] = shop.subscriptions()
        assert subscription.status == ("trialing" if waits else "active")
        assert subscription.trial_end == (int(until.timestamp()) if waits else None)

    def test_checkout_whose_answer_was_lost_is_opened_once(self, shop: Shop) -> None:
        shop.fake.faults.add("disconnect", "POST /v1/checkout/sessions", after=True, count=1)
        shop.open_checkout()
        assert len(shop.fake.store.all("checkout.session")) == 1

    def test_customer_whose_answer_was_lost_is_made_once(self, shop: Shop) -> None:
        fault = shop.fake.faults.add("disconnect", "POST /v1/customers", after=True, count=2)
        refusal(shop.admin.post(CHECKOUT, ORDER), 502, "stripe_unavailable")
        assert fault.struck == 2
        shop.open_checkout()
        assert len(shop.fake.store.all("customer")) == 1

    def test_customer_that_was_deleted_at_stripe_is_made_again(self, shop: Shop) -> None:
        shop.open_checkout()
        first = shop.customer()
        shop.api.customers.delete(first)
        shop.buy()
        assert shop.customer() != first
        assert shop.plan() == ("team", "stripe")

    def test_checkout_is_stripe_unavailable_while_stripe_fails(self, shop: Shop) -> None:
        shop.fake.faults.add("error", "/v1/", status=500)
        refusal(shop.admin.post(CHECKOUT, ORDER), 502, "stripe_unavailable")
        shop.fake.faults.clear()
        assert shop.open_checkout()


class TestOpenBillingPortal:
    @pytest.fixture(autouse=True)
    def configured(self, shop: Shop) -> None:
        features: Any = {
            "invoice_history": {"enabled": True},
            "payment_method_update": {"enabled": True},
            "subscription_cancel": {"enabled": True, "mode": "at_period_end"},
        }
        shop.api.billing_portal.configurations.create({"features": features})

    def test_portal_needs_a_purchase_and_a_subscription_for_some_flows(self, shop: Shop) -> None:
        refusal(shop.admin.post(PORTAL, {}), 409, "invalid_state")
        shop.open_checkout()
        assert shop.admin.post(PORTAL, {}).status_code == 200
        refusal(shop.admin.post(PORTAL, {"flow": "cancel"}), 409, "invalid_state")

    @pytest.mark.parametrize("body", [{}, {"flow": "payment_method"}, {"flow": "cancel", "returnPath": "/plans"}])
    def test_portal_is_opened_and_audited(self, shop: Shop, body: dict[str, str]) -> None:
        shop.buy()
        assert answered(shop.admin.post(PORTAL, body))["url"].startswith(shop.fake.base_url)
        assert shop.tenant.audit()[-1] == "billing.portal_opened"

    def test_portal_is_opened_without_a_body(self, shop: Shop) -> None:
        shop.buy()
        answer = shop.admin.post(PORTAL)
        assert answer.status_code == 200, answer.text

    def test_subscription_cancelled_in_the_portal_goes_on_to_its_end(self, shop: Shop) -> None:
        shop.buy()
        press(shop.admin.post(PORTAL, {}).json()["url"], action="cancel", subscription=shop.subscriptions()[0].id)
        shop.work()
        shown = shop.billing()
        assert shown["plan"] == "team"
        assert shown["subscription"]["cancelAt"] == shown["subscription"]["currentPeriodEnd"]
        shop.pass_time(days=32)
        shop.work()
        assert shop.plan() == ("free", "none")
        assert shop.billing()["subscription"] is None

    def test_subscription_beside_a_plan_of_an_operator_can_be_cancelled(self, shop: Shop) -> None:
        shop.buy()
        given = grant(shop.tenant.session, shop.tenant.organization, "business")
        refusal(shop.admin.post(CHECKOUT, ORDER), 409, "billing_source_conflict")
        answer = shop.admin.post(PORTAL, {"flow": "cancel"})
        assert answer.status_code == 200, answer.text
        shop.api.subscriptions.cancel(shop.subscriptions()[0].id)
        shop.pass_time(minutes=1)
        shop.work()
        refusal(shop.admin.post(PORTAL, {}), 409, "billing_source_conflict")
        shop.tenant.session.delete(given)
        shop.tenant.session.flush()
        assert shop.admin.post(PORTAL, {}).status_code == 200

    def test_portal_of_a_customer_that_was_deleted_is_invalid_state(self, shop: Shop) -> None:
        shop.buy()
        shop.api.customers.delete(shop.customer())
        refusal(shop.admin.post(PORTAL, {}), 409, "invalid_state")

    def test_portal_is_stripe_unavailable_while_stripe_is_down(self, shop: Shop) -> None:
        shop.buy()
        shop.fake.faults.add("disconnect", "/v1/billing_portal")
        refusal(shop.admin.post(PORTAL, {}), 502, "stripe_unavailable")


def test_nothing_is_bought_or_read_without_a_key_of_stripe(
    globex: Tenant, database: str, clock: MovableClock, wakeups: RecordedWakeups
) -> None:
    keyless = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, Ports())
    asked: list[Callable[[UnitOfWork], Any]] = [
        lambda uow: open_checkout(uow, Order("team", "month"), None),
        lambda uow: open_portal(uow, None, None),
    ]
    for ask in asked:
        with (
            pytest.raises(ServiceError, match="STRIPE_SECRET_KEY is not set") as refused,
            keyless.open(Caller(globex.id, SYSTEM, "system")) as uow,
        ):
            ask(uow)
        assert refused.value.code == "stripe_unavailable"
    with pytest.raises(ServiceError) as refused, keyless.open(SYSTEM_CALLER) as uow:
        receive(uow, b"{}", sign("", b"{}", int(uow.now.timestamp())))
    assert refused.value.code == "invalid_signature"
    with keyless.open(SYSTEM_CALLER) as uow:
        request_prices(uow)
        assert not JOBS["prices"].has_work(uow)
    assert not refresh_prices(keyless)
    assert not sync_customer(keyless)
