"""The prices of plans: a copy of those at Stripe, which a job reads again every hour and after a webhook."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import delete, insert, select

from integrations.stripe import Stripe
from models.stripe import StripeCatalogue, StripePrice
from rules.billing.prices import EXPONENTS
from rules.errors import Detail, ServiceError
from services.billing.stripe_work import do_stripe_work
from services.core.pagination import Page, page_of
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, RetryPolicy, WorkQueue

REFRESH_INTERVAL = timedelta(hours=1)
LEASE_DURATION = timedelta(minutes=5)
"""Prices are read in pages, each of which may take 20 seconds."""
CATALOGUES = WorkQueue(
    "prices",
    StripeCatalogue,
    select(StripeCatalogue.name, StripeCatalogue.attempts),
    lease=LEASE_DURATION,
    retry=RetryPolicy(timedelta(seconds=5), timedelta(minutes=10)),
)


@dataclass(frozen=True, slots=True)
class Order:
    """A plan to be bought, paid each `interval` (`month` or `year`)."""

    plan: str
    interval: str
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class PriceFilters:
    """Filters of the list; None matches all."""

    currency: str | None = None
    interval: str | None = None


def list_prices(uow: UnitOfWork, filters: PriceFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of the prices on sale, the lowest amount first.

    Raise `stripe_unavailable` if the prices were never read, and `invalid_cursor`.
    """
    query = select(StripePrice).where(StripePrice.on_sale)
    if filters.currency is not None:
        query = query.where(StripePrice.currency == filters.currency)
    if filters.interval is not None:
        query = query.where(StripePrice.interval == filters.interval)
    keys = (StripePrice.unit_amount, StripePrice.currency, StripePrice.id)
    page = page_of(uow, "list_billing_prices", filters, query, keys, cursor=cursor, limit=limit, ascending=True)
    _require_prices_read(uow)
    return Page([_view(price) for price in page.data], page.next_cursor)


def find_price(uow: UnitOfWork, order: Order) -> StripePrice:
    """Return the price of an order, in the default currency if it names none.

    Raise `stripe_unavailable` if the prices were never read, `validation_failed` if the plan is not sold like that.
    """
    _require_prices_read(uow)
    query = select(StripePrice).where(
        StripePrice.on_sale, StripePrice.plan == order.plan, StripePrice.interval == order.interval
    )
    in_currency = StripePrice.is_default if order.currency is None else StripePrice.currency == order.currency
    price = uow.session.scalars(query.where(in_currency).order_by(StripePrice.id).limit(1)).one_or_none()
    if price is None:
        raise _not_sold(uow, order)
    return price


def refresh_prices(uow_factory: UnitOfWorkFactory) -> bool:
    """Read the prices again; False if they are not due."""
    return do_stripe_work(uow_factory, CATALOGUES, _refresh)


def _refresh(uow_factory: UnitOfWorkFactory, stripe: Stripe, lease: Lease) -> None:
    prices = stripe.list_prices()
    with uow_factory.open(SYSTEM_CALLER) as uow:
        lease.require(uow)
        uow.session.execute(delete(StripePrice))
        if prices:
            uow.session.execute(insert(StripePrice), [asdict(price) for price in prices])
        uow.session.get_one(StripeCatalogue, lease.row.name).synced_at = uow.now
        uow.session.flush()
        lease.release(uow, due_at=uow.now + REFRESH_INTERVAL)


def _not_sold(uow: UnitOfWork, order: Order) -> ServiceError:
    """Return the error of an order for which there is no price; it says how its plan is sold."""
    query = select(StripePrice.interval, StripePrice.currency).where(
        StripePrice.on_sale, StripePrice.plan == order.plan
    )
    sold: dict[str, list[str]] = {}
    for interval, currency in uow.session.execute(query.order_by(StripePrice.interval, StripePrice.currency)):
        sold.setdefault(interval, []).append(currency)
    sold_as = ", ".join(f"per {interval} in {' or '.join(currencies)}" for interval, currencies in sold.items())
    message = (
        f"The {order.plan} plan is sold {sold_as}." if sold else f"The {order.plan} plan is not sold at the moment."
    )
    path = "/plan" if not sold else "/currency" if order.interval in sold else "/interval"
    return ServiceError("validation_failed", message, details=(Detail(path, message),))


def _require_prices_read(uow: UnitOfWork) -> None:
    if uow.session.scalar(select(StripeCatalogue.synced_at).limit(1)) is None:
        raise ServiceError("stripe_unavailable", "The prices have not been read from the payment provider yet.")


def _view(price: StripePrice) -> dict[str, Any]:
    return {
        "id": price.id,
        "plan": price.plan,
        "interval": price.interval,
        "currency": price.currency,
        "unit_amount": price.unit_amount,
        "currency_exponent": EXPONENTS[price.currency],
        "tax_behavior": price.tax_behavior,
    }
