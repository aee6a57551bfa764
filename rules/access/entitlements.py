"""What each plan includes. Billing fills an organisation's plan; nothing here ever lifts a freeze or blocks a thaw."""

from dataclasses import dataclass

from rules.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan: its features, and its quotas (None: no limit)."""

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
    """Return a plan; a name that this version does not know has what the free plan has."""
    return PLANS.get(name, PLANS["free"])


def require_watched_branches(plan: str, watched: int, added: int) -> None:
    """Raise `feature_not_available`, naming limit and usage, if the plan does not reach for `added` more branches."""
    limit = plan_named(plan).watched_branches
    if added and limit is not None and watched + added > limit:
        raise ServiceError(
            "feature_not_available",
            f"The {plan} plan includes {limit} watched branches; {watched} are watched and this would add {added}.",
        )


def require_schedules(plan: str, existing: int, added: int) -> None:
    """Raise `feature_not_available`, naming limit and usage, if the plan does not reach for `added` more schedules."""
    limit = plan_named(plan).schedules
    if added and limit is not None and existing + added > limit:
        raise ServiceError(
            "feature_not_available",
            f"The {plan} plan includes {limit} schedules; there are {existing} and this would add {added}.",
        )
