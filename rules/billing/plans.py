"""The plans: entitlements, limits and rank. A plan never lifts a freeze, prevents lifting one, or decides a verdict.

A new limit of a number is a row of `COUNTED`, with its value in each plan; `models/billing.py` counts what it limits,
and `openapi.yaml` shows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rules.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Counted:
    """Things whose number a plan limits."""

    property: str
    """The name in the API."""
    noun: str


COUNTED = {
    "watched_branches": Counted("watchedBranches", "watched branches"),
    "schedules": Counted("schedules", "schedules"),
}
"""The limits of a number, by their names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan with its features and limits; the higher rank is the better plan."""

    id: str
    name: str
    rank: int
    entitlements: tuple[str, ...]
    limits: Mapping[str, int | None]
    """By name: those of `COUNTED` (None: unlimited), and `audit_retention_days`."""
    purchasable: bool
    trial_days: int | None = None
    """Length of the trial of this plan; None: it has none."""

    @property
    def audit_retention_days(self) -> int:
        """For how long the audit log shows what was done."""
        return self.limits["audit_retention_days"] or 0

    def includes(self, entitlement: str) -> bool:
        """True if the plan has the feature."""
        return entitlement in self.entitlements


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that an organisation is over, since it lost a better plan; what it has goes on."""

    limit: str
    """By its name in the API."""
    allowed: int
    used: int


def _limits(watched_branches: int | None, schedules: int | None, audit_retention_days: int) -> Mapping[str, int | None]:
    return {
        "watched_branches": watched_branches,
        "schedules": schedules,
        "audit_retention_days": audit_retention_days,
    }


_PAID = ("audit_export", "pr_exceptions")
PLANS = {
    plan.id: plan
    for plan in (
        Plan("free", "Free", 0, (), _limits(25, 3, 7), purchasable=False),
        Plan("team", "Team", 1, _PAID, _limits(500, 50, 90), purchasable=True),
        Plan("business", "Business", 2, _PAID, _limits(None, None, 365), purchasable=True, trial_days=14),
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


def exceeded_limits(limits: Mapping[str, int | None], usage: Mapping[str, int]) -> list[ExceededLimit]:
    """Return the limits that the usage exceeds, both by the names of `COUNTED`."""
    found = ((each.property, limits[name], usage[name]) for name, each in COUNTED.items())
    return [ExceededLimit(name, limit, used) for name, limit, used in found if limit is not None and used > limit]


def require_room(plan: Plan, name: str, existing: int, added: int) -> None:
    """Raise `feature_not_available`, with limit and usage, if `added` more of what a limit counts would exceed it."""
    limit = plan.limits[name]
    if added and limit is not None and existing + added > limit:
        raise ServiceError(
            "feature_not_available",
            f"The {plan.id} plan includes {limit} {COUNTED[name].noun}. You have {existing}, and this would add "
            f"{added}.",
        )
