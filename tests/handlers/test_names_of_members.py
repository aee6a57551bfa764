"""Members of one name are recorded with their addresses, so that nobody passes for another."""

import pytest

from services.identity.oauth.access_tokens import issue_grant_token
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant, answered
from tests.handlers.people import Person, member
from tests.harness.mcp_client import McpClient

ALIKE = [
    "Ada Byron",
    "ADA BYRON",
    "Ada\u200bByron",
    "Ada\u00a0Byron\u2060",
    "\uff21da Byron",
    "Ada  \u3164Byron",
    "A\u200dda Byron",
]
FREEZES = "/v1/freezes"

pytestmark = pytest.mark.usefixtures("web")


def recorded(caller: Caller) -> str:
    """Return the name under which a caller starts a freeze."""
    shown: str = answered(caller.post(FREEZES, EVERYTHING), 201)["createdBy"]["name"]
    return shown


def with_address(person: Person) -> str:
    return f"{person.user.name} ({person.user.email})"


@pytest.fixture
def owner(acme: Tenant) -> Person:
    return member(acme, "owner", "Ada Byron")


class TestSession:
    @pytest.mark.parametrize("name", ALIKE)
    def test_members_of_one_name_are_recorded_with_addresses(self, acme: Tenant, owner: Person, name: str) -> None:
        other = member(acme, "admin", name)
        assert recorded(owner.caller) == with_address(owner)
        assert recorded(other.caller) == with_address(other)

    def test_member_of_a_unique_name_is_recorded_with_it(self, acme: Tenant, globex: Tenant, owner: Person) -> None:
        member(acme, "admin", "Ada Byron-King")
        member(globex, "admin", "Ada Byron")
        assert recorded(owner.caller) == "Ada Byron"

    def test_name_that_imitates_an_address_gets_the_true_one(self, acme: Tenant, owner: Person) -> None:
        other = member(acme, "admin", with_address(owner))
        assert recorded(owner.caller) == "Ada Byron"
        assert recorded(other.caller) == with_address(other)

    def test_audit_entry_names_the_address_too(self, acme: Tenant, owner: Person) -> None:
        member(acme, "viewer", "Ada Byron")
        recorded(owner.caller)
        assert factories.audit_entries(acme.session, "freeze.started")[-1].actor["name"] == with_address(owner)

    def test_member_whose_role_changes_is_named_with_the_address(self, acme: Tenant, owner: Person) -> None:
        viewer = member(acme, "viewer", "Ada Byron")
        assert owner.caller.patch(f"/v1/members/{viewer.id}", {"role": "member"}).status_code == 200
        assert factories.audit_entries(acme.session, "member.role_changed")[-1].target["name"] == with_address(viewer)


class TestOtherEntrances:
    def test_person_of_a_connected_client_is_recorded_with_the_address(self, acme: Tenant, owner: Person) -> None:
        member(acme, "viewer", "Ada Byron")
        grant = factories.connection(acme.session, owner.user, acme.organization)
        token = issue_grant_token(factories.signer(acme.session), grant, grant.scopes, now=factories.now())
        McpClient(Caller(acme.http, token)).call("svc_start_freeze", **EVERYTHING)
        assert factories.audit_entries(acme.session, "freeze.started")[-1].actor["name"] == with_address(owner)

    def test_key_named_like_a_member_is_recorded_as_a_key(self, acme: Tenant, owner: Person) -> None:
        response = acme.key(name="Ada Byron").post(FREEZES, EVERYTHING)
        assert response.json()["createdBy"]["type"] == "api_key"
