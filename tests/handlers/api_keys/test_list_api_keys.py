"""Which scopes there are, and which keys."""

from datetime import timedelta

from models.organizations import Membership
from tests import factories
from tests.factories import SCOPES
from tests.handlers.api_keys.requests import PATH, SECOND, listed, made
from tests.handlers.callers import Tenant


class TestListApiKeyScopes:
    def test_list_api_key_scopes_describes_every_scope(self, acme: Tenant) -> None:
        page = acme.person("viewer").get(f"{PATH}/scopes").json()
        assert tuple(row["name"] for row in page["data"]) == SCOPES
        assert all(len(row["description"]) > 10 for row in page["data"])
        assert page["nextCursor"] is None


class TestListApiKeys:
    def test_list_api_keys_returns_the_newest_first(self, acme: Tenant) -> None:
        names = [made(acme, name=name)["apiKey"]["name"] for name in ("first", "second", "third")]
        assert [row["name"] for row in listed(acme)] == names[::-1]

    def test_list_api_keys_shows_no_secret(self, acme: Tenant) -> None:
        made_key = made(acme)
        (row,) = listed(acme)
        assert row == made_key["apiKey"]
        assert made_key["secret"] not in acme.person("viewer").get(PATH).text

    def test_list_api_keys_shows_the_state_of_each_key(self, acme: Tenant) -> None:
        past = factories.now() - SECOND
        factories.api_key(acme.session, acme.organization, name="active")
        factories.api_key(acme.session, acme.organization, name="for a while", expires_at=past + timedelta(hours=1))
        factories.api_key(acme.session, acme.organization, name="expired", expires_at=past)
        factories.api_key(acme.session, acme.organization, name="revoked", revoked_at=past)
        factories.api_key(acme.session, acme.organization, name="both", revoked_at=past, expires_at=past)
        found = {
            state: {row["name"] for row in listed(acme, state=state)} for state in ("active", "expired", "revoked")
        }
        assert found == {"active": {"active", "for a while"}, "expired": {"expired"}, "revoked": {"revoked", "both"}}
        assert {row["name"]: row["state"] for row in listed(acme)} == {
            name: state for state, names in found.items() for name in names
        }

    def test_key_without_a_creator_is_shown_as_created_by_the_system(self, acme: Tenant) -> None:
        acme.key("freeze:read")
        (row,) = listed(acme)
        assert row["createdBy"]["type"] == "system"

    def test_creator_of_a_key_is_shown_after_leaving_the_organization(self, acme: Tenant) -> None:
        made_by = made(acme)["apiKey"]["createdBy"]
        assert (made_by["type"], made_by["name"]) == ("user", "Admin")
        acme.session.query(Membership).where(Membership.user_id == made_by["id"]).delete()
        assert listed(acme)[0]["createdBy"] == made_by
