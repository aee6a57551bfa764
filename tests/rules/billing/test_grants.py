"""The plan in force: of the grants that have not ended, the best one."""

from datetime import UTC, datetime, timedelta

import pytest

from rules.billing.grants import GrantedPlan, PlanGrants, PlanInForce, trial_ending_soon
from rules.billing.plans import PLANS, TRIAL_PLAN, exceeded_limits

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def plan_at(*grants: GrantedPlan, default: str = "free", now: datetime = NOW) -> PlanInForce:
    return PlanGrants(grants, default).at(now)


@pytest.mark.parametrize("default", PLANS)
def test_plan_without_a_grant_is_the_default(default: str) -> None:
    assert plan_at(default=default) == PlanInForce(PLANS[default], "none", None)


@pytest.mark.parametrize(
    ("away", "plan"), [(-SECOND, "team"), (timedelta(microseconds=-1), "team"), (timedelta(), "free"), (SECOND, "free")]
)
def test_plan_ends_at_the_end_of_its_grant(away: timedelta, plan: str) -> None:
    assert plan_at(GrantedPlan("manual", "team", NOW), now=NOW + away).plan.id == plan


@pytest.mark.parametrize(
    ("grants", "wanted"),
    [
        pytest.param([("manual", "team", None), ("trial", "business", DAY)], ("business", "trial", DAY), id="highest"),
        pytest.param([("manual", "team", None), ("trial", "business", -DAY)], ("team", "manual", None), id="ended"),
        pytest.param(
            [("trial", "business", DAY), ("stripe", "business", None)], ("business", "stripe", None), id="last"
        ),
        pytest.param([("stripe", "team", DAY), ("stripe", "team", 2 * DAY)], ("team", "stripe", 2 * DAY), id="two"),
        pytest.param([("manual", "platinum", None), ("stripe", "team", None)], ("team", "stripe", None), id="unknown"),
    ],
)
def test_best_grant_in_force_gives_the_plan(
    grants: list[tuple[str, str, timedelta | None]], wanted: tuple[str, str, timedelta | None]
) -> None:
    held = [GrantedPlan(source, plan, None if ends is None else NOW + ends) for source, plan, ends in grants]  # type: ignore[arg-type]
    for order in (held, held[::-1]):
        found = plan_at(*order)
        ends = None if found.until is None else found.until - NOW
        assert (found.plan.id, found.source, ends) == wanted


def test_manual_grant_below_the_default_plan_counts() -> None:
    manual = GrantedPlan("manual", "free", NOW + DAY)
    assert plan_at(manual, default="business") == PlanInForce(PLANS["free"], "manual", NOW + DAY)
    assert plan_at(manual, GrantedPlan("stripe", "team"), default="business") == PlanInForce(
        PLANS["team"], "stripe", None
    )
    assert plan_at(manual, default="business", now=NOW + DAY) == PlanInForce(PLANS["business"], "none", None)


@pytest.mark.parametrize(
    ("grant", "wanted"),
    [
        (GrantedPlan("trial", "business", NOW + DAY), ("business", "trial")),
        (GrantedPlan("trial", "team", NOW + DAY), ("team", "none")),
        (GrantedPlan("stripe", "team"), ("team", "stripe")),
        (GrantedPlan("stripe", "free"), ("team", "none")),
    ],
)
def test_plan_is_never_below_the_default_without_a_manual_grant(grant: GrantedPlan, wanted: tuple[str, str]) -> None:
    found = plan_at(grant, default="team")
    assert (found.plan.id, found.source) == wanted
    assert found.until == (None if found.source == "none" else grant.until)


@pytest.mark.parametrize(
    ("ends", "others", "soon"),
    [
        (3 * DAY + SECOND, [], False),
        (3 * DAY, [], True),
        (SECOND, [], True),
        (timedelta(), [], False),
        (DAY, [GrantedPlan("stripe", "team")], True),
        (DAY, [GrantedPlan("stripe", "business")], False),
        (DAY, [GrantedPlan("stripe", "business", NOW + DAY)], True),
        (DAY, [GrantedPlan("stripe", "business", NOW + DAY + SECOND)], False),
    ],
)
def test_trial_ends_soon_if_its_plan_ends_with_it(ends: timedelta, others: list[GrantedPlan], soon: bool) -> None:
    trial = GrantedPlan("trial", TRIAL_PLAN.id, NOW + ends)
    assert (trial_ending_soon(PlanGrants([trial, *others]), NOW) == trial) is soon


def test_limits_are_exceeded_above_them_only() -> None:
    limits = PLANS["free"].limits
    assert exceeded_limits(limits, _usage(25, 3)) == []
    assert [(one.limit, one.allowed, one.used) for one in exceeded_limits(limits, _usage(26, 4))] == [
        ("watchedBranches", 25, 26),
        ("schedules", 3, 4),
    ]
    assert exceeded_limits(PLANS["business"].limits, _usage(10**6, 10**6)) == []


def _usage(watched_branches: int, schedules: int) -> dict[str, int]:
    return {"watched_branches": watched_branches, "schedules": schedules}
