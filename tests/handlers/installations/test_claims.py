"""Claiming an installation: the proofs that it takes, and what an uninstallation leaves of it."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from models.attention import AttentionItem
from models.base import Base
from models.freezes import Freeze
from models.identity import GitHubLink, OneTimeToken
from models.installations import Installation, RepositorySync
from models.repositories import Repository
from rules.rulesets.app_permissions import NEEDED
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant, answered, refusal
from tests.handlers.installation_connection import BACK, CLAIM, URL, ConnectionFixture
from tests.harness.concurrency import at_once
from tests.harness.wakeups import RecordedWakeups
from tools.fake_github.model.installations import install, suspend
from tools.fake_github.model.world import Actor

ANYTHING = {"installationId": 1, "state": "x" * 43, "code": "y" * 20}


def pointed(response: httpx.Response, path: str) -> None:
    """Check that a value of the body was refused, and which."""
    assert [row["path"] for row in refusal(response, 422, "invalid_parameter")["details"]] == [path]


class TestClaimInstallation:
    def test_claim_installation_assigns_the_installation_to_the_organization(
        self, connection: ConnectionFixture, wakeups: RecordedWakeups
    ) -> None:
        body = connection.install()
        answer = answered(connection.claim(body))
        settings = f"{connection.host.base_url}/organizations/acme/settings/installations"
        assert answer == {
            "installationId": body["installationId"],
            "account": "acme",
            "state": "active",
            "repositorySelection": "all",
            "permissions": connection.host.world.installations[body["installationId"]].permissions,
            "missingPermissions": [],
            "settingsUrl": f"{settings}/{body['installationId']}",
        }
        row = connection.session.get_one(Installation, body["installationId"])
        assert row.organization_id == connection.tenant.id
        assert connection.session.get_one(RepositorySync, row.id).due_at is not None
        assert {"sync", "reconcile", "verify"} <= set(wakeups.sent)
        assert connection.tenant.audit() == ["installation.requested", "installation.claimed"]

    def test_claim_installation_is_audited_with_the_github_login(self, connection: ConnectionFixture) -> None:
        body = connection.install("grace")
        connection.claim(body)
        [row] = factories.audit_entries(connection.session, "installation.claimed")
        assert row.target == {"type": "installation", "id": str(body["installationId"]), "name": "acme"}
        after = {"state": "active", "repositorySelection": "all"}
        assert (row.actor["name"], row.details) == ("Admin", {"provedBy": "grace", "before": None, "after": after})

    def test_claim_installation_links_the_github_account_to_the_person(self, connection: ConnectionFixture) -> None:
        for login in ("grace", "grace", "ada"):
            assert connection.claim(connection.install(login)).status_code == 200
            [row] = connection.session.scalars(select(GitHubLink).execution_options(populate_existing=True))
            expected = (connection.host.world.logins[login].id, login)
            assert (row.account_id, row.login) == expected

    def test_claim_installation_revokes_the_github_token_of_the_person(self, connection: ConnectionFixture) -> None:
        assert connection.claim(connection.install()).status_code == 200
        assert any(each.startswith("ghu_") for each in connection.host.oauth.issued)
        assert connection.host.oauth.tokens == set()

    def test_claim_installation_stores_neither_state_nor_code_nor_token(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        connection.claim(body)
        kept = "".join(
            str(connection.session.execute(text(f"SELECT t::text FROM {table} t")).all())
            for table in Base.metadata.tables
        )
        assert [each for each in (body["state"], *connection.host.oauth.issued) if each in kept] == []

    def test_claim_installation_reports_a_suspended_installation(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        with connection.host.quietly():
            found = connection.host.world.installations[body["installationId"]]
            suspend(connection.host.world, Actor(connection.host.maintainer), found, suspended=True)
        assert connection.claim(body).json()["state"] == "suspended"

    def test_claim_installation_reports_missing_permissions(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        connection.host.world.installations[body["installationId"]].permissions = {"checks": "read", "members": "read"}
        missing = connection.claim(body).json()["missingPermissions"]
        assert missing == [f"{name}:{level}" for name, level in NEEDED.items()]

    def test_repeated_claim_by_the_same_organization_succeeds(self, connection: ConnectionFixture) -> None:
        first = connection.claim(connection.install())
        again = connection.claim(connection.install())
        assert first.json() == again.json()
        assert again.status_code == 200

    def test_installation_of_a_personal_account_is_claimed_only_by_its_owner(
        self, connection: ConnectionFixture
    ) -> None:
        with connection.host.quietly():
            account = connection.host.world.add_account("ada", "User")
            number = install(connection.host.world, Actor(account), connection.host.app, account).id
        state = connection.install()["state"]
        foreign = {"installationId": number, "state": state, "code": connection.code("root")}
        refusal(connection.claim(foreign), 403, "github_permission_denied")
        own = connection.claim({**foreign, "code": connection.code("ada")})
        assert (own.status_code, own.json()["account"]) == (200, "ada")


class TestClaimState:
    def test_claim_state_is_used_once(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        assert connection.claim(body).status_code == 200
        pointed(connection.claim({**body, "code": connection.code()}), "/state")

    def test_claim_state_is_used_once_by_concurrent_claims(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        bodies = [{**body, "code": connection.code()} for _ in range(3)]
        answers = at_once(*(lambda sent=sent: connection.claim(sent) for sent in bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 422, 422]

    def test_claim_state_expires_after_an_hour(self, connection: ConnectionFixture, later: Any) -> None:
        person = factories.member(connection.session, connection.tenant.organization, "admin")
        token = factories.session_token(
            connection.session, person, connection.tenant.organization, ttl=timedelta(hours=2)
        )
        ada = Caller(connection.admin.http, token)
        body = connection.install(address=connection.address(ada))
        later(minutes=59)
        pointed(connection.claim({**body, "code": "wrong"}, ada), "/code")
        later(minutes=1)
        pointed(connection.claim({**body, "code": connection.code()}, ada), "/state")

    def test_claim_state_is_bound_to_the_requesting_person(self, connection: ConnectionFixture) -> None:
        pointed(connection.claim(connection.install(), connection.tenant.person("owner")), "/state")

    def test_claim_state_is_bound_to_the_requesting_organization(
        self, connection: ConnectionFixture, globex: Tenant
    ) -> None:
        pointed(connection.claim(connection.install(), globex.person("admin")), "/state")

    def test_claim_state_is_bound_to_one_organization_of_the_person(
        self, connection: ConnectionFixture, globex: Tenant
    ) -> None:
        person = factories.user(connection.session)
        callers = []
        for tenant in (connection.tenant, globex):
            factories.membership(connection.session, tenant.organization, person, "admin")
            callers.append(
                Caller(connection.admin.http, factories.session_token(connection.session, person, tenant.organization))
            )
        body = connection.install(address=connection.address(callers[0]))
        pointed(connection.claim(body, callers[1]), "/state")
        assert connection.claim({**body, "code": connection.code()}, callers[0]).status_code == 200

    @pytest.mark.parametrize("tampered", ["x" * 43, "A", "{}x", "!{}"])
    def test_claim_state_cannot_be_forged(self, connection: ConnectionFixture, tampered: str) -> None:
        body = connection.install()
        pointed(connection.claim({**body, "state": tampered.format(body["state"])[:128]}), "/state")

    def test_claim_state_of_another_purpose_is_rejected(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        connection.session.execute(update(OneTimeToken).values(purpose="invitation"))
        pointed(connection.claim(body), "/state")

    def test_claim_state_survives_a_rejected_code(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        pointed(connection.claim({**body, "code": "made-up"}), "/code")
        assert connection.claim(body).status_code == 200

    def test_claim_state_survives_an_outage_of_github(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        fault = connection.host.faults.add("error", "GET /user/installations", status=502)
        refusal(connection.claim(body), 502, "github_unavailable")
        connection.host.faults.clear(fault.id)
        assert connection.host.oauth.tokens == set()
        pointed(connection.claim(body), "/code")
        assert connection.claim({**body, "code": connection.code()}).status_code == 200


class TestClaimProof:
    def test_claim_requires_an_owner_of_the_account(self, connection: ConnectionFixture) -> None:
        connection.rights("grace", acme="push", acme__web="admin")
        body = {**connection.install(), "code": connection.code("grace")}
        error = refusal(connection.claim(body), 403, "github_permission_denied")
        assert "grace is not an owner of acme" in error["message"]
        assert connection.host.oauth.tokens == set()

    def test_claim_requires_access_to_the_installation(self, connection: ConnectionFixture) -> None:
        connection.rights("heidi")
        refusal(
            connection.claim({**connection.install(), "code": connection.code("heidi")}), 404, "installation_not_found"
        )

    def test_claim_requires_the_members_permission_of_the_app(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        del connection.host.world.installations[body["installationId"]].permissions["members"]
        refusal(connection.claim(body), 403, "github_permission_denied")

    def test_claim_requires_a_code_issued_to_the_app(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        other = connection.host.oauth.give_code(connection.host.oauth.client_id, connection.host.maintainer, BACK)
        pointed(connection.claim({**body, "code": other}), "/code")

    def test_unknown_and_inaccessible_installations_are_indistinguishable(
        self, connection: ConnectionFixture, globex: Tenant
    ) -> None:
        connection.rights("root", acme="admin")
        body = connection.install()
        shown = []
        for number in (globex.installation.id, 987654321):
            sent = {**body, "installationId": number, "code": connection.code()}
            error = refusal(connection.claim(sent), 404, "installation_not_found")
            shown.append(error["message"].replace(str(number), "…"))
        assert shown[0] == shown[1]

    def test_claim_of_an_installation_of_another_organization_is_refused(
        self, connection: ConnectionFixture, globex: Tenant
    ) -> None:
        before = connection.session.execute(text("SELECT i::text FROM installations i")).all()
        body = {**connection.install(), "installationId": globex.installation.id}
        refusal(connection.claim(body), 409, "installation_claimed_by_other_org")
        assert connection.session.execute(text("SELECT i::text FROM installations i")).all() == before

    def test_concurrent_claims_by_two_organizations_succeed_once(
        self, connection: ConnectionFixture, globex: Tenant
    ) -> None:
        connection.session.delete(globex.installation)
        connection.session.flush()
        connection.uninstall(globex.installation.id)
        body, rival = connection.install(), globex.person("admin")
        other = {**body, **connection.install(address=connection.address(rival)), "code": connection.code()}
        answers = at_once(lambda: connection.claim(body), lambda: connection.claim(other, rival))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [row] = connection.session.scalars(select(Installation))
        assert row.organization_id == (connection.tenant.id if answers[0].status_code == 200 else globex.id)

    @pytest.mark.parametrize(
        ("status", "headers", "answered", "code"),
        [
            (403, {"x-ratelimit-remaining": "0", "retry-after": "7"}, 429, "github_rate_limited"),
            (429, {"retry-after": "7"}, 429, "github_secondary_rate_limit"),
            (403, {}, 403, "github_permission_denied"),
            (502, {}, 502, "github_unavailable"),
        ],
    )
    def test_claim_reports_the_error_of_github(
        self, connection: ConnectionFixture, status: int, headers: dict[str, str], answered: int, code: str
    ) -> None:
        for call in ("GET /user", "GET /user/installations", "GET /app/installations"):
            body = connection.install()
            fault = connection.host.faults.add("error", call, status=status, headers=headers)
            refusal(connection.claim(body), answered, code)
            connection.host.faults.clear(fault.id)
            assert connection.host.oauth.tokens == set()

    def test_unowned_installation_can_be_claimed(self, connection: ConnectionFixture) -> None:
        body = connection.install()
        factories.installation(connection.session, None, "acme", id=body["installationId"])
        assert connection.claim(body).status_code == 200

    def test_claim_is_refused_beside_an_active_installation(self, connection: ConnectionFixture) -> None:
        assert connection.claim(connection.install()).status_code == 200
        connection.host.organization("acme-labs")
        error = refusal(connection.claim(connection.install(account="acme-labs")), 409, "invalid_state")
        assert "acme" in error["message"]


class TestReinstallation:
    def test_reinstallation_can_be_claimed_after_an_unreported_uninstallation(
        self, connection: ConnectionFixture
    ) -> None:
        first = connection.claim(connection.install()).json()["installationId"]
        branch = factories.watched(connection.session, connection.tenant.organization)
        freeze = factories.freeze(connection.session, connection.tenant.organization, [branch])
        connection.uninstall(first)
        second = answered(connection.claim(connection.install()))
        states = {row.id: row.state for row in connection.session.scalars(select(Installation))}
        assert states == {first: "removed", second["installationId"]: "active"}
        connection.session.expire_all()
        assert connection.session.get_one(Freeze, freeze.id).end_reason == "installation_removed"
        assert connection.tenant.audit()[-3:] == ["installation.removed", "freeze.ended", "installation.claimed"]
        assert connection.session.scalars(select(AttentionItem)).all() == []

    def test_organization_works_again_after_claiming_a_reinstallation(self, connection: ConnectionFixture) -> None:
        first = connection.claim(connection.install()).json()["installationId"]
        branch = factories.branch(connection.session, connection.tenant.repository("web"))
        connection.uninstall(first)
        connection.session.execute(update(Installation).values(state="removed"))
        refusal(connection.admin.post("/v1/freezes", EVERYTHING), 410, "installation_removed")
        refusal(connection.admin.post("/v1/repos/sync"), 410, "installation_removed")
        second = connection.claim(connection.install()).json()["installationId"]
        assert connection.admin.post("/v1/freezes", EVERYTHING).status_code == 201
        connection.session.expire_all()
        assert connection.session.get_one(Repository, branch.repository_id).installation_id == second

    def test_install_url_and_claim_work_after_an_uninstallation(self, acme: Tenant, session: Session) -> None:
        session.execute(update(Installation).values(state="removed"))
        assert acme.person("admin").get(URL).status_code == 200
        pointed(acme.person("admin").post(CLAIM, ANYTHING), "/state")
