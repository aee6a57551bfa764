"""An organisation, its plan and its payments, as rows; and the simulated Stripe where it buys."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import stripe
from sqlalchemy.orm import Session

from models.organizations import Membership, Organization, User
from models.stripe import StripeCatalogue, StripeCustomer, StripePrice, StripeSubscription
from services.billing.prices import refresh_prices
from services.billing.stripe_requests import request_prices
from services.billing.sync import sync_customer
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from tests import factories
from tests.factories.adding import added
from tests.harness.clock import MovableClock
from tests.web.people.forms import Page
from tools.fake_stripe import FakeStripe
from tools.sandbox.shop import PLANS, set_up_shop

PAY = "https://invoice.stripe.test/pay"
INVOICE: dict[str, Any] = {
    "id": "in_1",
    "number": "ACME-0001",
    "state": "paid",
    "total": 4900,
    "currency": "EUR",
    "createdAt": "2026-11-01T09:30:00Z",
    "created_at": "2026-11-01T09:30:00Z",
    "url": "https://invoice.stripe.test/in_1",
}

CHECKOUT, TRIAL, PORTAL = "Continue to checkout", "Start the trial", "Change or cancel at Stripe"


@dataclass(frozen=True, slots=True)
class Shop:
    """The organisation `Acme` on the free plan."""

    session: Session
    organization: Organization
    fake: FakeStripe
    jobs: UnitOfWorkFactory
    clock: MovableClock

    def now(self) -> datetime:
        """Return the present instant of the service."""
        return self.clock.read(factories.now())

    def joined_by(self, person: User, role: str) -> Membership:
        """Make a person a member."""
        return factories.membership(self.session, self.organization, person, role)

    def sell(self) -> None:
        """Add the prices of the sandbox, as they are after they were read."""
        rows = [
            StripePrice(
                id=f"price_{plan}_{interval}",
                plan=plan,
                interval=interval,
                currency=currency,
                unit_amount=amount,
                tax_behavior="exclusive",
                on_sale=True,
                is_default=currency == "EUR",
            )
            for plan, offer in PLANS["plans"].items()
            for interval in ("month", "year")
            for currency, amount in offer[interval].items()
        ]
        self.session.add_all(rows)
        self.session.merge(StripeCatalogue(name="prices", synced_at=self.now()))
        self.session.flush()

    def grant(self, plan: str, source: str, days: float | None = None, **columns: Any) -> None:
        """Give the organisation a plan for so many days, or without end."""
        until = self.now() + timedelta(days=days) if days is not None else None
        factories.grant(self.session, self.organization, plan, source, until=until, **columns)

    def customer(self, **columns: Any) -> StripeCustomer:
        """Add the customer, as it is after it was read."""
        values = {"synced_at": self.now(), "created_at": self.now(), "invoices": [], **columns}
        return added(self.session, StripeCustomer(id="cus_1", organization_id=self.organization.id, **values))

    def subscribe(self, state: str = "active", **columns: Any) -> StripeSubscription:
        """Add a customer with a subscription of the team plan that was paid 18 days ago; `columns` are its own."""
        self.customer(invoices=[INVOICE])
        values = {
            "id": "sub_1",
            "state": state,
            "plan": "team",
            "interval": "month",
            "currency": "EUR",
            "unit_amount": 4900,
            "period_start": self.now() - timedelta(days=18),
            "period_end": self.now() + timedelta(days=12),
            "created_at": self.now() - timedelta(days=18),
            **columns,
        }
        row = added(self.session, StripeSubscription(organization_id=self.organization.id, **values))
        if state in {"active", "trialing"}:
            self.grant("team", "stripe", reference=row.id)
        return row

    def fail_to_pay(self, days_ago: float) -> None:
        """Add a subscription whose payment failed so many days ago; the plan goes on for 14 days."""
        since = self.now() - timedelta(days=days_ago)
        self.subscribe("past_due", past_due_since=since, action_url=PAY)
        self.grant("team", "stripe", 14 - days_ago, reference="sub_1")

    def open_stripe(self) -> None:
        """Sell at the simulated Stripe, and have the prices read."""
        set_up_shop(self.fake.base_url)
        with self.jobs.open(SYSTEM_CALLER) as uow:
            request_prices(uow)
        refresh_prices(self.jobs)

    def read_stripe(self) -> None:
        """Read every customer that is due from Stripe."""
        while sync_customer(self.jobs):
            pass

    def subscriptions_at_stripe(self) -> list[stripe.Subscription]:
        """Return what the organisation has at the simulated Stripe."""
        found: list[Any] = self.fake.store.all("subscription")
        return found


def about_plan(page: Page) -> str:
    """Return what the page says about the plan in force."""
    return words(page.text.partition("Sign out")[2].partition("Plan and billing")[2].partition("Usage")[0])


def words(text: str) -> str:
    """Return a text with single spaces."""
    return " ".join(text.split())
