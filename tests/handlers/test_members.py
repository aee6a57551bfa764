"""Operations of the tag Members, as far as they concern members; those of invitations are in `invitations`."""

import httpx
import pytest
from sqlalchemy.orm import Session

from models.organizations import Membership
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.people import Person, member, signed_in, through_pages
from tests.harness.concurrency import at_once

MEMBERS = "/v1/members"


def path_of(person: Person) -> str:
    return f"{MEMBERS}/{person.id}"


def roles(session: Session, tenant: Tenant) -> dict[str, str]:
    session.expire_all()
    rows = session.query(Membership).where(Membership.organization_id == tenant.id)
    return {row.user_id: row.role for row in rows}


class TestListMembers:
    def test_list_members_sorts_by_name_ignoring_case(self, acme: Tenant) -> None:
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

    def test_pages_of_members_list_each_member_once(self, acme: Tenant) -> None:
        people = [member(acme, name=name) for name in ("Bob", "bob", "Ada", "Çelik", "Eve", "Bob")]
        shown = through_pages(people[0].caller, MEMBERS)
        assert sorted(str(row["userId"]) for row in shown) == sorted(person.id for person in people)


class TestUpdateMember:
    def test_changed_role_takes_effect_at_once(self, acme: Tenant) -> None:
        grace, admin = member(acme, "viewer"), acme.person("admin")
        refusal(grace.caller.patch("/v1/orgs/current", {}), 403, "insufficient_permission")
        reported = answered(admin.patch(path_of(grace), {"role": "admin"}))
        assert reported["role"] == "admin"
        assert reported["userId"] == grace.id
        assert grace.caller.patch("/v1/orgs/current", {}).status_code == 200
        admin.patch(path_of(grace), {"role": "viewer"})
        refusal(grace.caller.patch("/v1/orgs/current", {}), 403, "insufficient_permission")

    def test_role_change_is_audited_with_both_roles(self, acme: Tenant) -> None:
        grace = member(acme, "viewer")
        acme.person("admin").patch(path_of(grace), {"role": "member"})
        entry = factories.audit_entries(acme.session)[-1]
        assert entry.action == "member.role_changed"
        assert entry.target == {"type": "user", "id": grace.id, "name": "Grace Hopper"}
        assert entry.details == {"before": {"role": "viewer"}, "after": {"role": "member"}}
        assert entry.actor["name"] == "Admin"

    def test_update_member_to_the_same_role_is_not_audited(self, acme: Tenant) -> None:
        assert acme.person("admin").patch(path_of(member(acme, "viewer")), {"role": "viewer"}).status_code == 200
        assert acme.audit() == []

    @pytest.mark.parametrize(("before", "after"), [("member", "owner"), ("owner", "member"), ("owner", "admin")])
    def test_owner_role_is_granted_and_removed_only_by_an_owner(self, acme: Tenant, before: str, after: str) -> None:
        grace, owner = member(acme, before), acme.person("owner")
        refusal(acme.person("admin").patch(path_of(grace), {"role": after}), 403, "insufficient_permission")
        assert roles(acme.session, acme)[grace.id] == before
        assert owner.patch(path_of(grace), {"role": after}).json()["role"] == after

    def test_administrator_cannot_promote_themselves_to_owner(self, acme: Tenant) -> None:
        admin = member(acme, "admin")
        refusal(admin.caller.patch(path_of(admin), {"role": "owner"}), 403, "insufficient_permission")

    def test_only_owner_cannot_be_demoted(self, acme: Tenant) -> None:
        owner = member(acme, "owner")
        refusal(owner.caller.patch(path_of(owner), {"role": "admin"}), 409, "invalid_state")
        assert roles(acme.session, acme)[owner.id] == "owner"
        assert acme.audit() == []

    def test_owner_of_another_organization_does_not_count_as_an_owner(self, acme: Tenant, globex: Tenant) -> None:
        owner = member(acme, "owner")
        factories.membership(acme.session, globex.organization, owner.user, "owner")
        refusal(owner.caller.patch(path_of(owner), {"role": "admin"}), 409, "invalid_state")

    def test_owners_who_demote_each_other_leave_one_owner(self, acme: Tenant) -> None:
        for _ in range(4):
            first, second = member(acme, "owner", "First"), member(acme, "owner", "Second")
            answers = at_once(
                lambda first=first, second=second: first.caller.patch(path_of(second), {"role": "member"}),  # type: ignore[misc]
                lambda first=first, second=second: second.caller.patch(path_of(first), {"role": "member"}),  # type: ignore[misc]
            )
            assert sorted(answer.status_code for answer in answers) == [200, 403]
            assert list(roles(acme.session, acme).values()).count("owner") == 1
            acme.session.query(Membership).where(Membership.organization_id == acme.id).delete()

    def test_owners_who_demote_themselves_concurrently_leave_one_owner(self, acme: Tenant) -> None:
        people = [member(acme, "owner", name) for name in ("First", "Second")]
        answers = at_once(*[lambda one=one: one.caller.patch(path_of(one), {"role": "member"}) for one in people])
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert list(roles(acme.session, acme).values()).count("owner") == 1


class TestRemoveMember:
    def test_removal_of_a_member_takes_effect_on_every_session(self, acme: Tenant, http: httpx.Client) -> None:
        grace = member(acme)
        sessions = [grace.caller, signed_in(acme.session, http, grace.user, acme.organization).caller]
        assert acme.person("admin").delete(path_of(grace)).status_code == 204
        for caller in sessions:
            refusal(caller.get(MEMBERS), 401, "invalid_token")
        assert grace.id not in roles(acme.session, acme)
        entry = factories.audit_entries(acme.session)[-1]
        assert (entry.action, entry.details) == ("member.removed", {"before": {"role": "member"}, "after": None})
        assert entry.target == {"type": "user", "id": grace.id, "name": "Grace Hopper"}

    def test_removed_member_stays_in_another_organization(self, acme: Tenant, globex: Tenant) -> None:
        grace = member(acme)
        factories.membership(acme.session, globex.organization, grace.user)
        acme.person("admin").delete(path_of(grace))
        refusal(grace.caller.get(MEMBERS), 401, "invalid_token")
        assert grace.id in roles(acme.session, globex)

    def test_owner_is_removed_only_by_an_owner(self, acme: Tenant) -> None:
        grace, owner = member(acme, "owner"), acme.person("owner")
        refusal(acme.person("admin").delete(path_of(grace)), 403, "insufficient_permission")
        assert owner.delete(path_of(grace)).status_code == 204

    def test_only_owner_cannot_be_removed(self, acme: Tenant) -> None:
        owner = member(acme, "owner")
        refusal(owner.caller.delete(path_of(owner)), 409, "invalid_state")
        assert roles(acme.session, acme) == {owner.id: "owner"}

    def test_owners_who_remove_each_other_leave_one_owner(self, acme: Tenant) -> None:
        first, second = member(acme, "owner", "First"), member(acme, "owner", "Second")
        answers = at_once(lambda: first.caller.delete(path_of(second)), lambda: second.caller.delete(path_of(first)))
        assert sorted(answer.status_code for answer in answers) == [204, 401]
        assert list(roles(acme.session, acme).values()) == ["owner"]

    def test_api_keys_outlive_the_removal_of_their_creator(self, acme: Tenant) -> None:
        grace, key = member(acme, "admin"), acme.key("repo:read")
        acme.person("owner").delete(path_of(grace))
        assert key.get("/v1/orgs/current").status_code == 200
