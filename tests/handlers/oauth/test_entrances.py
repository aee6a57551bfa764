"""Tokens at the entrance that they are for, and what ends their right there."""

from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models.oauth import OAuthClient, OAuthGrant
from models.organizations import Membership, User
from services.identity.access_tokens import Signer, issue_access_token, new_key_pair
from services.identity.oauth.access_tokens import issue_grant_token
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.device_sign_in.requests import one_time_token, signed_in
from tests.handlers.oauth.requests import CLIENT_ID, Client, answer_of, decide, entry, query_of, tool

EVERYTHING = "freeze:read freeze:write repo:read repo:write"


@pytest.fixture
def connect(client: Client, person: Caller, acme: Tenant) -> Callable[..., str]:
    """Return what connects the client and returns its access token."""

    def connected(*scopes: str) -> str:
        token: str = client.connect(person, acme.id, *scopes, query=query_of(scope=EVERYTHING))["access_token"]
        return token

    return connected


def challenge(response: httpx.Response) -> str:
    """Check that a credential is refused, and return the challenge."""
    refusal(response, 401, "invalid_token")
    return response.headers["WWW-Authenticate"]


class TestEntrances:
    def test_access_token_is_refused_everywhere_but_at_mcp(
        self, http: httpx.Client, connect: Callable[..., str]
    ) -> None:
        token = connect("freeze:read")
        assert entry(http, token).status_code == 200
        caller = Caller(http, token)
        for path in ("/v1/freezes", "/v1/me", "/api/auth/sessions", "/api/auth/token", "/v1/connections"):
            refusal(caller.get(path), 401, "invalid_token")
        cookie = {"Cookie": f"session={token}", "Origin": "http://127.0.0.1:8080"}
        refusal(http.get("/api/auth/sessions", headers=cookie), 401, "invalid_token")

    def test_tokens_of_sessions_are_refused_at_mcp(self, http: httpx.Client, person: Caller, acme: Tenant) -> None:
        jwt = acme.person("owner").token
        messages = set()
        for token in (jwt, person.token, "x"):
            assert token is not None
            response = entry(http, token)
            assert 'error="invalid_token"' in challenge(response)
            messages.add(response.json()["error"]["message"])
        assert messages == {"Invalid token. The MCP server accepts API keys, and access tokens of connected clients."}

    def test_token_is_refused_when_forged_or_for_another_audience(
        self, http: httpx.Client, connect: Callable[..., str], ada: User, acme: Tenant
    ) -> None:
        connect("freeze:read")
        grant = acme.session.scalars(select(OAuthGrant)).one()
        signer = factories.signer(acme.session)

        def issued(signer: Signer, **columns: str) -> str:
            given = {"id": grant.id, "user_id": ada.id, "organization_id": acme.id, "client_id": CLIENT_ID}
            named = OAuthGrant(**{**given, "resource": grant.resource, **columns})
            return issue_grant_token(signer, named, ["freeze:read"], now=factories.now())

        assert entry(http, issued(signer)).status_code == 200
        forged = Signer(signer.kid, signer.algorithm, new_key_pair()[0], signer.issuer, signer.audience)
        elsewhere = Signer(signer.kid, signer.algorithm, signer.private_key, "https://evil.example", signer.audience)
        session_like = issue_access_token(
            Signer(signer.kid, signer.algorithm, signer.private_key, signer.issuer, grant.resource),
            user=ada.id,
            organization=acme.id,
            sid=grant.id,
            lifetime=grant.expires_at - grant.created_at,
            now=factories.now(),
        )
        for token in (
            issued(forged),
            issued(elsewhere),
            issued(signer, resource=factories.AUDIENCE),
            issued(signer, resource="https://evil.example/mcp"),
            issued(signer, id="ogr_" + "0" * 26),
            issued(signer, user_id="usr_" + "0" * 26),
            issued(signer, organization_id="org_" + "0" * 26),
            issued(signer, client_id="https://evil.example/m"),
            session_like,
        ):
            challenge(entry(http, token))

    def test_token_that_names_more_scopes_than_its_grant_has_no_more(
        self, session: Session, http: httpx.Client, connect: Callable[..., str]
    ) -> None:
        connect("freeze:read")
        grant = session.scalars(select(OAuthGrant)).one()
        token = issue_grant_token(factories.signer(session), grant, ["freeze:read", "repo:read"], now=factories.now())
        assert tool(http, token, "svc_list_freezes").code is None
        assert tool(http, token, "svc_list_repos").code == "insufficient_scope"


