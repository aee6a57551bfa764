"""Trials of the top plan: started by a person or by a key of theirs, once per person, and announced to end."""

from dataclasses import replace
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from models.billing import GRANT_KEY, PlanGrant
from models.organizations import Organization
from rules import web_addresses
from rules.billing.grants import TRIAL_LENGTH, TRIAL_NOTICE, trial_ending_soon
from rules.billing.plans import PLANS, TRIAL_PLAN
from rules.errors import ServiceError
from rules.notifications.links import in_organization
from rules.web_addresses import WebOrigin
from services.billing.summary import audit_snapshot
from services.billing.used_trials import has_used_trial, person_of, record_trial
from services.core.batch import acquire_periodic, for_each_isolated
from services.core.plan_grants import plan_grants_of
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.mail.outbox import enqueue_mail
from services.organizations.members import administrator_addresses
from services.organizations.organizations import lock_current

ANNOUNCE_INTERVAL = timedelta(minutes=1)
"""How often the sweep looks for trials that end soon."""


def start_trial(uow: UnitOfWork) -> None:
    """Start the trial of the organisation.

    Raise `trial_already_used` if the person had one, in any organisation; `invalid_state` if a trial is running, if the
    default plan is as good, or if no member acts; `billing_source_conflict` if an operator or a subscription gives a
    plan.
    """
    organization = lock_current(uow)
    grants = plan_grants_of(uow, organization.id)
    person = person_of(uow)
    if person is None:
        raise ServiceError("invalid_state", "The person who created this API key is no longer a member. Sign in.")
    if has_used_trial(uow, person):
        raise _already_used()
    if grants.in_force(uow.now, "trial"):
        raise ServiceError("invalid_state", "A trial is running already.")
    if grants.in_force(uow.now, "manual") or grants.in_force(uow.now, "stripe"):
        raise ServiceError("billing_source_conflict", "The organisation has a plan that is not a trial.")
    if PLANS[grants.default_plan].rank >= TRIAL_PLAN.rank:
        raise ServiceError("invalid_state", f"The organisation has the {TRIAL_PLAN.id} plan without a trial.")
    if not record_trial(uow, person):
        raise _already_used()
    values = {"plan": TRIAL_PLAN.id, "until": uow.now + TRIAL_LENGTH, "created_at": uow.now, "announced_at": None}
    statement = insert(PlanGrant).values(organization_id=organization.id, source="trial", reference="", **values)
    uow.session.execute(statement.on_conflict_do_update(index_elements=GRANT_KEY, set_=values))
    before = audit_snapshot(grants.at(uow.now))
    uow.caller = replace(uow.caller, grants=plan_grants_of(uow, organization.id))
    uow.audit(
        "billing.trial_started",
        ("organization", organization.id, organization.name),
        before=before,
        after=audit_snapshot(uow.caller.grants.at(uow.now)),
    )


def _already_used() -> ServiceError:
    return ServiceError("trial_already_used", "You have had a trial. A trial is once per person.")


def announce_trial_ends(uow_factory: UnitOfWorkFactory) -> int:
    """Mail owners and admins of organisations whose trial ends within three days, once.

    Return the number of these organisations. A trial is not announced while another grant gives the plan beyond its
    end.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "trial_ends", ANNOUNCE_INTERVAL):
            return 0
        query = (
            select(PlanGrant.organization_id)
            .join(Organization, Organization.id == PlanGrant.organization_id)
            .where(PlanGrant.source == "trial", PlanGrant.announced_at.is_(None), Organization.deleted_at.is_(None))
            .where(PlanGrant.until > uow.now, PlanGrant.until <= uow.now + TRIAL_NOTICE)
            .order_by(PlanGrant.until)
        )
        organizations = uow.session.scalars(query).all()
    return for_each_isolated(organizations, lambda organization_id: _announce(uow_factory, organization_id))


def _announce(uow_factory: UnitOfWorkFactory, organization_id: str) -> bool:
    with uow_factory.open(system_caller(organization_id)) as uow:
        organization = lock_current(uow)
        row = uow.session.get_one(PlanGrant, (organization_id, "trial", ""))
        trial = trial_ending_soon(plan_grants_of(uow, organization_id), uow.now)
        if row.announced_at is not None or trial is None:
            return False
        row.announced_at = uow.now
        for address in administrator_addresses(uow):
            enqueue_mail(
                uow,
                address,
                "trial_ending",
                organization=organization.name,
                plan=PLANS[trial.plan].name,
                ends_at=trial.until,
                url=uow.ports[WebOrigin].url + in_organization(web_addresses.BILLING, organization.id),
            )
    return True
