"""An organisation that buys plans at the simulated Stripe, with the product, its jobs and Stripe on one clock."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import pytest
import stripe
from sqlalchemy import select

from app.database import WORKER_ROLE
from integrations.stripe import Stripe, StripeSettings
from models.audit import AuditEntry
from models.identity import Mail
from rules.web_addresses import WebOrigin
from services.billing.prices import refresh_prices
from services.billing.stripe_requests import request_prices
from services.billing.sync import sync_customer
from services.core.encryption import decrypt_with_any
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.mail.outbox import USE, associated_data
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.tools.fake_stripe.conftest import faults_of
from tests.tools.fake_stripe.shop import press
from tools.fake_stripe import FakeStripe, Handle
from tools.fake_stripe.cards import card_of
from tools.fake_stripe.subscriptions import change_card

VISA, FAILS_LATER = "4242 4242 4242 4242", "4000 0000 0000 0341"
ORDER = {"plan": "team", "interval": "month"}
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Shop:
    """An organisation without a plan, and Stripe."""

    tenant: Tenant
    admin: Caller
    """A key with all scopes, which does not expire while time passes."""
    fake: FakeStripe
    api: stripe.V1Services
    jobs: UnitOfWorkFactory
    clock: MovableClock

    def open(self) -> None:
        """Forget what there was at Stripe, and sell both plans."""
        self.fake.reset()
        self.price()
        self.price("business", 19900)
        self.read_prices()

    def price(self, plan: str = "team", amount: int = 4900, interval: str = "month", **more: Any) -> stripe.Price:
        """Add a price of a plan, as an operator does."""
        product = self.api.products.create({"name": plan.title(), "metadata": {"plan": plan}})
        params: Any = {
            "product": product.id,
            "currency": "eur",
            "unit_amount": amount,
            "recurring": {"interval": interval},
            "lookup_key": f"{plan}_{interval}",
            "transfer_lookup_key": True,
            **more,
        }
        return self.api.prices.create(params)

    def read_prices(self) -> None:
        """Have the prices read."""
        with self.jobs.open(SYSTEM_CALLER) as uow:
            request_prices(uow)
        refresh_prices(self.jobs)

    def open_checkout(self, **order: Any) -> str:
        """Open a checkout session, and return its URL."""
        return str(answered(self.admin.post("/v1/billing/checkout", {**ORDER, **order}))["url"])

    def buy(self, **order: Any) -> None:
        """Buy a plan, and have it read."""
        assert press(self.open_checkout(**order), card=VISA).status_code == 303
        self.work()

    def work(self) -> None:
        """Run the jobs until nothing is due."""
        while sync_customer(self.jobs) or refresh_prices(self.jobs):
            pass

    def pass_time(self, **length: float) -> None:
        """Let time pass for all, and the jobs do what is due then."""
        self.clock.offset += timedelta(**length)
        self.fake.advance(0)

    def billing(self) -> dict[str, Any]:
        """Return the billing summary."""
        return answered(self.admin.get("/v1/billing"))

    def plan(self) -> tuple[str, str]:
        """Return the plan in force and its source."""
        shown = self.billing()
        return shown["plan"], shown["source"]

    def customer(self) -> str:
        """Return the id of the only customer at Stripe."""
        [found] = [each for each in self.fake.store.all("customer") if not each.get("deleted")]
        return str(found["id"])

    def subscriptions(self) -> list[stripe.Subscription]:
        """Return the subscriptions at Stripe."""
        return list(self.api.subscriptions.list({"customer": self.customer(), "status": "all"}).data)

    def set_card(self, number: str) -> None:
        """Give the customer another card, which is charged from now on."""
        card = card_of(number)
        assert card is not None
        with self.fake.lock:
            change_card(self.fake, self.fake.store.objects["customer"][self.customer()], card)

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Yield the subscription that was bought last, for a change at Stripe."""
        with self.fake.lock:
            yield self.fake.store.all("subscription")[0]

    def price_of(self, plan: str) -> dict[str, Any]:
        """Return the monthly price of a plan at Stripe."""
        [found] = [each for each in self.fake.store.all("price") if each["lookup_key"] == f"{plan}_month"]
        return found

    def mails(self) -> list[str]:
        """Return the templates of the mails, in order."""
        self.tenant.session.expire_all()
        return list(self.tenant.session.scalars(select(Mail.template).order_by(Mail.created_at)))

    def links(self) -> set[str]:
        """Return the addresses that the mails link to."""
        found = set()
        for mail in self.tenant.session.scalars(select(Mail).where(Mail.encrypted_values.is_not(None))):
            bound, sent = associated_data(mail.id, mail.recipient), mail.encrypted_values or b""
            found.add(json.loads(decrypt_with_any(self.jobs.ports[SecretKey].accepted, USE, bound, sent))["url"])
        return found

    def changes(self) -> list[dict[str, Any]]:
        """Return the audited changes of subscriptions."""
        query = select(AuditEntry.details).where(AuditEntry.action == "billing.subscription_changed")
        return list(self.tenant.session.scalars(query.order_by(AuditEntry.at, AuditEntry.id)))


@pytest.fixture
def stripe_client(served_fake_stripe: Handle) -> Stripe:
    """Return a client of the simulated Stripe, as the product's."""
    settings = StripeSettings(served_fake_stripe.stripe.keys.secret_key, api_url=served_fake_stripe.base_url)
    return Stripe(settings)


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups, stripe_client: Stripe) -> UnitOfWorkFactory:
    """Units as a worker opens them."""
    ports = Ports(SecretKey(factories.SECRET_KEY.encode()), WebOrigin("https://freezes.test"), stripe_client)
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, ports)


@pytest.fixture
def shop(
    globex: Tenant, served: str, served_fake_stripe: Handle, jobs: UnitOfWorkFactory, clock: MovableClock
) -> Iterator[Shop]:
    """Return an organisation without a plan, with prices of both plans that were read."""
    fake = served_fake_stripe.stripe
    client = stripe.StripeClient(
        fake.keys.secret_key,
        stripe_version="2026-10-28.endive",
        base_addresses={"api": served_fake_stripe.base_url},
        http_client=stripe.RequestsClient(timeout=5),
    )
    shop = Shop(globex, globex.key(), fake, client.v1, jobs, clock)
    shop.open()
    before = asdict(fake.settings)
    fake.settings.webhook_url = f"{served}/webhooks/stripe"
    fake.settings.webhooks = "hold"
    yield shop
    for name, value in before.items():
        setattr(fake.settings, name, value)
    fake.sender.drain()
    exchanges = [each for each in fake.calls.exchanges if each.status == 200]
    assert [fault for each in exchanges for fault in faults_of(each)] == []


@pytest.fixture
def owner(globex: Tenant) -> Any:
    """Return an owner, who gets the mails."""
    person = factories.user(globex.session)
    return factories.membership(globex.session, globex.organization, person, "owner")