class TestAuthorization:
    def test_client_needs_a_scope_and_its_person_the_role(
        self, http: httpx.Client, connect: Callable[..., str], ada: User, acme: Tenant
    ) -> None:
        acme.repository("web")
        token = connect("freeze:read", "repo:write")
        assert tool(http, token, "svc_list_freezes").code is None
        start = {"scope": {"type": "organization"}, "reason": "Release under way", "impactAcknowledged": True}
        assert tool(http, token, "svc_start_freeze", **start).code == "insufficient_scope"
        acme.session.execute(update(Membership).where(Membership.user_id == ada.id).values(role="viewer"))
        assert tool(http, token, "svc_list_freezes").code is None
        enable = tool(http, token, "svc_enable_repos", repositories=["acme/web"])
        assert enable.code == "insufficient_permission"

    def test_write_is_audited_as_the_person_and_names_the_client(
        self, http: httpx.Client, connect: Callable[..., str], ada: User, acme: Tenant
    ) -> None:
        factories.watched(acme.session, acme.organization, "acme/api")
        token = connect("freeze:write")
        given = {"scope": {"type": "organization"}, "reason": "Release under way", "impactAcknowledged": True}
        done = tool(http, token, "svc_start_freeze", previewedRepoCount=1, **given)
        assert done.code is None, done.text
        [started] = factories.audit_entries(acme.session, "freeze.started")
        grant = acme.session.scalars(select(OAuthGrant)).one()
        assert started.actor == {"type": "user", "id": ada.id, "name": ada.name}
        assert started.source == "mcp"
        assert started.details["client"] == {"connectionId": grant.id, "id": CLIENT_ID, "name": "Example Client"}


