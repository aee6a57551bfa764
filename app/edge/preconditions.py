"""Preconditions of an operation: the plan includes the feature, and the GitHub App is installed."""

from sqlalchemy import func, select

from models.installations import Installation
from rules.access.entitlements import PLANS, plan_named
from rules.errors import ServiceError
from schemas.contract import Operation
from services.core.unit_of_work import UnitOfWork


def require_entitlement(plan: str, operation: Operation) -> None:
    """Raise `feature_not_available`, with the plans that have the feature, if the organisation's plan lacks it."""
    wanted = operation.entitlement
    if wanted and wanted not in plan_named(plan).entitlements:
        having = ", ".join(each.name for each in PLANS.values() if wanted in each.entitlements)
        raise ServiceError(
            "feature_not_available", f"The {plan} plan does not include {wanted}. Plans that do: {having}."
        )


def require_installation(uow: UnitOfWork) -> None:
    """Raise `installation_removed` if the organisation has no active installation."""
    active = select(func.count()).where(
        Installation.state == "active", Installation.organization_id == uow.organization
    )
    if not uow.session.execute(active).scalar():
        message = "The GitHub App is not installed for this organisation. Install it with GET /v1/github/install-url."
        raise ServiceError("installation_removed", message)
