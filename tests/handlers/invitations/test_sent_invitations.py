"""Sent invitations: create, list, revoke, get a link."""

from datetime import timedelta
from typing import Any

import httpx
from sqlalchemy import select

from models.identity import Invitation, Mail, OneTimeToken
from rules.ids import new_id
from services.organizations.sent_invitations import MAX_PER_ADDRESS, MAX_PER_DAY
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.invitations.requests import (
    GRACE,
    INVITATIONS,
    PENDING,
    PREVIEW,
    WEEK,
    accept,
    invited,
    is_member,
    link,
    mailed,
)
from tests.handlers.people import Person, member, newcomer, through_pages
from tests.harness.concurrency import at_once
from tests.harness.mails import token_of
from tests.harness.wakeups import RecordedWakeups


class TestListInvitations:
    def test_list_invitations_shows_every_field(self, acme: Tenant) -> None:
        made = acme.person("admin").post(INVITATIONS, GRACE).json()
        [shown] = acme.person("viewer").get(INVITATIONS).json()["data"]
        assert shown == made
        assert made.pop("id").startswith("inv_")
        assert made.pop("createdAt") < made.pop("expiresAt")
        assert made.pop("invitedBy")["name"] == "Admin"
        assert made == {"email": "grace@example.com", "role": "member", "state": "pending"}

    def test_list_invitations_shows_and_filters_the_present_state(self, acme: Tenant, eve: Person) -> None:
        owner, viewer, accepted = acme.person("owner"), acme.person("viewer"), invited(acme, eve)
        accept(eve, accepted)
        expired, revoked, pending = (
            owner.post(INVITATIONS, {**GRACE, "email": f"{name}@example.com"}).json()["id"] for name in "abc"
        )
        owner.delete(f"{INVITATIONS}/{revoked}")
        acme.session.query(Invitation).where(Invitation.id != pending).update({"expires_at": factories.now()})
        every = {row["id"]: row["state"] for row in viewer.get(INVITATIONS).json()["data"]}
        assert every == {expired: "expired", accepted: "accepted", revoked: "revoked", pending: "pending"}
        for invitation_id, state in every.items():
            assert [row["id"] for row in viewer.get(INVITATIONS, state=state).json()["data"]] == [invitation_id]

    def test_pages_of_invitations_list_each_once_newest_first(self, acme: Tenant) -> None:
        admin = acme.person("admin")
        made = [admin.post(INVITATIONS, {**GRACE, "email": f"{n}@example.com"}).json()["id"] for n in range(5)]
        shown = through_pages(admin, INVITATIONS, state="pending")
        assert sorted(str(row["id"]) for row in shown) == sorted(made)
        instants = [str(row["createdAt"]) for row in shown]
        assert instants == sorted(instants, reverse=True)


