"""Stripe's client for services that answer a request, and requests to read customers and prices again."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select, text

from integrations.stripe import Stripe, StripeUnavailableError
from models.stripe import StripeCustomer
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork

_REQUEST_CUSTOMER = text("SELECT request_stripe_customer(:customer, :now)")
_REQUEST_PRICES = text("SELECT request_stripe_prices(:now)")


def stripe_of(uow: UnitOfWork) -> Stripe:
    """Return the process's client; raise `stripe_unavailable` if none is configured."""
    stripe = uow.ports.find(Stripe)
    if stripe is None:
        raise ServiceError("stripe_unavailable", "Nothing can be bought here: STRIPE_SECRET_KEY is not set.")
    return stripe


@contextmanager
def calling_stripe(uow: UnitOfWork) -> Iterator[None]:
    """Run calls of Stripe outside of the transaction; raise `stripe_unavailable` if Stripe does not respond."""
    with uow.outside_transaction():
        try:
            yield
        except StripeUnavailableError as error:
            message = "The payment provider is not available. Nothing was changed: try again."
            raise ServiceError("stripe_unavailable", message) from error


def customer_of(uow: UnitOfWork, *, lock: bool = False) -> StripeCustomer | None:
    """Return the customer of the organisation, or None."""
    query = select(StripeCustomer).where(StripeCustomer.organization_id == uow.organization)
    options = {"populate_existing": True}
    return uow.session.scalars(query.with_for_update() if lock else query, execution_options=options).one_or_none()


def request_sync(uow: UnitOfWork, customer_id: str) -> bool:
    """Have a customer read again by the job `billing` (`services/billing/sync.py`); False if it is unknown."""
    known = bool(uow.session.scalar(_REQUEST_CUSTOMER, {"customer": customer_id, "now": uow.now}))
    if known:
        uow.wake("billing")
    return known


def request_prices(uow: UnitOfWork) -> None:
    """Have the prices read again by the job `prices` (`services/billing/prices.py`)."""
    uow.session.execute(_REQUEST_PRICES, {"now": uow.now})
    uow.wake("prices")
