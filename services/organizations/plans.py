"""Change the plan of an organisation. `rules/access/entitlements.py` says what a plan includes."""

from models.organizations import Organization
from rules.access.entitlements import PLANS
from rules.access.permissions import SYSTEM, Actor
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity.support import find_organization
from services.organizations.organizations import locked


def change_plan(uow: UnitOfWork, reference: str, plan: str, *, by: str | None) -> tuple[Organization, str]:
    """Give an organisation, named by id or slug, another plan; returns it, and the plan that it had.

    `by` is the operator, whom the audit then names. Raises `not_found`, `organization_deleted`, and `invalid_state`
    when it has this plan already or there is no such plan.
    """
    if plan not in PLANS:
        raise ServiceError("invalid_state", f"There is no plan {plan!r}: there are {', '.join(PLANS)}.")
    organization = find_organization(uow, reference)
    uow.bind_organization(organization.id, Actor("support", None, by) if by else SYSTEM)
    uow.session.expire(organization)
    organization = locked(uow)
    before = organization.plan
    if before == plan:
        raise ServiceError("invalid_state", f"{organization.name} ({organization.id}) has the plan {plan} already.")
    organization.plan = plan
    uow.audit(
        "organization.plan_changed",
        ("organization", organization.id, organization.name),
        before={"plan": before},
        after={"plan": plan},
    )
    return organization, before
