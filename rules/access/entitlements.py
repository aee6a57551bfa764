"""Entitlements and quotas of the plans. Billing sets the plan; a plan never lifts a freeze or prevents lifting one."""

from dataclasses import dataclass

from rules.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan with its features and quotas (None: unlimited)."""

    name: str
    entitlements: frozenset[str]
    audit_retention_days: int
    watched_branches: int | None
    schedules: int | None


PLANS = {
    plan.name: plan
    for plan in (
        Plan("free", frozenset(), 7, 25, 3),
        Plan("team", frozenset({"pr_exceptions", "audit_export"}), 90, 500, 50),
        Plan("business", frozenset({"pr_exceptions", "audit_export"}), 365, None, None),
    )
}


def plan_named(name: str) -> Plan:
    """Return a plan by name; an unknown name gets the free plan."""
    return PLANS.get(name, PLANS["free"])


def require_watched_branches(plan: str, watched: int, added: int) -> None:
    """Raise `feature_not_available`, with limit and usage, if `added` more branches would exceed the quota."""
    limit = plan_named(plan).watched_branches
    if added and limit is not None and watched + added > limit:
        raise ServiceError(
            "feature_not_available",
            f"The {plan} plan includes {limit} watched branches. You have {watched}, and this would add {added}.",
        )


def require_schedules(plan: str, existing: int, added: int) -> None:
    """Raise `feature_not_available`, with limit and usage, if `added` more schedules would exceed the quota."""
    limit = plan_named(plan).schedules
    if added and limit is not None and existing + added > limit:
        raise ServiceError(
            "feature_not_available",
            f"The {plan} plan includes {limit} schedules. You have {existing}, and this would add {added}.",
        )
