"""Deciding on one's own request: with a key of one's own, and with one's account at GitHub."""

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Membership, User
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.exceptions.requests import DENY, THIS, FrozenPull, decide, requested, rows, settle

OCTOCAT = {"type": "code_host", "id": "583231", "name": "octocat"}


def own_key(tenant: Tenant, role: str = "admin") -> Caller:
    """Return a new key that a member with this role has made."""
    body = {"name": "mine", "scopes": ["exception:read", "exception:write"], "expiresAt": None}
    return Caller(tenant.http, answered(tenant.person(role).post("/v1/api-keys", body), 201)["secret"])


def link(session: Session, tenant: Tenant, role: str, account_id: int) -> None:
    """Make an account at GitHub the own one of the member with this role."""
    tenant.person(role)
    of_role = (Membership.organization_id == tenant.id, Membership.role == role)
    person = session.scalars(select(User).join(Membership, Membership.user_id == User.id).where(*of_role)).one()
    factories.github_link(session, tenant.organization, person, account_id=account_id)


def asked_at_github(session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch) -> str:
    return requested(session, freeze, pull, web, requested_by=OCTOCAT).id


class TestOwnKey:
    def callers(self, tenant: Tenant, way: str) -> tuple[Caller, Caller]:
        """Return who requests and who decides: the same person, in one way or another."""
        session, key = tenant.person("admin"), own_key(tenant)
        ways = {"session, key": (session, key), "key, session": (key, session), "two keys": (key, own_key(tenant))}
        return ways[way]

    @pytest.mark.parametrize("way", ["session, key", "key, session", "two keys"])
    def test_key_acts_as_the_person_who_made_it(self, case: FrozenPull, way: str) -> None:
        first, second = self.callers(case.acme, way)
        (mine,) = rows(first.post("/v1/exception-requests", THIS), 201)
        for decision in ("grant", "deny"):
            refusal(decide(second, mine["id"], decision=decision), 403, "insufficient_permission")
        refusal(second.post("/v1/exceptions", THIS), 403, "insufficient_permission")
        settle(case.session, case.acme, selfApproval=True)
        rows(decide(second, mine["id"]))
        assert factories.audit_entries(case.session)[-1].details["selfApproved"] is True

    def test_key_of_another_person_decides(self, case: FrozenPull) -> None:
        (mine,) = rows(case.acme.person("owner").post("/v1/exception-requests", THIS), 201)
        rows(decide(own_key(case.acme), mine["id"]))
        assert "selfApproved" not in factories.audit_entries(case.session)[-1].details

    def test_person_withdraws_what_their_key_requested(self, case: FrozenPull) -> None:
        (mine,) = rows(own_key(case.acme).post("/v1/exception-requests", THIS), 201)
        (shown,) = rows(case.acme.person("admin").post(f"/v1/exceptions/{mine['id']}/revoke"))
        assert shown["state"] == "revoked"


class TestRequestAtGitHub:
    def test_linked_account_is_its_member(self, case: FrozenPull) -> None:
        link(case.session, case.acme, "admin", 583231)
        row_id = asked_at_github(case.session, case.freeze, case.pull, case.web)
        for caller in (case.acme.person("admin"), own_key(case.acme)):
            refusal(decide(caller, row_id), 403, "insufficient_permission")
            refusal(decide(caller, row_id, **DENY), 403, "insufficient_permission")
        rows(decide(case.acme.person("owner"), row_id))
        assert "selfApproved" not in factories.audit_entries(case.session)[-1].details

    def test_account_of_nobody_is_not_granted_by_who_may_be_behind_it(self, case: FrozenPull) -> None:
        link(case.session, case.acme, "owner", 1)
        row_id = asked_at_github(case.session, case.freeze, case.pull, case.web)
        for caller in (case.acme.person("admin"), own_key(case.acme)):
            refusal(decide(caller, row_id), 403, "insufficient_permission")
        rows(decide(case.acme.person("owner"), row_id))

    def test_account_of_nobody_is_denied_by_anybody_who_then_grants_in_their_own_name(self, case: FrozenPull) -> None:
        row_id = asked_at_github(case.session, case.freeze, case.pull, case.web)
        rows(decide(case.acme.person("admin"), row_id, **DENY))
        (made,) = rows(case.acme.person("admin").post("/v1/exceptions", THIS), 201)
        assert (made["requestedBy"], made["decidedBy"]["name"]) == (None, "Admin")

    @pytest.mark.parametrize(("linked", "said"), [(True, True), (False, None)])
    def test_audit_says_whether_it_was_the_same_person(self, case: FrozenPull, linked: bool, said: Any) -> None:
        settle(case.session, case.acme, selfApproval=True)
        if linked:
            link(case.session, case.acme, "admin", 583231)
        rows(decide(case.acme.person("admin"), asked_at_github(case.session, case.freeze, case.pull, case.web)))
        assert factories.audit_entries(case.session)[-1].details["selfApproved"] is said
