"""What is stored of Stripe: customers with their subscriptions, and the prices."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base
from models.leases import Leased


class StripeCustomer(Leased, Base):
    """The customer of an organisation at Stripe, and the work of reading it again.

    Without an organisation, which was purged, it is to be deleted at Stripe, and the row with it.
    """

    __tablename__ = "stripe_customers"
    __table_args__ = (
        Index("ix_stripe_customers_organization_id", "organization_id", unique=True),
        Index("ix_stripe_customers_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    """Stripe's id."""
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    created_at: Mapped[datetime]
    synced_at: Mapped[datetime | None]
    """When subscriptions and invoices were read."""
    checkout_id: Mapped[str | None]
    """The checkout session that was opened last; it is expired before the next one."""
    visited_at: Mapped[datetime | None]
    """When a page of Stripe was last opened, where a person may change something."""
    invoices: Mapped[list[Any]] = mapped_column(JSONB, server_default="[]")
    """The latest invoices, as in the API."""


class StripeSubscription(Base):
    """A subscription as it was last read, and since when it is unpaid or unclear."""

    __tablename__ = "stripe_subscriptions"
    __table_args__ = (Index("ix_stripe_subscriptions_organization_id", "organization_id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    """Stripe's id."""
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    state: Mapped[str]
    plan: Mapped[str | None]
    interval: Mapped[str]
    currency: Mapped[str]
    unit_amount: Mapped[int | None]
    period_start: Mapped[datetime]
    period_end: Mapped[datetime]
    cancel_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    past_due_since: Mapped[datetime | None]
    unclear_since: Mapped[datetime | None]
    action_url: Mapped[str | None]
    """The page of an invoice to pay."""
    announced_at: Mapped[datetime | None]
    """When a mail announced the end of the grace."""


class StripePrice(Base):
    """A price of a plan in one currency."""

    __tablename__ = "stripe_prices"

    id: Mapped[str] = mapped_column(primary_key=True)
    """Stripe's id."""
    currency: Mapped[str] = mapped_column(primary_key=True)
    plan: Mapped[str]
    interval: Mapped[str]
    unit_amount: Mapped[int]
    tax_behavior: Mapped[str]
    on_sale: Mapped[bool]
    is_default: Mapped[bool]


class StripeCatalogue(Leased, Base):
    """The work of reading the prices again: one row."""

    __tablename__ = "stripe_catalogues"

    name: Mapped[str] = mapped_column(primary_key=True)
    """Always `prices`."""
    synced_at: Mapped[datetime | None]
