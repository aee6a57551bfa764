"""Plans that operators grant. An organisation has one such grant at most: a new one replaces it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Executable, select, update
from sqlalchemy.dialects.postgresql import insert

from models.billing import GRANT_KEY, PlanGrant
from models.organizations import Organization
from rules.access.permissions import SYSTEM, Actor
from rules.billing.grants import PlanInForce
from rules.billing.plans import PLANS
from rules.billing.settings import BillingSettings
from rules.errors import ServiceError
from services.billing.summary import audit_snapshot
from services.core.plan_grants import plan_grants, plan_grants_of
from services.core.unit_of_work import UnitOfWork
from services.identity.support import find_organization
from services.organizations.organizations import lock_current


@dataclass(frozen=True, slots=True)
class OrganizationPlan:
    """An organisation, its plan in force, and all its grants, also those that have ended."""

    organization: Organization
    plan: PlanInForce
    grants: Sequence[PlanGrant]


def grant_plan(
    uow: UnitOfWork, reference: str, plan: str, until: datetime | None, *, by: str | None
) -> OrganizationPlan:
    """Grant a plan to an organisation, given by id or slug, until an instant or without end.

    The audit log names the operator `by`. Raise `not_found`, `organization_deleted`, and `invalid_state` if the plan
    does not exist, is granted already, or is that of every organisation, or if the end is in the past.
    """
    if plan not in PLANS:
        raise ServiceError("invalid_state", f"Unknown plan {plan!r}. Plans: {', '.join(PLANS)}.")
    organization = _lock(uow, reference, by)
    if until is not None and until <= uow.now:
        raise ServiceError("invalid_state", f"The end, {until.isoformat()}, is in the past.")
    if plan == uow.ports[BillingSettings].default_plan:
        raise ServiceError("invalid_state", f"Every organisation has the {plan} plan without a grant: use --end.")
    current = _manual_grant(uow)
    if current is not None and current.as_grant.is_in_force(uow.now) and (current.plan, current.until) == (plan, until):
        raise ServiceError("invalid_state", f"{organization.name} ({organization.id}) has this grant already.")
    values = {"plan": plan, "until": until, "created_at": uow.now}
    statement = insert(PlanGrant).values(organization_id=organization.id, source="manual", reference="", **values)
    _apply(uow, organization, statement.on_conflict_do_update(index_elements=GRANT_KEY, set_=values))
    return _describe(uow, [organization])[0]


def end_plan(uow: UnitOfWork, reference: str, *, by: str | None) -> OrganizationPlan:
    """End the manual plan of an organisation now.

    Raise `not_found`, `organization_deleted`, and `invalid_state` if it has none.
    """
    organization = _lock(uow, reference, by)
    current = _manual_grant(uow)
    if current is None or not current.as_grant.is_in_force(uow.now):
        raise ServiceError("invalid_state", f"{organization.name} ({organization.id}) has no manual plan.")
    ended = update(PlanGrant).where(PlanGrant.organization_id == organization.id, PlanGrant.source == "manual")
    _apply(uow, organization, ended.values(until=uow.now))
    return _describe(uow, [organization])[0]


def list_plans_of_organizations(uow: UnitOfWork, reference: str | None) -> list[OrganizationPlan]:
    """Return the organisation with this id or slug; or without one, all that ever had a grant, in order of their slugs.

    Raise `not_found`, `organization_deleted`.
    """
    if reference is not None:
        return _describe(uow, [find_organization(uow, reference)])
    query = select(Organization).where(
        Organization.deleted_at.is_(None), Organization.id.in_(select(PlanGrant.organization_id))
    )
    return _describe(uow, uow.session.scalars(query.order_by(Organization.slug)).all())


def _lock(uow: UnitOfWork, reference: str, by: str | None) -> Organization:
    """Return the organisation, locked, and continue in it as the operator."""
    organization = find_organization(uow, reference)
    uow.bind_organization(organization.id, Actor("support", None, by) if by else SYSTEM)
    uow.session.expire(organization)
    return lock_current(uow)


def _manual_grant(uow: UnitOfWork) -> PlanGrant | None:
    return uow.session.get(PlanGrant, (uow.organization, "manual", ""))


def _apply(uow: UnitOfWork, organization: Organization, statement: Executable) -> None:
    """Execute a statement that changes the manual grant, and audit the plan before and after it."""
    before = audit_snapshot(plan_grants_of(uow, organization.id).at(uow.now))
    uow.session.execute(statement.execution_options(synchronize_session=False))
    uow.session.expire_all()
    after = audit_snapshot(plan_grants_of(uow, organization.id).at(uow.now))
    granted = uow.session.get_one(PlanGrant, (organization.id, "manual", ""))
    uow.audit(
        "organization.plan_changed",
        ("organization", organization.id, organization.name),
        before=before,
        after=after,
        grant={"plan": granted.plan, "until": granted.until},
    )


def _describe(uow: UnitOfWork, organizations: Sequence[Organization]) -> list[OrganizationPlan]:
    ids = [organization.id for organization in organizations]
    query = select(PlanGrant).where(PlanGrant.organization_id.in_(ids)).order_by(PlanGrant.source, PlanGrant.reference)
    rows, grants = uow.session.scalars(query).all(), plan_grants(uow, ids)
    return [
        OrganizationPlan(each, grants[each.id].at(uow.now), [row for row in rows if row.organization_id == each.id])
        for each in organizations
    ]