class TestCreateInvitation:
    def test_create_invitation_mails_a_link_to_the_lower_case_address(
        self, acme: Tenant, wakeups: RecordedWakeups
    ) -> None:
        made = acme.person("admin").post(INVITATIONS, {**GRACE, "email": "Grace.Hopper@Example.COM"})
        assert made.status_code == 201
        assert "Location" not in made.headers  # no operation reads one invitation
        mail = acme.session.scalars(select(Mail)).one()
        assert (mail.recipient, mail.template) == ("grace.hopper@example.com", "invitation")
        reported = mailed(acme.session)
        assert (reported["organization"], reported["inviter"], reported["role"]) == ("Acme", "Admin", "member")
        assert reported["url"].startswith("http://127.0.0.1:8080/invitation?token=")
        assert "mail" in wakeups.sent
        assert acme.audit() == ["invitation.created"]
        [entry] = factories.audit_entries(acme.session)
        assert entry.target["name"] == "grace.hopper@example.com"
        assert token_of(reported["url"]) not in f"{entry.details} {made.text}"

    def test_create_invitation_is_a_conflict_for_a_member(self, acme: Tenant) -> None:
        email = member(acme).user.email
        body = {**GRACE, "email": email.upper()}
        refusal(acme.person("admin").post(INVITATIONS, body), 409, "already_exists")

    def test_create_invitation_is_a_conflict_while_another_is_pending(self, acme: Tenant) -> None:
        admin = acme.person("admin")
        first = admin.post(INVITATIONS, GRACE).json()["id"]
        refusal(admin.post(INVITATIONS, {**GRACE, "role": "viewer"}), 409, "already_exists")
        admin.delete(f"{INVITATIONS}/{first}")
        second = admin.post(INVITATIONS, GRACE).json()["id"]
        acme.session.get_one(Invitation, second).expires_at = factories.now()
        acme.session.flush()
        assert admin.post(INVITATIONS, GRACE).status_code == 201

    def test_concurrent_invitations_of_an_address_send_one_mail(self, acme: Tenant) -> None:
        admin = acme.person("admin")
        answers = at_once(*[lambda: admin.post(INVITATIONS, GRACE)] * 4)
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
        assert len(acme.session.scalars(select(Mail)).all()) == 1

    def test_invitations_are_rate_limited_per_address(self, acme: Tenant, globex: Tenant) -> None:
        admin = acme.person("admin")
        for _ in range(MAX_PER_ADDRESS):
            admin.delete(f"{INVITATIONS}/{admin.post(INVITATIONS, GRACE).json()['id']}")
        answer = admin.post(INVITATIONS, GRACE)
        refusal(answer, 429, "rate_limited")
        assert 0 < int(answer.headers["Retry-After"]) <= 3600
        assert admin.post(INVITATIONS, {**GRACE, "email": "alan@example.com"}).status_code == 201
        assert globex.person("admin").post(INVITATIONS, GRACE).status_code == 201
        acme.session.query(Invitation).update({"created_at": factories.now() - timedelta(hours=1)})
        admin.delete(f"{INVITATIONS}/{admin.get(INVITATIONS, state='pending').json()['data'][0]['id']}")
        assert admin.post(INVITATIONS, GRACE).status_code == 201

    def test_invitations_are_rate_limited_per_organization(self, acme: Tenant) -> None:
        sent = {"organization_id": acme.id, "role": "viewer", "invited_by": factories.SYSTEM}
        now = factories.now()
        instants = {"created_at": now, "expires_at": now + WEEK}
        rows = (Invitation(id=new_id("inv"), email=f"{n}@example.com", **sent, **instants) for n in range(MAX_PER_DAY))
        acme.session.add_all(rows)
        acme.session.flush()
        refusal(acme.person("admin").post(INVITATIONS, GRACE), 429, "rate_limited")
        acme.session.query(Invitation).update({"created_at": now - timedelta(days=1)})
        assert acme.person("admin").post(INVITATIONS, GRACE).status_code == 201

    def test_create_invitation_reveals_nothing_of_another_organization(self, acme: Tenant, globex: Tenant) -> None:
        globex.person("admin").post(INVITATIONS, GRACE)
        email = member(globex).user.email
        for one in (GRACE, {**GRACE, "email": email}):
            assert acme.person("admin").post(INVITATIONS, one).status_code == 201

    def test_owner_is_invited_only_by_an_owner(self, acme: Tenant) -> None:
        body = {**GRACE, "role": "owner"}
        refusal(acme.person("admin").post(INVITATIONS, body), 403, "insufficient_permission")
        assert acme.person("owner").post(INVITATIONS, body).json()["role"] == "owner"

    def test_create_invitation_rejects_invalid_addresses_and_fields(self, acme: Tenant) -> None:
        cases: list[dict[str, str]] = [
            {"email": "grace"},
            {"email": "grace@example.com\r\nBcc: all@example.com"},
            {"email": "Grace <grace@example.com>"},
            {"email": "a@b,c@d.example"},
            {"email": "x" * 250 + "@example.com"},
            {"email": "grace@exämple.com"},
            {"role": "root"},
            {"state": "accepted"},
            {"organizationId": "org_00000000000000000000000000"},
        ]
        for change in cases:
            refusal(acme.person("owner").post(INVITATIONS, {**GRACE, **change}), 422, "validation_failed")


