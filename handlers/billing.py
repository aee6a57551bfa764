"""Operations of the tag Billing."""

from services.billing import summary, trials
from services.billing.summary import Payments
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
    return summary.show_billing(uow, Payments())


def start_trial(uow: UnitOfWork) -> object:
    """Start the trial, and return the billing summary."""
    trials.start_trial(uow)
    return summary.show_billing(uow, Payments())
