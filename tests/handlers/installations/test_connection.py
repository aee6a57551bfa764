"""Connecting GitHub: the address, polling, and the steps to the first freeze."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy import select, update

from models.installations import Installation
from models.requests import IdempotencyKey
from rules.rulesets.app_permissions import NEEDED
from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant, answered
from tests.handlers.installation_connection import ONBOARDING, STATUS, URL, ConnectionFixture


class TestGetInstallUrl:
    def test_install_url_leads_to_github_with_a_state_of_256_bits(self, connection: ConnectionFixture) -> None:
        answer = connection.admin.get(URL).json()
        parts = urlsplit(answer["url"])
        assert f"{parts.scheme}://{parts.netloc}" == connection.host.base_url
        assert parts.path == "/apps/change-freeze/installations/new"
        assert len(dict(parse_qsl(parts.query))["state"]) * 6 >= 256

    def test_install_url_is_new_each_time_except_under_the_same_key(self, connection: ConnectionFixture) -> None:
        headers = {"Idempotency-Key": "one"}
        once, again = (connection.admin.send("GET", URL, headers=headers) for _ in range(2))
        assert once.json() == again.json()
        assert again.headers["Idempotency-Replayed"] == "true"
        assert connection.address() != once.json()["url"]
        [kept] = connection.session.scalars(select(IdempotencyKey))
        assert kept.secret

    def test_get_install_url_is_audited(self, connection: ConnectionFixture) -> None:
        connection.address()
        assert connection.tenant.audit() == ["installation.requested"]


class TestGetInstallationStatus:
    def test_installation_status_goes_from_none_to_removed(self, connection: ConnectionFixture, later: Any) -> None:
        viewer = connection.tenant.person("viewer")
        assert viewer.get(STATUS).json() == {"state": "none", "installation": None, "pendingUntil": None}
        address = connection.admin.get(URL).json()
        pending = viewer.get(STATUS).json()
        assert (pending["state"], pending["pendingUntil"]) == ("pending", address["expiresAt"])
        claimed = connection.claim(connection.install(address=address["url"])).json()
        assert viewer.get(STATUS).json() == {"state": "active", "installation": claimed, "pendingUntil": None}
        for state in ("suspended", "removed"):
            connection.session.execute(update(Installation).values(state=state))
            shown = viewer.get(STATUS).json()
            assert (shown["state"], shown["installation"]["state"]) == (state, state)
            address = shown["installation"]["settingsUrl"]
            number = claimed["installationId"]
            assert address == (
                None
                if state == "removed"
                else f"{connection.host.base_url}/organizations/acme/settings/installations/{number}"
            )

    def test_installation_status_is_pending_until_the_install_url_expires(
        self, connection: ConnectionFixture, later: Any
    ) -> None:
        claimed = connection.claim(connection.install()).json()["installationId"]
        connection.session.execute(update(Installation).values(state="removed"))
        connection.address()
        shown = connection.tenant.key("repo:read").get(STATUS).json()
        assert (shown["state"], shown["installation"]["installationId"]) == ("pending", claimed)
        later(hours=1)
        assert connection.tenant.key("repo:read").get(STATUS).json()["state"] == "removed"

    def test_installation_status_describes_the_named_installation(self, acme: Tenant) -> None:
        former = factories.installation(acme.session, acme.organization, "acme", state="removed")
        key = acme.key("repo:read")
        assert key.get(STATUS).json()["installation"]["installationId"] == acme.installation.id
        assert key.get(STATUS, installationId=former.id).json()["state"] == "removed"

    def test_installation_status_reports_missing_permissions(self, acme: Tenant) -> None:
        granted = {**NEEDED, "statuses": "read"}
        acme.session.execute(update(Installation).values(permissions=granted))
        assert acme.key().get(STATUS).json()["installation"]["missingPermissions"] == ["statuses:write"]


class TestGetOnboarding:
    def test_onboarding_without_an_organization_begins_with_creating_one(self, acme: Tenant) -> None:
        person = factories.user(acme.session)
        shown = answered(Caller(acme.http, factories.session_token(acme.session, person, None)).get(ONBOARDING))
        assert shown["nextStep"] == "organization"
        assert {step["done"] for step in shown["steps"]} == {False}
        pages = [urlsplit(step["action"]["url"]).path for step in shown["steps"]]
        assert pages == ["/", "/installed", *["/repositories"] * 2, "/enforcement/setup", "/freezes/new"]

    def test_onboarding_of_a_deleted_organization_begins_with_creating_one(self, acme: Tenant) -> None:
        viewer = acme.person("viewer")
        acme.organization.deleted_at = factories.now()
        acme.session.flush()
        assert viewer.get(ONBOARDING).json()["nextStep"] == "organization"

    def test_onboarding_advances_with_each_completed_step(self, connection: ConnectionFixture) -> None:
        viewer = connection.tenant.person("viewer")

        def next_step() -> tuple[str | None, str | None]:
            shown = viewer.get(ONBOARDING).json()
            actions = {step["name"]: step["action"] for step in shown["steps"]}
            following = shown["nextStep"]
            return following, actions[following]["operationId"] if following else None

        assert next_step() == ("installation", "get_install_url")
        body = connection.install()
        assert next_step() == ("installation", "claim_installation")
        connection.claim(body)
        assert next_step() == ("repositories", "sync_repositories")
        repository = connection.tenant.repository("web", enabled=False)
        assert next_step() == ("repositories", "enable_repositories")
        repository.enabled = True
        connection.session.flush()
        assert next_step() == ("branches", "watch_branch")
        branch = factories.branch(connection.session, repository)
        assert next_step() == ("enforcement", "setup_enforcement")
        factories.branch_enforcement(connection.session, branch, "amber")
        assert next_step() == ("first_freeze", "create_freeze")
        assert connection.admin.post("/v1/freezes", EVERYTHING).status_code == 201
        assert next_step() == (None, None)
        connection.session.execute(update(Installation).values(state="removed"))
        assert next_step() == ("installation", "get_install_url")

    def test_onboarding_names_existing_operations(self, connection: ConnectionFixture) -> None:
        operations = load_contract().operations
        steps = connection.tenant.person("viewer").get(ONBOARDING).json()["steps"]
        actions = [step["action"] for step in steps if step["action"] is not None]
        assert actions
        for action in actions:
            found = operations[action["operationId"]]
            assert (found.method, found.path) == (action["method"], action["path"])
