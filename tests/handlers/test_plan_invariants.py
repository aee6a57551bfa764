"""Plans, time and freezes in any order: a model of a few lines says at every instant which plan is in force.

Entitlements, quotas and exceptions follow the plan, in both directions; no freeze ends and no lift is refused by it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

import httpx
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from redis import Redis
from sqlalchemy import delete
from sqlalchemy.orm import Session

from models.billing import PlanGrant
from rules.billing.plans import PLANS
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.conftest import found
from tests.handlers.freezing_machine import FreezingMachine, code
from tests.harness import cleaning
from tests.harness.clock import MovableClock
from tests.harness.state_machines import explore
from tools.fake_github import FakeGitHub

ENDS = st.sampled_from([None, 1, 3600, 3601, 86_400])
"""Seconds until the end of a grant."""
STEPS = st.sampled_from([1, 3599, 3600, 86_399])
"""Seconds that pass."""


@dataclass
class Model:
    """The grants by their keys."""

    grants: dict[tuple[str, str], tuple[str, datetime | None]] = field(default_factory=dict)
    trial_used: bool = False
    schedules: int = 0

    def plan(self, now: datetime) -> str:
        held = [plan for plan, until in self.grants.values() if until is None or now < until]
        return max(held, key=list(PLANS).index, default="free")

    def has(self, source: str, now: datetime) -> bool:
        found = [until for (each, _), (_, until) in self.grants.items() if each == source]
        return any(until is None or now < until for until in found)


class Machine(FreezingMachine):
    """An organisation with a branch that is frozen again and again, and whose plan changes."""

    found: ClassVar[Callable[[], Tenant]]

    def __init__(self) -> None:
        super().__init__()
        self.clock.offset = timedelta()
        self.now = self.clock.at = factories.now()
        self.tenant = type(self).found()
        self.session = self.tenant.session
        repository = self.tenant.repository("web")
        self.branch = factories.branch(self.session, repository)
        self.pull = factories.pull_request(self.session, repository)
        person = factories.member(self.session, self.tenant.organization, "owner")
        created_by = {"type": "user", "id": person.id, "name": person.name}
        self.key = self.tenant.key(created_by=created_by)
        self.model = Model()

    # --- plans and time -------------------------------------------------------------------------------------------

    @rule(
        source=st.sampled_from([("manual", ""), ("stripe", "sub_1"), ("stripe", "sub_2")]),
        plan=st.sampled_from(["team", "business"]),
        seconds=ENDS,
    )
    def grant(self, source: tuple[str, str], plan: str, seconds: int | None) -> None:
        self._forget(source)
        until = None if seconds is None else self.now + timedelta(seconds=seconds)
        name, reference = source
        factories.grant(self.session, self.tenant.organization, plan, name, until=until, reference=reference)
        self.model.grants[source] = (plan, until)

    @precondition(lambda self: self.model.grants)
    @rule(which=st.integers(0, 9))
    def end_grant(self, which: int) -> None:
        sources = sorted(source for source in self.model.grants if source[0] != "trial")
        if sources:
            self._forget(sources[which % len(sources)])

    def _forget(self, source: tuple[str, str]) -> None:
        same = (PlanGrant.source == source[0], PlanGrant.reference == source[1])
        self.session.execute(delete(PlanGrant).where(PlanGrant.organization_id == self.tenant.id, *same))
        self.model.grants.pop(source, None)

    @rule()
    def start_trial(self) -> None:
        answer = self.key.post("/v1/billing/trial")
        if self.model.trial_used:
            assert code(answer) == "trial_already_used"
        elif self.model.has("manual", self.now) or self.model.has("stripe", self.now):
            assert code(answer) == "billing_source_conflict"
        else:
            assert answer.status_code == 200, answer.text
            self.model.trial_used = True
            self.model.grants["trial", ""] = ("business", self.now + timedelta(days=14))

    @rule(seconds=STEPS, back=st.booleans())
    def pass_time(self, seconds: int, back: bool) -> None:
        """Let time pass, or go to the last second before the next end of a grant."""
        ends = [until for _, until in self.model.grants.values() if until is not None and until > self.now]
        to_end = min(ends, default=self.now) - timedelta(seconds=1)
        self.now = self.clock.at = to_end if back and to_end > self.now else self.now + timedelta(seconds=seconds)

    # --- what depends on the plan, and what does not ------------------------------------------------------------------

    @rule()
    def add_schedule(self) -> None:
        """Add as many as it takes for the limit of the lowest plan to matter."""
        limit = PLANS[self.model.plan(self.now)].limits["schedules"]
        body = {
            "name": "Fridays",
            "scope": {"type": "branch", "branchId": self.branch.id},
            "timezone": "UTC",
            "recurrence": {"frequency": "weekly", "startDate": "2026-01-02", "byDay": ["FR"]},
            "window": {"startTime": "17:00", "endTime": "18:00"},
            "reason": "The team is away",
            "allowOverlap": True,
            "enabled": False,
        }
        answer = self.key.post("/v1/schedules", body)
        if limit is not None and self.model.schedules >= limit:
            assert code(answer) == "feature_not_available"
            assert f"{limit} schedules. You have {self.model.schedules}" in answer.json()["error"]["message"]
        else:
            assert answer.status_code == 201, answer.text
            self.model.schedules += 1

    @precondition(lambda self: self.freezes)
    @rule()
    def request_and_revoke_exception(self) -> None:
        body = {"pullRequest": f"acme/web#{self.pull.number}", "reason": "The fix for payments"}
        answer = self.key.post("/v1/exception-requests", body)
        if PLANS[self.model.plan(self.now)].includes("pr_exceptions"):
            assert answer.status_code == 201, answer.text
            self._end_plan_for_a_moment_and_revoke(answer.json()["data"][0]["id"])
        else:
            assert code(answer) == "feature_not_available"

    def _end_plan_for_a_moment_and_revoke(self, exception_id: str) -> None:
        self.session.execute(delete(PlanGrant).where(PlanGrant.organization_id == self.tenant.id))
        answer = self.key.post(f"/v1/exceptions/{exception_id}/revoke", {})
        assert answer.status_code == 200, answer.text
        for (source, reference), (plan, until) in self.model.grants.items():
            factories.grant(self.session, self.tenant.organization, plan, source, until=until, reference=reference)

    # --- at every instant -----------------------------------------------------------------------------------------

    @invariant()
    def entitlements_agree(self) -> None:
        plan = PLANS[self.model.plan(self.now)]
        shown = self.key.get("/v1/entitlements").json()
        assert (shown["plan"], shown["entitlements"]) == (plan.id, list(plan.entitlements))
        assert shown["usage"] == {"watchedBranches": 1, "schedules": self.model.schedules}
        exceeded = plan.limits["schedules"] is not None and self.model.schedules > plan.limits["schedules"]
        assert [each["limit"] for each in shown["exceeded"]] == (["schedules"] if exceeded else [])
        assert (self.key.get("/v1/audit/export").status_code == 200) is plan.includes("audit_export")


@pytest.fixture
def founder(
    shared_database: psycopg.Connection[Any],
    session: Session,
    http: httpx.Client,
    fake_github: FakeGitHub,
    redis: Redis,
) -> Callable[[], Tenant]:
    """Forget everything, and found an organisation."""

    def found_again() -> Tenant:
        session.expunge_all()
        cleaning.reset(shared_database)
        fake_github.reset()
        return found(session, http, fake_github, "acme", "free")

    return found_again


@pytest.mark.parametrize("histories", [pytest.param(1, id="few"), pytest.param(10, id="many", marks=pytest.mark.check)])
def test_entitlements_follow_the_grants_and_freezes_do_not(
    founder: Callable[[], Tenant], clock: MovableClock, histories: int
) -> None:
    explore(Machine, histories, steps=20, found=staticmethod(founder), clock=clock)
