"""Grants of plans, and the plan in force at an instant.

An organisation has the best plan that a grant gives it, while `now < until`, and at least the default plan, unless an
operator granted it a plan: only that may be a lower one. Ends are exact: the plan is computed from the grants whenever
it is needed, so nothing has to run for an end to come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from rules.billing.plans import FREE, PLANS, TRIAL_PLAN, Plan

GrantSource = Literal["manual", "stripe", "trial"]
"""`manual`: an operator; `stripe`: a subscription; `trial`: the trial without payment."""
SOURCES: tuple[GrantSource, ...] = get_args(GrantSource)
PlanSource = Literal[GrantSource, "none"]
TRIAL_LENGTH = timedelta(days=TRIAL_PLAN.trial_days or 0)
TRIAL_NOTICE = timedelta(days=3)
"""How long before its end a trial is announced to end."""
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GrantedPlan:
    """One reason for which an organisation has a plan."""

    source: GrantSource
    plan: str
    until: datetime | None = None

    def is_in_force(self, now: datetime) -> bool:
        """True before the end of the grant, if its plan exists."""
        return self.plan in PLANS and (self.until is None or now < self.until)


@dataclass(frozen=True, slots=True)
class PlanInForce:
    """The plan of an organisation at an instant, its source, and the end of that grant (None: no end)."""

    plan: Plan
    source: PlanSource
    until: datetime | None


@dataclass(frozen=True, slots=True)
class PlanGrants:
    """All grants of an organisation, and the id of the plan that every organisation has without one."""

    grants: Sequence[GrantedPlan] = ()
    default_plan: str = FREE.id

    def in_force(self, now: datetime, source: GrantSource | None = None) -> list[GrantedPlan]:
        """Return the grants in force, or those of one source: the best first, of equal ones the one that ends last."""
        held = [grant for grant in self.grants if source in {None, grant.source} and grant.is_in_force(now)]
        return sorted(held, key=_worth, reverse=True)

    def at(self, now: datetime) -> PlanInForce:
        """Return the plan in force: the best one that a grant gives, or the default plan if it is better.

        Beside a manual grant, the default plan does not count.
        """
        held, default = self.in_force(now), PLANS[self.default_plan]
        if not held:
            return PlanInForce(default, "none", None)
        best = held[0]
        is_manual = any(grant.source == "manual" for grant in held)
        if not is_manual and (default.rank, _NEVER) > (PLANS[best.plan].rank, best.until or _NEVER):
            return PlanInForce(default, "none", None)
        return PlanInForce(PLANS[best.plan], best.source, best.until)


def _worth(grant: GrantedPlan) -> tuple[int, datetime, str]:
    return PLANS[grant.plan].rank, grant.until or _NEVER, grant.source


def trial_ending_soon(grants: PlanGrants, now: datetime) -> GrantedPlan | None:
    """Return the trial that ends within the time of the notice if its plan ends with it: no other grant gives it."""
    trial = next(iter(grants.in_force(now, "trial")), None)
    if trial is None or trial.until is None or trial.until - now > TRIAL_NOTICE:
        return None
    return trial if grants.at(trial.until).plan.rank < PLANS[trial.plan].rank else None
