"""Gates between validation and the handler: what the plan includes, and whether the code host still lets us in."""

from sqlalchemy import func, select

from models.installations import Installation
from rules.access.entitlements import PLANS, plan_named
from rules.errors import ServiceError
from schemas.contract import Operation
from services.core.unit_of_work import UnitOfWork


def require_entitlement(plan: str, operation: Operation) -> None:
    """Refuse with `feature_not_available` what the organisation's plan lacks, naming the plans that have it."""
    wanted = operation.entitlement
    if wanted and wanted not in plan_named(plan).entitlements:
        having = ", ".join(each.name for each in PLANS.values() if wanted in each.entitlements)
        raise ServiceError("feature_not_available", f"The {plan} plan does not include {wanted}; these do: {having}.")


def require_installation(uow: UnitOfWork) -> None:
    """Refuse with `installation_removed` what needs the code host once the organisation's installation is gone."""
    active = select(func.count()).where(
        Installation.state == "active", Installation.organization_id == uow.organization
    )
    if not uow.session.execute(active).scalar():
        message = "The GitHub App is not installed for this organisation, or no longer; see GET /v1/github/install-url."
        raise ServiceError("installation_removed", message)
