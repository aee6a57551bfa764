"""The plans: entitlements, limits and rank. A plan never lifts a freeze, prevents lifting one, or decides a verdict."""

from dataclasses import dataclass

from rules.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan limits (None: unlimited)."""

    watched_branches: int | None
    schedules: int | None
    audit_retention_days: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan with its features and limits; the higher rank is the better plan."""

    id: str
    name: str
    rank: int
    entitlements: tuple[str, ...]
    limits: Limits
    purchasable: bool
    trial_days: int | None = None
    """Length of the trial of this plan; None: it has none."""

    def includes(self, entitlement: str) -> bool:
        """True if the plan has the feature."""
        return entitlement in self.entitlements


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of the limited things an organisation has."""

    watched_branches: int
    schedules: int


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that an organisation is over, since it lost a better plan; what it has goes on."""

    limit: str
    """`watchedBranches` or `schedules`."""
    allowed: int
    used: int


_PAID = ("audit_export", "pr_exceptions")
PLANS = {
    plan.id: plan
    for plan in (
        Plan("free", "Free", 0, (), Limits(25, 3, 7), purchasable=False),
        Plan("team", "Team", 1, _PAID, Limits(500, 50, 90), purchasable=True),
        Plan("business", "Business", 2, _PAID, Limits(None, None, 365), purchasable=True, trial_days=14),
    )
}
FREE = PLANS["free"]
TRIAL_PLAN = max(PLANS.values(), key=lambda plan: plan.rank)
"""The plan that a trial gives: the top one."""


def plans_with(entitlement: str) -> list[str]:
    """Return the ids of the plans that include a feature, the lowest first."""
    return [plan.id for plan in PLANS.values() if plan.includes(entitlement)]


def require_feature(plan: Plan, entitlement: str) -> None:
    """Raise `feature_not_available`, with the plans that have the feature, if a plan lacks it."""
    if not plan.includes(entitlement):
        having = ", ".join(plans_with(entitlement))
        raise ServiceError(
            "feature_not_available", f"The {plan.id} plan does not include {entitlement}. Plans that do: {having}."
        )


def exceeded_limits(limits: Limits, usage: Usage) -> list[ExceededLimit]:
    """Return the limits that the usage exceeds."""
    compared = (
        ("watchedBranches", limits.watched_branches, usage.watched_branches),
        ("schedules", limits.schedules, usage.schedules),
    )
    return [ExceededLimit(name, limit, used) for name, limit, used in compared if limit is not None and used > limit]


def require_watched_branches(plan: Plan, watched: int, added: int) -> None:
    """Raise `feature_not_available`, with limit and usage, if `added` more branches would exceed the quota."""
    _require(plan, plan.limits.watched_branches, "watched branches", watched, added)


def require_schedules(plan: Plan, existing: int, added: int) -> None:
    """Raise `feature_not_available`, with limit and usage, if `added` more schedules would exceed the quota."""
    _require(plan, plan.limits.schedules, "schedules", existing, added)


def _require(plan: Plan, limit: int | None, things: str, existing: int, added: int) -> None:
    if added and limit is not None and existing + added > limit:
        raise ServiceError(
            "feature_not_available",
            f"The {plan.id} plan includes {limit} {things}. You have {existing}, and this would add {added}.",
        )
