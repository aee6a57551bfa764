"""Revocation and requests that have begun: the credential is checked when headers arrive, and the body may come later.

What was revoked with a success has no effect afterwards, however long ago the request began.
"""

from datetime import timedelta
from itertools import count

import httpx
import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from app.edge import request_context
from models.api_keys import ApiKey
from models.freezes import Freeze
from models.organizations import LoginSession, Membership
from models.repositories import Repository
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.accounts import Client
from tests.handlers.callers import EVERYTHING, Caller, Tenant
from tests.handlers.late_requests import SlowRequest, hammer, ok
from tests.handlers.people import Person, member
from tests.harness.clock import MovableClock
from tests.harness.passwords import account

FRIDAYS = {
    "name": "Fridays",
    "scope": {"type": "organization"},
    "timezone": "UTC",
    "recurrence": {"frequency": "weekly", "startDate": "2026-01-02", "byDay": ["FR"]},
    "window": {"startTime": "17:00", "endTime": "18:00"},
    "reason": "The team is away",
    "allowOverlap": True,
}
NEW_KEY = {"name": "kept", "scopes": ["freeze:write"], "expiresAt": None}


def freezes(session: Session) -> int:
    session.expire_all()
    return session.scalar(select(func.count()).select_from(Freeze)) or 0


def usable_keys(session: Session) -> int:
    session.expire_all()
    return session.scalar(select(func.count()).where(ApiKey.revoked_at.is_(None))) or 0


@pytest.fixture
def owner(acme: Tenant) -> Person:
    return member(acme, "owner", "Olga")


class TestKeysOfRequestsThatHaveBegun:
    @pytest.fixture
    def minted(self, acme: Tenant) -> factories.MintedKey:
        factories.watched(acme.session, acme.organization)
        return factories.api_key(acme.session, acme.organization, "freeze:write")

    def begin(self, acme: Tenant, minted: factories.MintedKey) -> SlowRequest:
        return SlowRequest(Caller(acme.http, minted.secret), "/v1/freezes", EVERYTHING)

    @pytest.mark.parametrize("ended", ["revoked", "rotated out"])
    def test_secret_ended_before_the_body_makes_no_freeze(
        self, acme: Tenant, owner: Person, minted: factories.MintedKey, ended: str
    ) -> None:
        begun, key = self.begin(acme, minted), f"/v1/api-keys/{minted.row.id}"
        ok(owner.caller.delete(key) if ended == "revoked" else owner.caller.post(f"{key}/rotate", {"graceSeconds": 0}))
        assert begun.finish() == (401, "invalid_token")
        assert freezes(acme.session) == 0

    def test_key_that_expires_before_the_body_makes_no_freeze(self, acme: Tenant, clock: MovableClock) -> None:
        expires_at = factories.now() + timedelta(minutes=5)
        begun = self.begin(acme, factories.api_key(acme.session, acme.organization, expires_at=expires_at))
        clock.at = expires_at
        assert begun.finish() == (401, "token_expired")
        assert freezes(acme.session) == 0

    def test_key_of_an_organization_deleted_before_the_body_makes_no_freeze(
        self, visitor: Client, acme: Tenant, minted: factories.MintedKey
    ) -> None:
        program = visitor.signed_in(account(acme.session, "Olga", acme.organization, role="owner"))
        begun = self.begin(acme, minted)
        ok(program.auth("org/delete", name=acme.organization.name))
        assert begun.finish() == (410, "organization_deleted")
        assert freezes(acme.session) == 0

    def test_key_that_is_still_valid_makes_a_freeze_with_a_late_body(
        self, acme: Tenant, minted: factories.MintedKey
    ) -> None:
        assert self.begin(acme, minted).finish() == (201, None)
        assert freezes(acme.session) == 1


