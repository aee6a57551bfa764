"""Plans of organisations, given by the grant of an operator."""

from sqlalchemy import delete
from sqlalchemy.orm import Session

from models.billing import PlanGrant, grants_of_organizations
from models.organizations import Organization
from rules.billing.grants import GrantedPlan, PlanGrants
from tests.factories.adding import added, now


def granted(plan: str) -> PlanGrants:
    """Return the grants of an organisation on a plan, without a database."""
    return PlanGrants(() if plan == "free" else (GrantedPlan("manual", plan),))


BUSINESS = granted("business")


def grant(session: Session, of: Organization, plan: str, source: str = "manual", **columns: object) -> PlanGrant:
    """Add a grant of a plan."""
    values = {"organization_id": of.id, "source": source, "reference": "", "plan": plan, "created_at": now(), **columns}
    return added(session, PlanGrant(**values))


def change_plan(session: Session, of: Organization, plan: str) -> None:
    """Replace all grants of an organisation by one of an operator, or none for the free plan."""
    session.execute(delete(PlanGrant).where(PlanGrant.organization_id == of.id))
    if plan != "free":
        grant(session, of, plan)


def grants_of(session: Session, of: Organization) -> PlanGrants:
    """Return the stored grants of an organisation."""
    return grants_of_organizations(session, [of.id], "free")[of.id]
