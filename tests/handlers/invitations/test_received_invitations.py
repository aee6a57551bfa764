"""Received invitations: list, preview, accept."""

import httpx
import pytest

from models.identity import Invitation, OneTimeToken
from models.organizations import Membership
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.invitations.requests import (
    GRACE,
    INVITATIONS,
    PENDING,
    PREVIEW,
    accept,
    invited,
    is_member,
    link,
    mailed,
)
from tests.handlers.people import Person, member, newcomer, sign_ins, signed_in
from tests.harness.concurrency import at_once
from tests.harness.mails import token_of


class TestListPendingInvitations:
    def test_pending_invitations_of_every_organization_are_listed(
        self, acme: Tenant, globex: Tenant, eve: Person
    ) -> None:
        made = {invited(acme, eve, "admin"): acme, invited(globex, eve, "viewer"): globex}
        acme.person("owner").post(INVITATIONS, GRACE)
        shown = eve.caller.get(PENDING).json()["data"]
        assert {row["id"]: row["organization"] for row in shown} == {
            invitation: {"id": tenant.id, "name": tenant.organization.name} for invitation, tenant in made.items()
        }
        assert {row["role"] for row in shown} == {"admin", "viewer"}
        assert {row["email"] for row in shown} == {eve.user.email}

    def test_pending_invitations_require_a_verified_address(self, acme: Tenant, http: httpx.Client) -> None:
        impostor = newcomer(acme.session, http, "Impostor", verified=False)
        invitation = invited(acme, impostor)
        assert impostor.caller.get(PENDING).json()["data"] == []
        refusal(accept(impostor, invitation), 404, "invitation_not_found")

    def test_pending_invitations_are_hidden_from_a_support_session(self, acme: Tenant, globex: Tenant) -> None:
        grace = member(acme)
        invited(globex, grace)
        token = factories.session_token(acme.session, grace.user, acme.organization, support=True)
        assert Caller(acme.http, token).get(PENDING).json()["data"] == []

    def test_pending_invitations_exclude_expired_and_deleted_organizations(
        self, acme: Tenant, globex: Tenant, eve: Person
    ) -> None:
        over, deleted = invited(acme, eve), invited(globex, eve)
        acme.session.get_one(Invitation, over).expires_at = factories.now()
        globex.organization.deleted_at = factories.now()
        acme.session.flush()
        assert eve.caller.get(PENDING).json()["data"] == []
        for invitation in (over, deleted):
            refusal(accept(eve, invitation), 404, "invitation_not_found")


class TestPreviewInvitation:
    def test_preview_invitation_describes_without_consuming_the_link(self, acme: Tenant, eve: Person) -> None:
        invitation = invited(acme, eve, "admin")
        token = link(acme, invitation)
        shown = eve.caller.get(PREVIEW, token=token).json()
        assert shown["organization"] == {"id": acme.id, "name": "Acme"}
        assert (shown["id"], shown["email"], shown["role"]) == (invitation, eve.user.email, "admin")
        assert eve.caller.get(PREVIEW, token=token).json() == shown
        assert eve.caller.get(PENDING).json()["data"] == [shown]

    @pytest.mark.parametrize("token", ["x", "A" * 43, "A" * 128], ids=len)
    def test_preview_invitation_is_not_found_for_an_unknown_token(self, eve: Person, token: str) -> None:
        refusal(eve.caller.get(PREVIEW, token=token), 404, "invitation_not_found")

    def test_preview_invitation_requires_a_token(self, eve: Person) -> None:
        refusal(eve.caller.get(PREVIEW), 400, "missing_parameter")
        refusal(eve.caller.get(PREVIEW, token="x" * 129), 400, "invalid_parameter")

    def test_preview_invitation_is_not_found_for_a_token_of_another_purpose(self, acme: Tenant, eve: Person) -> None:
        token = link(acme, invited(acme, eve))
        acme.session.query(OneTimeToken).update({"purpose": "verify_email"})
        refusal(eve.caller.get(PREVIEW, token=token), 404, "invitation_not_found")