class TestPeopleOfRequestsThatHaveBegun:
    @pytest.fixture
    def admin(self, acme: Tenant) -> Person:
        return member(acme, "admin", "Adam")

    def test_admin_removed_before_the_body_mints_no_key(self, session: Session, owner: Person, admin: Person) -> None:
        begun = SlowRequest(admin.caller, "/v1/api-keys", NEW_KEY)
        ok(owner.caller.delete(f"/v1/members/{admin.id}"))
        assert begun.finish() == (401, "invalid_token")
        assert usable_keys(session) == 0

    def test_admin_demoted_before_the_body_mints_no_key(self, session: Session, owner: Person, admin: Person) -> None:
        begun = SlowRequest(admin.caller, "/v1/api-keys", NEW_KEY)
        ok(owner.caller.patch(f"/v1/members/{admin.id}", {"role": "member"}))
        assert begun.finish() == (403, "insufficient_permission")
        assert usable_keys(session) == 0

    @pytest.mark.parametrize("kind", ["browser", "device"])
    def test_session_ended_before_the_body_mints_no_key(self, visitor: Client, acme: Tenant, kind: str) -> None:
        program = visitor.signed_in(account(acme.session, "Eve", acme.organization, role="admin"))
        row = acme.session.scalars(select(LoginSession).where(LoginSession.token_hash.is_not(None))).one()
        row.kind = kind
        acme.session.flush()
        begun = SlowRequest(Caller(acme.http, program.jwt()), "/v1/api-keys", NEW_KEY)
        ok(program.post("/api/auth/sign-out"))
        assert begun.finish() == (401, "invalid_token")
        assert usable_keys(acme.session) == 0

    def test_session_token_ended_before_the_body_selects_no_organization(
        self, visitor: Client, acme: Tenant, globex: Tenant
    ) -> None:
        program = visitor.signed_in(account(acme.session, "Eve", acme.organization, globex.organization))
        choice = {"organizationId": acme.id}
        begun = SlowRequest(Caller(acme.http, program.token), "/api/auth/org/set-active", choice)
        ok(program.post("/api/auth/sign-out"))
        assert begun.finish() == (401, "invalid_token")
        assert acme.audit()[-1] != "session.organization_chosen"

    def test_support_session_ended_before_the_body_reads_nothing(
        self, acme: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(request_context, "LATE_BODY_SECONDS", 0.0)
        begun = SlowRequest(acme.support, "/v1/scope/preview", {"scope": {"type": "organization"}})
        acme.session.execute(update(LoginSession).where(LoginSession.support).values(revoked_at=func.now()))
        assert begun.finish() == (401, "invalid_token")


class TestConcurrentRevocation:
    """Writes of a credential while it is revoked: none is committed after the revocation was answered."""

    @pytest.fixture(params=range(5))
    def admin(self, acme: Tenant) -> Person:
        return member(acme, "admin", "Adam")

    def test_removed_admin_mints_no_key_after_the_removal(self, session: Session, owner: Person, admin: Person) -> None:
        counts: list[int] = []

        def remove() -> httpx.Response:
            response = owner.caller.delete(f"/v1/members/{admin.id}")
            counts.append(usable_keys(session))
            return response

        assert hammer(lambda: admin.caller.post("/v1/api-keys", NEW_KEY).status_code, remove) == {201, 401}
        assert usable_keys(session) == counts[0]

    def test_admin_is_removed_while_they_send_invitations(self, acme: Tenant, owner: Person, admin: Person) -> None:
        numbers = count()

        def invite() -> int:
            body = {"email": f"{next(numbers)}@example.com", "role": "member"}
            return admin.caller.post("/v1/invitations", body).status_code

        assert hammer(invite, lambda: owner.caller.delete(f"/v1/members/{admin.id}")) == {201, 401}
        assert acme.session.get(Membership, (acme.id, admin.id), populate_existing=True) is None

    @pytest.mark.parametrize("_attempt", range(5))
    def test_revoked_key_makes_no_freeze_after_the_revocation(self, acme: Tenant, owner: Person, _attempt: int) -> None:
        factories.watched(acme.session, acme.organization)
        minted = factories.api_key(acme.session, acme.organization, "freeze:write")
        counts: list[int] = []

        def revoke() -> httpx.Response:
            response = owner.caller.delete(f"/v1/api-keys/{minted.row.id}")
            counts.append(freezes(acme.session))
            return response

        caller = Caller(acme.http, minted.secret)
        assert hammer(lambda: caller.post("/v1/freezes", EVERYTHING).status_code, revoke) == {201, 401}
        assert freezes(acme.session) == counts[0]

    @pytest.mark.parametrize("_attempt", range(5))
    def test_sign_out_ends_a_session_that_selects_organizations(
        self, visitor: Client, acme: Tenant, _attempt: int
    ) -> None:
        program = visitor.signed_in(account(acme.session, "Eve", acme.organization))
        statuses = hammer(
            lambda: program.auth("org/set-active", organizationId=acme.id).status_code,
            lambda: program.post("/api/auth/sign-out"),
        )
        assert statuses == {200, 401}

    def test_organization_is_deleted_while_a_key_makes_freezes(self, visitor: Client, acme: Tenant) -> None:
        factories.watched(acme.session, acme.organization)
        caller = acme.key("freeze:write")
        program = visitor.signed_in(account(acme.session, "Olga", acme.organization, role="owner"))
        statuses = hammer(
            lambda: caller.post("/v1/freezes", EVERYTHING).status_code, lambda: program.auth("org/delete", name="Acme")
        )
        assert statuses == {201, 410}
        acme.session.expire_all()
        assert not acme.session.scalar(select(func.count()).where(Freeze.is_in_force(factories.now())))


class TestPlansOfRequestsThatHaveBegun:
    def test_plan_that_ended_before_the_body_refuses_an_exception(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        change_plan(acme.session, acme.organization, "free")
        factories.grant(acme.session, acme.organization, "team", until=clock.at + timedelta(seconds=1))
        branch = factories.watched(acme.session, acme.organization)
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, branch.repository_id))
        body = {"pullRequest": pull.url, "reason": "The fix for payments"}
        begun = SlowRequest(acme.key("exception:write"), "/v1/exceptions", body)
        clock.at += timedelta(seconds=1)
        assert begun.finish() == (403, "feature_not_available")

    def test_plan_granted_before_the_body_counts_for_the_quota(self, acme: Tenant) -> None:
        change_plan(acme.session, acme.organization, "free")
        for _ in range(3):
            factories.schedule(acme.session, acme.organization)
        factories.watched(acme.session, acme.organization)
        begun = SlowRequest(acme.key("schedule:write"), "/v1/schedules", FRIDAYS)
        change_plan(acme.session, acme.organization, "team")
        assert begun.finish() == (201, None)