class TestEnd:
    def end_by_person(self, session: Session, person: Caller, acme: Tenant, ada: User) -> None:
        [connection] = person.get("/api/auth/connections").json()["data"]
        assert person.delete(f"/api/auth/connections/{connection['id']}").status_code == 204

    def end_by_administrator(self, session: Session, person: Caller, acme: Tenant, ada: User) -> None:
        admin = acme.person("admin")
        [connection] = admin.get("/v1/connections").json()["data"]
        assert admin.delete(f"/v1/connections/{connection['id']}").status_code == 204

    def end_by_password(self, session: Session, person: Caller, acme: Tenant, ada: User) -> None:
        mailed = one_time_token(session, "reset_password", ada.id)
        chosen = {"token": mailed, "password": "seven green bicycles"}
        assert person.http.post("/api/auth/reset-password", json=chosen).status_code < 300

    def end_by_removal(self, session: Session, person: Caller, acme: Tenant, ada: User) -> None:
        assert acme.person("owner").delete(f"/v1/members/{ada.id}").status_code == 204

    def end_by_blocking(self, session: Session, person: Caller, acme: Tenant, ada: User) -> None:
        session.execute(update(OAuthClient).values(blocked_at=factories.now()))

    def end_by_lost_membership(self, session: Session, person: Caller, acme: Tenant, ada: User) -> None:
        session.delete(session.get_one(Membership, (acme.id, ada.id)))
        session.flush()

    @pytest.mark.parametrize(
        ("how", "why"),
        [
            ("person", "by_person"),
            ("administrator", "by_administrator"),
            ("password", "password_changed"),
            ("removal", "member_removed"),
            ("blocking", None),
            ("lost_membership", None),
        ],
    )
    def test_end_of_a_connection_takes_effect_with_the_next_request(
        self, http: httpx.Client, client: Client, person: Caller, acme: Tenant, ada: User, how: str, why: str | None
    ) -> None:
        tokens = client.connect(person, acme.id)
        assert entry(http, tokens["access_token"]).status_code == 200
        getattr(self, f"end_by_{how}")(acme.session, person, acme, ada)
        challenge(entry(http, tokens["access_token"]))
        assert client.refresh(tokens["refresh_token"]).status_code in {400, 401}
        grant = acme.session.scalars(select(OAuthGrant).execution_options(populate_existing=True)).one()
        assert grant.revoked_why == why
        revoked = factories.audit_entries(acme.session, "connection.revoked")
        assert [found.details["why"] for found in revoked] == ([why] if why else [])

    def test_connection_of_a_deleted_organization_is_told_so(
        self, http: httpx.Client, client: Client, person: Caller, acme: Tenant
    ) -> None:
        tokens = client.connect(person, acme.id)
        owner = factories.member(acme.session, acme.organization, "owner")
        caller = signed_in(acme.session, http, owner, acme.organization)
        deleted = caller.post("/api/auth/org/delete", {"name": acme.organization.name})
        assert deleted.status_code == 200, deleted.text
        refusal(entry(http, tokens["access_token"]), 410, "organization_deleted")
        assert client.refresh(tokens["refresh_token"]).status_code == 400
        grant = acme.session.scalars(select(OAuthGrant).execution_options(populate_existing=True)).one()
        assert grant.revoked_why == "organization_deleted"

    def test_new_password_ends_an_approval_whose_code_is_unused(
        self, client: Client, person: Caller, ada: User, acme: Tenant
    ) -> None:
        code = answer_of(decide(person, acme.id).json()["location"])["code"]
        self.end_by_password(acme.session, person, acme, ada)
        assert client.redeem(code).json()["error"] == "invalid_grant"

    def test_connections_of_other_organizations_stay_when_a_member_is_removed(
        self, client: Client, person: Caller, ada: User, acme: Tenant, globex: Tenant
    ) -> None:
        factories.membership(acme.session, globex.organization, ada, "member")
        kept = client.connect(person, globex.id)
        client.connect(person, acme.id)
        self.end_by_removal(acme.session, person, acme, ada)
        assert entry(client.http, kept["access_token"]).status_code == 200


class TestConnections:
    def test_connections_are_listed_to_their_person_and_to_administrators(
        self, client: Client, person: Caller, ada: User, acme: Tenant, globex: Tenant
    ) -> None:
        client.connect(person, acme.id, "freeze:read")
        [own] = person.get("/api/auth/connections").json()["data"]
        assert own["organization"] == {"id": acme.id, "name": acme.organization.name}
        assert own["person"] == {"type": "user", "id": ada.id, "name": ada.name}
        assert (own["clientId"], own["clientName"], own["scopes"]) == (CLIENT_ID, "Example Client", ["freeze:read"])
        assert own["lastUsedAt"] is not None
        assert acme.person("admin").get("/v1/connections").json()["data"] == [own]
        assert globex.person("owner").get("/v1/connections").json()["data"] == []

    def test_connection_is_ended_by_its_person_or_administrators_alone(
        self, http: httpx.Client, client: Client, person: Caller, acme: Tenant, globex: Tenant
    ) -> None:
        tokens = client.connect(person, acme.id)
        [own] = person.get("/api/auth/connections").json()["data"]
        other = signed_in(acme.session, http, factories.user(acme.session), None)
        for caller, path in ((other, "/api/auth/connections"), (globex.person("owner"), "/v1/connections")):
            refusal(caller.delete(f"{path}/{own['id']}"), 404, "connection_not_found")
        assert entry(http, tokens["access_token"]).status_code == 200
        assert person.delete(f"/api/auth/connections/{own['id']}").status_code == 204
        refusal(person.delete(f"/api/auth/connections/{own['id']}"), 404, "connection_not_found")
        assert person.get("/api/auth/connections").json()["data"] == []
