"""Operations of the tag Billing."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.billing import PlanGrant, UsedTrial
from models.identity import Mail
from models.organizations import User
from rules.time.instants import format_instant
from rules.web_addresses import WebOrigin
from services.billing.trials import announce_trial_ends
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWorkFactory
from services.offboarding.purge import purge_deleted
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

TRIAL = "/v1/billing/trial"
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def shown(caller: Caller, path: str, **params: Any) -> dict[str, Any]:
    return answered(caller.get(path, **params))


def plan_in_force(caller: Caller) -> tuple[str, str, str | None]:
    """Return the plan, its source and its end; both operations and the organisation agree on it."""
    entitlements, billing = shown(caller, "/v1/entitlements"), shown(caller, "/v1/billing")
    found = tuple(entitlements[name] for name in ("plan", "source", "until"))
    assert found == tuple(billing[name] for name in ("plan", "source", "until"))
    assert shown(caller, "/v1/orgs/current")["plan"] == entitlements["plan"]
    return found


def started(answer: httpx.Response) -> datetime:
    """Return the end of a trial that was started."""
    assert answer.status_code == 200, answer.text
    return datetime.fromisoformat(answer.json()["until"])


def session_of(tenant: Tenant, person: User) -> Caller:
    """Sign a person in."""
    return Caller(tenant.http, factories.session_token(tenant.session, person, tenant.organization))


def key_of(tenant: Tenant, person: User) -> Caller:
    """Return a key that the person created."""
    return tenant.key(created_by={"type": "user", "id": person.id, "name": person.name})


def member_of_both(globex: Tenant, acme: Tenant) -> User:
    """Return an owner of both organisations, which have no plan."""
    change_plan(acme.session, acme.organization, "free")
    person = factories.user(globex.session)
    for tenant in (globex, acme):
        factories.membership(tenant.session, tenant.organization, person, "owner")
    return person


@pytest.fixture
def jobs(database: str, clock: MovableClock) -> UnitOfWorkFactory:
    """Units as a sweeper opens them."""
    ports = Ports(SecretKey(factories.SECRET_KEY.encode()), WebOrigin("https://freezes.test"))
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, RecordedWakeups(), ports)


class TestListPlans:
    def test_plans_are_listed_without_a_credential(self, acme: Tenant) -> None:
        answer = shown(acme.anybody, "/v1/plans")
        assert [plan["id"] for plan in answer["data"]] == ["free", "team", "business"]
        assert answer["nextCursor"] is None
        assert answer["data"][2] == {
            "id": "business",
            "name": "Business",
            "rank": 2,
            "entitlements": ["audit_export", "pr_exceptions"],
            "limits": {"watchedBranches": None, "schedules": None, "auditRetentionDays": 365},
            "purchasable": True,
            "trialDays": 14,
        }


class TestGetEntitlements:
    @pytest.mark.parametrize("scope", ["repo:read", "billing:read"])
    def test_entitlements_are_shown_to_a_key_with_either_scope(self, acme: Tenant, scope: str) -> None:
        assert acme.key(scope).get("/v1/entitlements").status_code == 200

    def test_entitlements_of_the_default_plan_have_limits_and_usage(self, globex: Tenant) -> None:
        repository = globex.repository("web")
        factories.branch(globex.session, repository)
        factories.schedule(globex.session, globex.organization)
        assert shown(globex.key("repo:read"), "/v1/entitlements") == {
            "plan": "free",
            "source": "none",
            "until": None,
            "entitlements": [],
            "limits": {"watchedBranches": 25, "schedules": 3, "auditRetentionDays": 7},
            "usage": {"watchedBranches": 1, "schedules": 1},
            "exceeded": [],
        }

    def test_limits_exceeded_after_a_downgrade_are_shown(self, acme: Tenant) -> None:
        for _ in range(4):
            factories.schedule(acme.session, acme.organization)
        change_plan(acme.session, acme.organization, "free")
        answer = shown(acme.person("viewer"), "/v1/entitlements")
        assert answer["exceeded"] == [{"limit": "schedules", "allowed": 3, "used": 4}]
        [item] = [each for each in shown(acme.key(), "/v1/attention")["data"] if each["type"] == "limit_exceeded"]
        assert item["action"]["url"].endswith("/billing")
        assert "The free plan includes 3 schedules, and you have 4." in item["message"]
        assert item["subject"]["id"] == acme.id
        change_plan(acme.session, acme.organization, "team")
        assert shown(acme.person("viewer"), "/v1/entitlements")["exceeded"] == []
        assert "limit_exceeded" not in {each["type"] for each in shown(acme.key(), "/v1/attention")["data"]}

    def test_usage_counts_what_the_quota_counts(self, acme: Tenant) -> None:
        factories.branch(acme.session, acme.repository("web"))
        factories.branch(acme.session, acme.repository("disabled", enabled=False))
        factories.branch(acme.session, acme.repository("gone", removed_at=factories.now()))
        factories.branch(acme.session, acme.repository("left"), unwatched_at=factories.now())
        factories.schedule(acme.session, acme.organization, deleted_at=factories.now())
        usage = shown(acme.key("repo:read"), "/v1/entitlements")["usage"]
        assert usage == {"watchedBranches": 1, "schedules": 0}


class TestGetBilling:
    def test_billing_of_an_organization_without_a_grant(self, globex: Tenant) -> None:
        assert shown(globex.person("viewer"), "/v1/billing") == {
            "plan": "free",
            "source": "none",
            "until": None,
            "trial": {"state": "available", "endsAt": None},
            "subscription": None,
            "invoices": [],
            "syncedAt": None,
        }

    def test_billing_of_an_organization_with_a_manual_plan(self, acme: Tenant) -> None:
        assert plan_in_force(acme.key()) == ("business", "manual", None)

    @pytest.mark.parametrize("source", ["manual", "stripe", "trial"])
    def test_plan_changes_at_the_end_of_its_grant(self, globex: Tenant, clock: MovableClock, source: str) -> None:
        until = factories.now() + timedelta(minutes=30)  # while the session's token is valid
        factories.grant(globex.session, globex.organization, "team", source, until=until)
        callers = (globex.key(), globex.person("viewer"))
        clock.at = until - SECOND
        for caller in callers:
            assert plan_in_force(caller) == ("team", source, format_instant(until))
        clock.at = until
        for caller in callers:
            assert plan_in_force(caller) == ("free", "none", None)
        clock.at = until + SECOND
        for caller in callers:
            assert plan_in_force(caller) == ("free", "none", None)


class TestStartTrial:
    def test_trial_gives_the_top_plan_for_14_days(self, globex: Tenant, clock: MovableClock) -> None:
        key = globex.key()
        clock.at = now = factories.now()
        answer = globex.person("admin").post(TRIAL)
        until = now + timedelta(days=14)
        trial = {"state": "active", "endsAt": format_instant(until)}
        assert (started(answer), answer.json()["trial"]) == (until, trial)
        assert globex.audit() == ["billing.trial_started"]
        clock.at = until - SECOND
        assert plan_in_force(key) == ("business", "trial", format_instant(until))
        clock.at = until
        assert plan_in_force(key) == ("free", "none", None)
        clock.at = until + SECOND
        assert shown(key, "/v1/billing")["trial"] == {"state": "used", "endsAt": format_instant(until)}

    def test_trial_is_audited_with_the_plans(self, globex: Tenant) -> None:
        until = globex.person("admin").post(TRIAL).json()["until"]
        [entry] = shown(globex.person("admin"), "/v1/audit")["data"]
        assert entry["details"] == {
            "before": {"plan": "free", "source": "none", "until": None},
            "after": {"plan": "business", "source": "trial", "until": until},
        }

    def test_trial_of_a_person_who_had_one_is_refused(self, globex: Tenant, acme: Tenant) -> None:
        person = member_of_both(globex, acme)
        started(session_of(globex, person).post(TRIAL))
        error = refusal(session_of(acme, person).post(TRIAL), 409, "trial_already_used")
        assert "once per person" in error["message"]
        assert shown(session_of(acme, person), "/v1/billing")["trial"] == {"state": "used", "endsAt": None}
        started(acme.person("admin").post(TRIAL))

    def test_trial_is_started_by_a_key_for_its_creator(self, globex: Tenant, acme: Tenant) -> None:
        person = member_of_both(globex, acme)
        started(key_of(globex, person).post(TRIAL))
        refusal(session_of(acme, person).post(TRIAL), 409, "trial_already_used")
        refusal(key_of(acme, person).post(TRIAL), 409, "trial_already_used")
        assert shown(key_of(acme, person), "/v1/billing")["trial"]["state"] == "used"

    def test_trial_of_a_person_is_known_by_their_verified_address(self, globex: Tenant, acme: Tenant) -> None:
        change_plan(acme.session, acme.organization, "free")
        first = factories.user(globex.session)
        first.email_verified_at = factories.now()
        factories.membership(globex.session, globex.organization, first, "admin")
        started(session_of(globex, first).post(TRIAL))
        address = first.email
        first.email = f"former-{address}"
        globex.session.flush()
        again = factories.user(globex.session)
        again.email, again.email_verified_at = address, factories.now()
        factories.membership(acme.session, acme.organization, again, "admin")
        refusal(session_of(acme, again).post(TRIAL), 409, "trial_already_used")
        again.email_verified_at = None
        acme.session.flush()
        started(session_of(acme, again).post(TRIAL))

    @pytest.mark.parametrize("creator", ["nobody", "a former member", "a key"])
    def test_trial_by_a_key_without_a_creator_is_refused(self, globex: Tenant, creator: str) -> None:
        person = factories.user(globex.session)
        created_by = {
            "nobody": None,
            "a former member": {"type": "user", "id": person.id, "name": person.name},
            "a key": {"type": "api_key", "id": "key_1", "name": "another"},
        }
        key = globex.key(created_by=created_by[creator])
        error = refusal(key.post(TRIAL), 409, "invalid_state")
        assert "created this API key" in error["message"]
        assert shown(key, "/v1/billing")["trial"] == {"state": "available", "endsAt": None}
        assert globex.session.scalar(select(func.count()).select_from(UsedTrial)) == 0

    def test_trial_that_is_running_cannot_be_started_again(self, globex: Tenant) -> None:
        started(globex.person("admin").post(TRIAL))
        refusal(globex.person("admin").post(TRIAL), 409, "trial_already_used")
        refusal(globex.person("owner").post(TRIAL), 409, "invalid_state")

    def test_trial_of_another_person_follows_one_that_ended(self, globex: Tenant, later: Callable[..., None]) -> None:
        first, second = (factories.user(globex.session) for _ in range(2))
        for person in (first, second):
            factories.membership(globex.session, globex.organization, person, "admin")
        started(key_of(globex, first).post(TRIAL))
        later(days=14)
        started(key_of(globex, second).post(TRIAL))
        assert globex.session.scalar(select(func.count()).select_from(PlanGrant)) == 1

    @pytest.mark.parametrize("source", ["manual", "stripe"])
    def test_trial_beside_another_source_is_refused(self, globex: Tenant, source: str) -> None:
        grant = factories.grant(globex.session, globex.organization, "team", source)
        refusal(globex.person("admin").post(TRIAL), 409, "billing_source_conflict")
        grant.until = factories.now() - SECOND
        globex.session.flush()
        started(globex.person("admin").post(TRIAL))

    def test_trial_started_twice_at_once_is_started_once(self, globex: Tenant, acme: Tenant) -> None:
        person = member_of_both(globex, acme)
        first, second = session_of(globex, person), session_of(acme, person)
        answers = at_once(lambda: first.post(TRIAL), lambda: second.post(TRIAL))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert globex.session.scalar(select(func.count()).select_from(PlanGrant)) == 1

    def test_trial_is_known_after_the_purge_of_the_organization(
        self, globex: Tenant, acme: Tenant, jobs: UnitOfWorkFactory
    ) -> None:
        person = member_of_both(globex, acme)
        started(session_of(globex, person).post(TRIAL))
        globex.organization.deleted_at = factories.now() - timedelta(days=31)
        globex.session.flush()
        while purge_deleted(jobs):
            pass
        globex.session.expire_all()
        assert globex.organization.purged_at is not None
        assert globex.session.scalars(select(PlanGrant)).all() == []
        refusal(session_of(acme, person).post(TRIAL), 409, "trial_already_used")


class TestTrialEnding:
    """The announcement of the end of a trial: a mail to those who may change the plan, and an attention item."""

    @pytest.fixture
    def until(self, globex: Tenant) -> datetime:
        for role in factories.ROLES:
            globex.person(role)
        until = factories.now() + timedelta(days=14)
        factories.grant(globex.session, globex.organization, "business", "trial", until=until)
        return until

    def mailed(self, jobs: UnitOfWorkFactory, session: Session) -> list[str]:
        """Run the task, and return the names of those who have been mailed until now."""
        announce_trial_ends(jobs)
        mails = session.scalars(select(Mail.recipient).where(Mail.template == "trial_ending")).all()
        return sorted(address.partition("-")[0] for address in mails)

    def announced(self, key: Caller) -> bool:
        return "trial_ending" in {item["type"] for item in shown(key, "/v1/attention")["data"]}

    def test_end_of_a_trial_is_announced_once_three_days_before(
        self, globex: Tenant, jobs: UnitOfWorkFactory, clock: MovableClock, until: datetime
    ) -> None:
        key = globex.key()
        clock.at = until - timedelta(days=3) - SECOND
        assert (self.mailed(jobs, globex.session), self.announced(key)) == ([], False)
        clock.at = until - timedelta(days=3) + timedelta(minutes=1)
        assert (self.mailed(jobs, globex.session), self.announced(key)) == (["admin", "owner"], True)
        clock.at += DAY
        assert (self.mailed(jobs, globex.session), self.announced(key)) == (["admin", "owner"], True)
        clock.at = until
        assert (self.mailed(jobs, globex.session), self.announced(key)) == (["admin", "owner"], False)

    def test_trial_end_is_not_announced_while_another_grant_gives_the_plan(
        self, globex: Tenant, jobs: UnitOfWorkFactory, clock: MovableClock, until: datetime
    ) -> None:
        key = globex.key()
        bought = factories.grant(globex.session, globex.organization, "business", "stripe", reference="sub_1")
        clock.at = until - DAY
        assert (self.mailed(jobs, globex.session), self.announced(key)) == ([], False)
        bought.until = until - timedelta(minutes=1)
        globex.session.flush()
        clock.at += timedelta(minutes=1)
        assert (self.mailed(jobs, globex.session), self.announced(key)) == (["admin", "owner"], True)

    def test_end_of_a_trial_is_not_announced_to_a_deleted_organization(
        self, globex: Tenant, jobs: UnitOfWorkFactory, clock: MovableClock, until: datetime
    ) -> None:
        globex.organization.deleted_at = factories.now()
        globex.session.flush()
        clock.at = until - DAY
        assert self.mailed(jobs, globex.session) == []
