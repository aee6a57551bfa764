"""Operations of the tag Members, as far as they concern members; those of invitations are in `invitations`."""

from typing import Any

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.organizations import Membership
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, at_once, refusal
from tests.handlers.guards import takes_credentials
from tests.handlers.people import Person, member, newcomer, signed_in, through_pages

MEMBERS = "/v1/members"


def path_of(person: Person) -> str:
    return f"{MEMBERS}/{person.id}"


def roles(session: Session, tenant: Tenant) -> dict[str, str]:
    session.expire_all()
    rows = session.query(Membership).where(Membership.organization_id == tenant.id)
    return {row.user_id: row.role for row in rows}


def last_entry(session: Session) -> AuditEntry:
    return session.scalars(select(AuditEntry).order_by(AuditEntry.at.desc(), AuditEntry.id.desc())).first()  # type: ignore[return-value]


class TestListMembers:
    def test_it_is_for_people_of_any_role(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.get(MEMBERS), scope=None, least_role="viewer")

    def test_members_are_told_by_name_in_any_case(self, acme: Tenant) -> None:
        people = [member(acme, "viewer", name) for name in ("grace Hopper", "Ada Lovelace", "Alan Turing")]
        shown = people[0].caller.get(MEMBERS).json()["data"]
        assert [row["name"] for row in shown] == ["Ada Lovelace", "Alan Turing", "grace Hopper"]
        assert shown[2].pop("joinedAt").endswith("Z")
        assert shown[2] == {
            "userId": people[0].id,
            "name": "grace Hopper",
            "email": people[0].user.email,
            "role": "viewer",
        }

    def test_pages_lead_through_all_of_them_once(self, acme: Tenant) -> None:
        people = [member(acme, name=name) for name in ("Bob", "bob", "Ada", "Çelik", "Eve", "Bob")]
        shown = through_pages(people[0].caller, MEMBERS)
        assert sorted(str(row["userId"]) for row in shown) == sorted(person.id for person in people)

    def test_a_cursor_of_another_organisation_is_refused(self, acme: Tenant, globex: Tenant) -> None:
        people = [member(acme, name=name) for name in ("Ada", "Bob")]
        cursor = people[0].caller.get(MEMBERS, limit=1).json()["nextCursor"]
        refusal(member(globex).caller.get(MEMBERS, limit=1, cursor=cursor), 400, "invalid_cursor")

    def test_nobody_of_another_organisation_is_told(
        self, acme: Tenant, globex: Tenant, session: Session, http: httpx.Client
    ) -> None:
        member(globex, name="Secret")
        newcomer(session, http)
        grace = member(acme)
        assert [row["userId"] for row in grace.caller.get(MEMBERS).json()["data"]] == [grace.id]