class TestAcceptInvitation:
    def test_accepted_invitation_makes_the_person_a_member(self, acme: Tenant, http: httpx.Client, eve: Person) -> None:
        invitation = invited(acme, eve, "admin")
        answer = answered(accept(eve, invitation))
        assert answer["state"] == "accepted"
        assert answer["organization"] == {"id": acme.id, "name": "Acme"}
        assert acme.session.get_one(Membership, (acme.id, eve.id)).role == "admin"
        assert sign_ins(acme.session, eve) == {acme.id: 1}
        again = signed_in(acme.session, http, eve.user, acme.organization)
        assert again.caller.patch("/v1/orgs/current", {}).status_code == 200

    def test_accepted_invitation_is_audited_with_the_new_member(self, acme: Tenant, eve: Person) -> None:
        accept(eve, invited(acme, eve, "viewer"))
        assert sorted(acme.audit()) == ["invitation.accepted", "invitation.created", "member.joined"]
        [entry] = factories.audit_entries(acme.session, "member.joined")
        assert entry.actor == {"type": "user", "id": eve.id, "name": "Eve Ernst"}
        assert (entry.organization_id, entry.details) == (acme.id, {"before": None, "after": {"role": "viewer"}})

    def test_accepted_invitation_keeps_the_active_organization_of_the_session(
        self, acme: Tenant, globex: Tenant
    ) -> None:
        grace = member(acme)
        accept(grace, invited(globex, grace))
        assert sign_ins(acme.session, grace) == {None: 1, acme.id: 1}

    def test_member_of_a_name_that_is_taken_joins_with_the_address(self, acme: Tenant, eve: Person) -> None:
        member(acme, name=eve.user.name.upper())
        accept(eve, invited(acme, eve))
        [entry] = factories.audit_entries(acme.session, "member.joined")
        assert entry.actor["name"] == entry.target["name"] == f"{eve.user.name} ({eve.user.email})"

    def test_accepted_invitation_and_its_links_are_gone(self, acme: Tenant, eve: Person) -> None:
        invitation = invited(acme, eve)
        tokens = [token_of(mailed(acme.session)["url"]), link(acme, invitation)]
        accept(eve, invitation)
        refusal(accept(eve, invitation), 404, "invitation_not_found")
        assert eve.caller.get(PENDING).json()["data"] == []
        for token in tokens:
            refusal(eve.caller.get(PREVIEW, token=token), 404, "invitation_not_found")

    def test_concurrent_acceptances_make_one_membership(self, acme: Tenant, http: httpx.Client) -> None:
        for number in range(4):
            eve = newcomer(acme.session, http, f"Eve {number}")
            invitation = invited(acme, eve)
            answers = at_once(*[lambda eve=eve, one=invitation: accept(eve, one)] * 3)
            assert sorted(answer.status_code for answer in answers) == [200, 404, 404]
            assert is_member(acme.session, acme, eve)
        assert acme.audit().count("member.joined") == 4

    def test_accept_invitation_is_not_found_for_another_person(
        self, acme: Tenant, http: httpx.Client, eve: Person
    ) -> None:
        invitation = invited(acme, eve, "owner")
        others = [newcomer(acme.session, http, "Mallory"), member(acme, "admin", "Adam")]
        for other in others:
            assert other.caller.get(PREVIEW, token=link(acme, invitation)).status_code == 200
            refusal(accept(other, invitation), 404, "invitation_not_found")
        assert not is_member(acme.session, acme, others[0])

    def test_accept_invitation_is_a_conflict_for_a_member(self, acme: Tenant, eve: Person) -> None:
        invitation = invited(acme, eve)
        factories.membership(acme.session, acme.organization, eve.user, "viewer")
        refusal(accept(eve, invitation), 409, "already_exists")
        assert acme.session.get_one(Membership, (acme.id, eve.id)).role == "viewer"
