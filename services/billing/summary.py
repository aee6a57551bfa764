"""The catalogue of plans, what an organisation's plan includes and how much of it is used, and the billing summary."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from models.billing import PlanGrant, usage_of
from rules.billing.grants import PlanInForce
from rules.billing.plans import PLANS, exceeded_limits
from services.billing.used_trials import has_used_trial, person_of
from services.core.pagination import Page, page_for_everybody
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Payments:
    """What the payment provider knows of an organisation, as in the API; without one, there is nothing."""

    subscription: dict[str, Any] | None = None
    invoices: Sequence[dict[str, Any]] = ()
    synced_at: datetime | None = None


def list_plans(context: ReadContext, cursor: str | None, limit: int) -> Page:
    """Return a page of all plans, the lowest first. Raise `invalid_cursor`."""
    return page_for_everybody(context, "list_plans", list(PLANS.values()), cursor, limit)


def show_entitlements(uow: UnitOfWork) -> dict[str, Any]:
    """Return the plan in force with its features and limits, the usage, and the limits that are exceeded."""
    current = uow.caller.grants.at(uow.now)
    usage = usage_of(uow.session, uow.organization)
    return {
        **_plan_view(current),
        "entitlements": current.plan.entitlements,
        "limits": current.plan.limits,
        "usage": usage,
        "exceeded": exceeded_limits(current.plan.limits, usage),
    }


def show_billing(uow: UnitOfWork, payments: Payments) -> dict[str, Any]:
    """Return the billing summary: the plan in force, the trial of the caller, and what the payment provider knows."""
    return {**_plan_view(uow.caller.grants.at(uow.now)), "trial": _trial_view(uow), **asdict(payments)}


def audit_snapshot(current: PlanInForce) -> dict[str, Any]:
    """Return the plan in force for an audit entry."""
    return _plan_view(current)


def _plan_view(current: PlanInForce) -> dict[str, Any]:
    return {"plan": current.plan.id, "source": current.source, "until": current.until}


def _trial_view(uow: UnitOfWork) -> dict[str, Any]:
    """Return the trial of the organisation, or whether the caller can start one.

    A trial is once per person: without a person it is available while the organisation has had none.
    """
    trial = uow.session.get(PlanGrant, (uow.organization, "trial", ""))
    if trial is not None and trial.as_grant.is_in_force(uow.now):
        return {"state": "active", "ends_at": trial.until}
    person = person_of(uow)
    used = trial is not None if person is None else has_used_trial(uow, person)
    return {"state": "used" if used else "available", "ends_at": trial.until if trial is not None else None}