class TestRevokeInvitation:
    def test_revoke_invitation_invalidates_its_links_at_once(self, acme: Tenant, eve: Person) -> None:
        invitation = invited(acme, eve)
        tokens = [token_of(mailed(acme.session)["url"]), link(acme, invitation)]
        assert acme.person("admin").delete(f"{INVITATIONS}/{invitation}").status_code == 204
        for token in tokens:
            refusal(eve.caller.get(PREVIEW, token=token), 404, "invitation_not_found")
        refusal(accept(eve, invitation), 404, "invitation_not_found")
        assert eve.caller.get(PENDING).json()["data"] == []
        assert acme.audit()[-1] == "invitation.revoked"

    def test_revoke_invitation_is_not_found_unless_pending(self, acme: Tenant, globex: Tenant, eve: Person) -> None:
        admin = acme.person("admin")
        accepted, foreign = invited(acme, eve), invited(globex, eve)
        accept(eve, accepted)
        revoked = admin.post(INVITATIONS, GRACE).json()["id"]
        admin.delete(f"{INVITATIONS}/{revoked}")
        for unknown in (accepted, revoked, foreign, new_id("inv"), "nothing"):
            refusal(admin.delete(f"{INVITATIONS}/{unknown}"), 404, "invitation_not_found")
        assert [row["id"] for row in eve.caller.get(PENDING).json()["data"]] == [foreign]

    def test_concurrent_acceptance_and_revocation_succeed_once(self, acme: Tenant, http: httpx.Client) -> None:
        admin = acme.person("admin")
        for number in range(5):
            eve = newcomer(acme.session, http, f"Eve {number}")
            invitation = invited(acme, eve)
            accepted, revoked = at_once(
                lambda eve=eve, invitation=invitation: accept(eve, invitation),  # type: ignore[misc]
                lambda invitation=invitation: admin.delete(f"{INVITATIONS}/{invitation}"),  # type: ignore[misc]
            )
            outcome = (accepted.status_code, revoked.status_code, is_member(acme.session, acme, eve))
            assert outcome in {(200, 404, True), (404, 204, False)}


class TestGetInvitationLink:
    def test_every_invitation_link_is_new_and_leads_to_the_invitation(self, acme: Tenant, eve: Person) -> None:
        invitation = invited(acme, eve)
        tokens = {token_of(mailed(acme.session)["url"]), link(acme, invitation), link(acme, invitation)}
        assert len(tokens) == 3
        for token in tokens:
            assert eve.caller.get(PREVIEW, token=token).json()["id"] == invitation
        assert acme.audit() == ["invitation.created", *["invitation.link_minted"] * 2]

    def test_invitation_link_expires_with_the_invitation(self, acme: Tenant, eve: Person, later: Any) -> None:
        invitation = invited(acme, eve)
        later(minutes=30)
        reported = acme.person("admin").get(f"{INVITATIONS}/{invitation}/link")
        row = acme.session.get_one(Invitation, invitation)
        assert {token.expires_at for token in acme.session.scalars(select(OneTimeToken))} == {row.expires_at}
        assert reported.headers["Cache-Control"] == "no-store"

    def test_get_invitation_link_is_not_found_unless_pending(self, acme: Tenant, globex: Tenant, eve: Person) -> None:
        accepted, foreign = invited(acme, eve), invited(globex, eve)
        accept(eve, accepted)
        for unknown in (accepted, foreign, new_id("inv")):
            refusal(acme.person("owner").get(f"{INVITATIONS}/{unknown}/link"), 404, "invitation_not_found")
