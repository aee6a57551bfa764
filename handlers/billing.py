"""Operations of the tag Billing."""

from typing import Any

from services.billing import checkout, prices, summary, trials
from services.billing.prices import Order, PriceFilters
from services.billing.subscriptions import payments_of
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork


async def list_plans(context: ReadContext, limit: int, cursor: str | None) -> Page:
    """List all plans, the lowest first."""
    return summary.list_plans(context, cursor, limit)


def get_entitlements(uow: UnitOfWork) -> object:
    """Return what the organisation may do now, and how much of it it uses."""
    return summary.show_entitlements(uow)


def get_billing(uow: UnitOfWork) -> object:
    """Return the billing summary."""
    return summary.show_billing(uow, payments_of(uow))


def list_billing_prices(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> object:
    """List the prices of plans."""
    return prices.list_prices(uow, PriceFilters(**filters), cursor, limit)


def open_checkout(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Open a checkout session for a plan."""
    return checkout.open_checkout(
        uow, Order(body["plan"], body["interval"], body.get("currency")), body.get("return_path")
    )


def open_billing_portal(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Open a session of the customer portal."""
    return checkout.open_portal(uow, body.get("return_path"), body.get("flow"))


def start_trial(uow: UnitOfWork) -> object:
    """Start the trial, and return the billing summary."""
    trials.start_trial(uow)
    return summary.show_billing(uow, payments_of(uow))
