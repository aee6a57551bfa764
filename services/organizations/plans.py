"""The plan of an organisation. `rules/access/entitlements.py` defines what a plan includes."""

from models.organizations import Organization
from rules.access.entitlements import PLANS
from rules.access.permissions import SYSTEM, Actor
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity.support import find_organization
from services.organizations.organizations import lock_current


def change_plan(uow: UnitOfWork, reference: str, plan: str, *, by: str | None) -> tuple[Organization, str]:
    """Change the plan of an organisation, given by id or slug; return it with its previous plan.

    The audit log names the operator `by`. Raise `not_found`, `organization_deleted`, and `invalid_state` if the plan
    does not exist or is the current one.
    """
    if plan not in PLANS:
        raise ServiceError("invalid_state", f"Unknown plan {plan!r}. Plans: {', '.join(PLANS)}.")
    organization = find_organization(uow, reference)
    uow.bind_organization(organization.id, Actor("support", None, by) if by else SYSTEM)
    uow.session.expire(organization)
    organization = lock_current(uow)
    before = organization.plan
    if before == plan:
        raise ServiceError("invalid_state", f"{organization.name} ({organization.id}) is already on the {plan} plan.")
    organization.plan = plan
    uow.audit(
        "organization.plan_changed",
        ("organization", organization.id, organization.name),
        before={"plan": before},
        after={"plan": plan},
    )
    return organization, before
