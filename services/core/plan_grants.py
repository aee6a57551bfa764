"""The grants of plans of organisations that a unit of work does not act for, such as a job's."""

from collections.abc import Collection, Mapping

from models.billing import grants_of_organizations
from rules.billing.grants import PlanGrants
from rules.billing.settings import BillingSettings
from services.core.unit_of_work import UnitOfWork


def plan_grants(uow: UnitOfWork, organization_ids: Collection[str]) -> Mapping[str, PlanGrants]:
    """Return the grants of organisations by id, as they are stored now."""
    return grants_of_organizations(uow.session, organization_ids, uow.ports[BillingSettings].default_plan)


def plan_grants_of(uow: UnitOfWork, organization_id: str) -> PlanGrants:
    """Return the grants of one organisation, as they are stored now."""
    return plan_grants(uow, (organization_id,))[organization_id]