class TestUpdateMember:
    def test_it_is_for_administrators(self, acme: Tenant) -> None:
        path, body = path_of(member(acme)), {"role": "viewer"}
        takes_credentials(acme, lambda caller: caller.patch(path, body), scope=None, least_role="admin", writes=True)

    def test_a_role_acts_at_once(self, acme: Tenant, session: Session) -> None:
        grace, admin = member(acme, "viewer"), acme.person("admin")
        refusal(grace.caller.patch("/v1/orgs/current", {}), 403, "insufficient_permission")
        told = admin.patch(path_of(grace), {"role": "admin"})
        assert told.status_code == 200
        assert told.json()["role"] == "admin"
        assert told.json()["userId"] == grace.id
        assert grace.caller.patch("/v1/orgs/current", {}).status_code == 200
        admin.patch(path_of(grace), {"role": "viewer"})
        refusal(grace.caller.patch("/v1/orgs/current", {}), 403, "insufficient_permission")

    def test_the_audit_tells_before_and_after(self, acme: Tenant, session: Session) -> None:
        grace = member(acme, "viewer")
        acme.person("admin").patch(path_of(grace), {"role": "member"})
        entry = last_entry(session)
        assert entry.action == "member.role_changed"
        assert entry.target == {"type": "user", "id": grace.id, "name": "Grace Hopper"}
        assert entry.details == {"before": {"role": "viewer"}, "after": {"role": "member"}}
        assert entry.actor["name"] == "Admin"

    def test_the_same_role_again_is_no_change(self, acme: Tenant) -> None:
        assert acme.person("admin").patch(path_of(member(acme, "viewer")), {"role": "viewer"}).status_code == 200
        assert acme.audit() == []

    @pytest.mark.parametrize(("before", "after"), [("member", "owner"), ("owner", "member"), ("owner", "admin")])
    def test_only_owners_make_and_unmake_owners(self, acme: Tenant, session: Session, before: str, after: str) -> None:
        grace, owner = member(acme, before), acme.person("owner")
        refusal(acme.person("admin").patch(path_of(grace), {"role": after}), 403, "insufficient_permission")
        assert roles(session, acme)[grace.id] == before
        assert owner.patch(path_of(grace), {"role": after}).json()["role"] == after

    def test_an_administrator_does_not_promote_themselves(self, acme: Tenant) -> None:
        admin = member(acme, "admin")
        refusal(admin.caller.patch(path_of(admin), {"role": "owner"}), 403, "insufficient_permission")

    def test_the_only_owner_stays_one(self, acme: Tenant, session: Session) -> None:
        owner = member(acme, "owner")
        refusal(owner.caller.patch(path_of(owner), {"role": "admin"}), 409, "invalid_state")
        assert roles(session, acme)[owner.id] == "owner"
        assert acme.audit() == []

    def test_an_owner_of_another_organisation_does_not_count(
        self, acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        owner = member(acme, "owner")
        factories.membership(session, globex.organization, owner.user, "owner")
        refusal(owner.caller.patch(path_of(owner), {"role": "admin"}), 409, "invalid_state")

    def test_of_two_owners_who_demote_each_other_one_is_left(self, acme: Tenant, session: Session) -> None:
        for _ in range(4):
            first, second = member(acme, "owner", "First"), member(acme, "owner", "Second")
            answers = at_once(
                lambda first=first, second=second: first.caller.patch(path_of(second), {"role": "member"}),  # type: ignore[misc]
                lambda first=first, second=second: second.caller.patch(path_of(first), {"role": "member"}),  # type: ignore[misc]
            )
            assert sorted(answer.status_code for answer in answers) == [200, 403]
            assert list(roles(session, acme).values()).count("owner") == 1
            session.query(Membership).where(Membership.organization_id == acme.id).delete()

    def test_of_two_owners_who_both_step_back_one_is_left(self, acme: Tenant, session: Session) -> None:
        people = [member(acme, "owner", name) for name in ("First", "Second")]
        answers = at_once(*[lambda one=one: one.caller.patch(path_of(one), {"role": "member"}) for one in people])
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert list(roles(session, acme).values()).count("owner") == 1

    def test_whoever_is_no_member_here_is_not_found(
        self, acme: Tenant, globex: Tenant, session: Session, http: httpx.Client
    ) -> None:
        for other in (member(globex).id, newcomer(session, http).id, new_id("usr"), new_id("key"), "nobody"):
            answer = acme.person("owner").patch(f"{MEMBERS}/{other}", {"role": "viewer"})
            refusal(answer, 404, "member_not_found")

    @pytest.mark.parametrize("role", ["Owner", "root", "", None, 7, ["owner"]], ids=repr)
    def test_an_unknown_role_does_not_match_the_schema(self, acme: Tenant, role: Any) -> None:
        refusal(acme.person("owner").patch(path_of(member(acme)), {"role": role}), 422, "validation_failed")

    def test_a_repeated_key_changes_nothing_again(self, acme: Tenant, session: Session) -> None:
        grace, admin, key = member(acme, "viewer"), acme.person("admin"), {"Idempotency-Key": "once"}
        admin.patch(path_of(grace), {"role": "admin"}, headers=key)
        admin.patch(path_of(grace), {"role": "member"})
        again = admin.patch(path_of(grace), {"role": "admin"}, headers=key)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert roles(session, acme)[grace.id] == "member"


class TestRemoveMember:
    def test_it_is_for_administrators(self, acme: Tenant) -> None:
        path = path_of(member(acme))
        takes_credentials(acme, lambda caller: caller.delete(path), scope=None, least_role="admin", writes=True)

    def test_it_acts_at_once_on_every_session(self, acme: Tenant, session: Session, http: httpx.Client) -> None:
        grace = member(acme)
        sessions = [grace.caller, signed_in(session, http, grace.user, acme.organization).caller]
        assert acme.person("admin").delete(path_of(grace)).status_code == 204
        for caller in sessions:
            refusal(caller.get(MEMBERS), 403, "organization_not_provisioned")
        assert grace.id not in roles(session, acme)
        entry = last_entry(session)
        assert (entry.action, entry.details) == ("member.removed", {"before": {"role": "member"}, "after": None})
        assert entry.target == {"type": "user", "id": grace.id, "name": "Grace Hopper"}

    def test_a_member_of_two_organisations_stays_in_the_other(
        self, acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        grace = member(acme)
        factories.membership(session, globex.organization, grace.user)
        acme.person("admin").delete(path_of(grace))
        refusal(grace.caller.get(MEMBERS), 403, "no_organization_selected")
        assert grace.id in roles(session, globex)

    def test_only_owners_remove_owners(self, acme: Tenant) -> None:
        grace, owner = member(acme, "owner"), acme.person("owner")
        refusal(acme.person("admin").delete(path_of(grace)), 403, "insufficient_permission")
        assert owner.delete(path_of(grace)).status_code == 204

    def test_the_only_owner_stays(self, acme: Tenant, session: Session) -> None:
        owner = member(acme, "owner")
        refusal(owner.caller.delete(path_of(owner)), 409, "invalid_state")
        assert roles(session, acme) == {owner.id: "owner"}

    def test_of_two_owners_who_remove_each_other_one_is_left(self, acme: Tenant, session: Session) -> None:
        first, second = member(acme, "owner", "First"), member(acme, "owner", "Second")
        answers = at_once(lambda: first.caller.delete(path_of(second)), lambda: second.caller.delete(path_of(first)))
        assert sorted(answer.status_code for answer in answers) == [204, 403]
        assert list(roles(session, acme).values()) == ["owner"]

    def test_keys_are_the_organisations_and_stay(self, acme: Tenant) -> None:
        grace, key = member(acme, "admin"), acme.key("repo:read")
        acme.person("owner").delete(path_of(grace))
        assert key.get("/v1/orgs/current").status_code == 200

    def test_whoever_is_no_member_here_is_not_found(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        other = member(globex)
        for path in (path_of(other), f"{MEMBERS}/{new_id('usr')}", f"{MEMBERS}/{acme.id}"):
            refusal(acme.person("owner").delete(path), 404, "member_not_found")
        assert other.id in roles(session, globex)

    def test_a_second_time_they_are_not_found_and_a_repeated_key_is_answered_again(self, acme: Tenant) -> None:
        path, admin, key = path_of(member(acme)), acme.person("admin"), {"Idempotency-Key": "once"}
        assert admin.delete(path, headers=key).status_code == 204
        assert admin.delete(path, headers=key).status_code == 204
        refusal(admin.delete(path), 404, "member_not_found")
        assert acme.audit() == ["member.removed"]
