"""The authorization endpoint: who is redirected where, and what a person can grant."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from integrations.client_documents import ClientDocuments, FetchedDocument
from models.identity import ThrottledAttempt
from models.oauth import OAuthClient, OAuthCode, OAuthGrant
from models.organizations import Membership, User
from rules.access.client_documents import ClientRefusedError
from services.core.tokens import token_hash
from services.identity import throttle
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.device_sign_in.requests import signed_in
from tests.handlers.oauth.requests import (
    CLIENT_ID,
    DOCUMENT,
    REDIRECT,
    RESOURCE,
    Client,
    answer_of,
    code_of,
    decide,
    query_of,
)

ISSUER = factories.ISSUER


def grants(session: Session) -> list[OAuthGrant]:
    return list(session.scalars(select(OAuthGrant).execution_options(populate_existing=True)))


class TestPreview:
    def test_preview_returns_what_the_person_decides_on(self, client: Client) -> None:
        shown = client.preview(query_of()).json()
        assert shown["location"] is None
        consent = shown["consent"]
        assert consent.pop("expiresAt")
        assert [scope["name"] for scope in consent.pop("scopes")] == ["freeze:read", "freeze:write"]
        assert consent == {
            "clientId": CLIENT_ID,
            "clientName": "Example Client",
            "clientHost": "client.example",
            "redirectUri": REDIRECT,
            "redirectHost": "localhost:53076",
            "loopback": True,
        }

    def test_preview_accepts_what_clients_send(self, client: Client) -> None:
        cases: list[dict[str, Any]] = [
            {"prompt": "consent", "nonce": "x", "audience": "y"},
            {"scope": None},
            {"scope": "freeze:read unknown offline_access"},
            {"state": None},
            {"resource": None},
            {"resource": RESOURCE.replace("http", "HTTP") + "/"},
            {"redirect_uri": "http://localhost:1/callback"},
            {"redirect_uri": "http://localhost/callback"},
            {"redirect_uri": "https://client.example/callback?kind=web"},
        ]
        for changes in cases:
            assert client.preview(query_of(**changes)).json()["consent"] is not None

    def test_preview_accepts_a_repeated_resource_and_unknown_parameters(self, client: Client) -> None:
        twice = f"{query_of()}&resource={RESOURCE}&prompt=login&prompt=consent"
        assert client.preview(twice).json()["consent"] is not None

    def test_request_is_refused_without_a_redirect_when_its_client_is_in_doubt(self, client: Client) -> None:
        cases: list[str] = [
            "",
            query_of(client_id=None),
            query_of(client_id="freeze-cli"),
            query_of(client_id="http://client.example/oauth/metadata.json"),
            query_of(redirect_uri=None),
            query_of(redirect_uri="https://evil.example/callback"),
            query_of(redirect_uri="http://localhost:53076@evil.example/callback"),
            query_of(redirect_uri="http://localhost:53076/other"),
            query_of(redirect_uri="http://127.0.0.1:53076/callback"),
            query_of(redirect_uri="https://client.example/callback"),
            query_of(redirect_uri="https://client.example/callback?kind=web&more=1"),
            query_of(redirect_uri="javascript:alert(1)"),
            f"{query_of()}&redirect_uri=https%3A%2F%2Fevil.example%2Fcallback",
            f"{query_of()}&client_id=https%3A%2F%2Fevil.example%2Fmetadata.json",
            "&".join(["x=1"] * 60),
        ]
        for query in cases:
            refusal(client.preview(query), 400, "invalid_parameter")

    def test_client_gets_an_error_that_names_the_server_before_anyone_signs_in(self, client: Client) -> None:
        cases: list[tuple[str, str]] = [
            (query_of(response_type=None), "unsupported_response_type"),
            (query_of(response_type="token"), "unsupported_response_type"),
            (query_of(response_type="code id_token"), "unsupported_response_type"),
            (query_of(code_challenge=None, code_challenge_method=None), "invalid_request"),
            (query_of(code_challenge=None), "invalid_request"),
            (query_of(code_challenge_method=None), "invalid_request"),
            (query_of(code_challenge_method="plain"), "invalid_request"),
            (query_of(code_challenge_method="s256"), "invalid_request"),
            (query_of(code_challenge="short"), "invalid_request"),
            (query_of(scope="unknown"), "invalid_scope"),
            (query_of(resource="https://evil.example/mcp"), "invalid_target"),
            (query_of(resource="http://[::1/mcp"), "invalid_target"),
            (f"{query_of()}&resource=https%3A%2F%2Fevil.example", "invalid_target"),
            (f"{query_of()}&scope=repo%3Aread", "invalid_request"),
            (f"{query_of()}&code_challenge_method=plain", "invalid_request"),
            (f"{query_of()}&response_type=token", "invalid_request"),
        ]
        for query, error in cases:
            shown = client.preview(query).json()
            assert shown["consent"] is None
            assert shown["location"].startswith(f"{REDIRECT}?")
            answer = answer_of(shown["location"])
            assert answer.pop("error_description")
            assert answer == {"error": error, "iss": ISSUER, "state": "a state"}

    def test_error_has_no_state_when_two_were_given(self, client: Client) -> None:
        shown = client.preview(f"{query_of()}&state=another").json()
        assert answer_of(shown["location"]).keys() == {"error", "error_description", "iss"}

    def test_blocked_client_is_refused(self, client: Client) -> None:
        client.session.get_one(OAuthClient, CLIENT_ID).blocked_at = factories.now()
        client.session.flush()
        assert "blocked" in refusal(client.preview(query_of()), 400, "invalid_parameter")["message"]

    def test_stale_document_of_an_unreachable_client_is_not_used(self, client: Client, later: Any) -> None:
        later(days=1001)
        refusal(client.preview(query_of()), 400, "invalid_parameter")
        row = client.session.get_one(OAuthClient, CLIENT_ID, populate_existing=True)
        assert row.document == DOCUMENT, "a failure is kept"

    def test_document_is_used_for_some_days_while_it_cannot_be_fetched(self, client: Client, later: Any) -> None:
        row = client.session.get_one(OAuthClient, CLIENT_ID)
        row.fresh_until = factories.now()
        client.session.flush()
        for days in (1, 28):
            later(days=days)
            assert client.preview(query_of()).json()["consent"]["clientName"] == "Example Client"
        later(days=2)
        refusal(client.preview(query_of()), 400, "invalid_parameter")

    def test_failures_of_a_network_keep_it_from_unknown_clients_alone(self, client: Client) -> None:
        for _ in range(29):
            client.session.add(
                ThrottledAttempt(kind="client_document_address", subject="127.0.0.1", at=factories.now())
            )
        client.session.get_one(OAuthClient, CLIENT_ID).fresh_until = factories.now()
        client.session.flush()
        unknown = query_of(client_id="https://10.0.0.1/metadata.json")
        refusal(client.preview(unknown), 400, "invalid_parameter")
        refusal(client.preview(unknown), 429, "rate_limited")
        assert client.preview(query_of()).json()["consent"] is not None, "what is known is used, fresh or not"

    def test_strangers_cannot_keep_people_from_a_client(
        self, session: Session, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fetch(_: ClientDocuments, client_id: str) -> FetchedDocument:
            if client_id != CLIENT_ID:
                raise ClientRefusedError("It is not there.")
            return FetchedDocument(json.dumps(DOCUMENT).encode(), "no-cache")

        monkeypatch.setattr(ClientDocuments, "fetch", fetch)
        monkeypatch.setitem(throttle.LIMITS, "client_document", throttle.Limit(account=2, address=1000))
        client = Client(http, session)
        for number in range(9):
            wrong = f"https://client.example/{number}.json"
            refusal(client.preview(query_of(client_id=wrong)), 400, "invalid_parameter")
            session.execute(update(OAuthClient).values(fresh_until=factories.now()))
            assert client.preview(query_of()).json()["consent"] is not None

    def test_refusal_does_not_say_what_a_host_answers(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        messages = set()
        wrong = "https://other.example/metadata.json"
        for body in (None, b"", b"{}", b"[]", json.dumps({**DOCUMENT, "client_secret": "x"}).encode()):

            def fetch(_: ClientDocuments, client_id: str, found: bytes | None = body) -> FetchedDocument:
                if found is None:
                    raise ClientRefusedError(f"{client_id} cannot be reached, or does not speak https.")
                return FetchedDocument(found, "")

            monkeypatch.setattr(ClientDocuments, "fetch", fetch)
            messages.add(refusal(client.preview(query_of(client_id=wrong)), 400, "invalid_parameter")["message"])
        assert messages == {"The client cannot be used: other.example serves no valid document that describes it."}


class TestDecide:
    def test_approval_redirects_with_a_code_the_state_and_the_issuer(
        self, client: Client, person: Caller, ada: User, acme: Tenant
    ) -> None:
        location = decide(person, acme.id).json()["location"]
        assert location.startswith(f"{REDIRECT}?")
        answer = answer_of(location)
        code = answer.pop("code")
        assert answer == {"state": "a state", "iss": ISSUER}
        [row] = acme.session.scalars(select(OAuthCode))
        assert row.code_hash == token_hash(code)
        assert code not in str(vars(row))
        [grant] = grants(acme.session)
        assert (grant.user_id, grant.organization_id, grant.client_name) == (ada.id, acme.id, "Example Client")
        assert (grant.scopes, grant.resource) == (["freeze:read", "freeze:write"], RESOURCE)
        assert grant.expires_at - grant.created_at == timedelta(days=90)

    def test_approval_is_audited(self, client: Client, person: Caller, acme: Tenant) -> None:
        decide(person, acme.id)
        [entry] = factories.audit_entries(acme.session, "connection.created")
        [grant] = grants(acme.session)
        assert entry.organization_id == acme.id
        assert entry.target == {"type": "connection", "id": grant.id, "name": "Example Client"}
        assert entry.details["before"] is None
        assert entry.details["after"]["clientId"] == CLIENT_ID
        assert entry.details["after"]["scopes"] == ["freeze:read", "freeze:write"]

    @pytest.mark.parametrize(
        "state",
        ["", "%FF%00%80", "a%2Bb%20c%26d%3De%23f", "%C3%A9", "%22%3E%3Cscript%3E", "x" * 1500, "%0D%0ASet-Cookie:a=b"],
    )
    def test_state_is_returned_byte_for_byte(self, client: Client, person: Caller, acme: Tenant, state: str) -> None:
        query = f"{query_of(state=None)}&state={state}"
        location = decide(person, acme.id, query=query).json()["location"]
        sent = dict(parse_qsl(f"state={state}", encoding="latin-1")).get("state")
        assert dict(parse_qsl(urlsplit(location).query, encoding="latin-1")).get("state") == sent
        assert location.isprintable()
        assert location.isascii()

    def test_denial_redirects_with_an_error_and_grants_nothing(self, client: Client, person: Caller) -> None:
        answer = answer_of(decide(person, None, decision="deny").json()["location"])
        assert answer.pop("error_description")
        assert answer == {"error": "access_denied", "state": "a state", "iss": ISSUER}
        assert grants(client.session) == []

    @pytest.mark.parametrize(
        ("ticked", "granted"),
        [
            (["freeze:read"], ["freeze:read"]),
            (["freeze:write"], ["freeze:read", "freeze:write"]),
            (["freeze:read", "repo:write", "nonsense"], ["freeze:read"]),
        ],
    )
    def test_only_ticked_requested_scopes_are_granted_with_their_reads(
        self, client: Client, person: Caller, acme: Tenant, ticked: list[str], granted: list[str]
    ) -> None:
        decide(person, acme.id, ticked)
        assert [grant.scopes for grant in grants(acme.session)] == [granted]

    def test_approval_needs_a_scope_and_an_organization(self, client: Client, person: Caller, acme: Tenant) -> None:
        for scopes in (["repo:read"], ["nonsense"]):
            refusal(decide(person, acme.id, scopes), 422, "validation_failed")
        refusal(decide(person, None), 422, "validation_failed")
        assert grants(acme.session) == []

    def test_approval_for_a_foreign_or_deleted_organization_is_refused(
        self, client: Client, person: Caller, acme: Tenant, globex: Tenant
    ) -> None:
        for wanted in (globex.id, "org_" + "0" * 26, "nonsense"):
            refusal(decide(person, wanted), 404, "not_found")
        acme.organization.deleted_at = factories.now()
        acme.session.flush()
        refusal(decide(person, acme.id), 410, "organization_deleted")
        assert grants(acme.session) == []

    def test_approval_is_for_the_chosen_organization_not_the_active_one(
        self, client: Client, person: Caller, ada: User, globex: Tenant
    ) -> None:
        factories.membership(client.session, globex.organization, ada, "viewer")
        decide(person, globex.id)
        assert [grant.organization_id for grant in grants(client.session)] == [globex.id]

    @pytest.mark.parametrize(
        "query",
        [query_of(redirect_uri="https://evil.example/"), query_of(client_id="https://10.0.0.1/m"), "", "x=y"],
    )
    def test_decision_checks_the_request_again(self, client: Client, person: Caller, acme: Tenant, query: str) -> None:
        refusal(decide(person, acme.id, query=query), 400, "invalid_parameter")
        assert grants(acme.session) == []

    def test_decision_on_a_changed_request_returns_its_error_without_a_grant(
        self, client: Client, person: Caller, acme: Tenant
    ) -> None:
        location = decide(person, acme.id, query=query_of(code_challenge_method="plain")).json()["location"]
        assert answer_of(location)["error"] == "invalid_request"
        assert grants(acme.session) == []

    def test_session_of_a_device_decides_nothing(self, client: Client, ada: User, acme: Tenant) -> None:
        device = signed_in(acme.session, acme.http, ada, acme.organization, kind="device")
        refusal(decide(device, acme.id), 403, "credential_type_not_allowed")
        assert grants(acme.session) == []

    def test_new_approval_leaves_older_connections_of_the_client(
        self, client: Client, person: Caller, acme: Tenant
    ) -> None:
        first = client.connect(person, acme.id)
        second = client.connect(person, acme.id)
        assert client.refresh(first["refresh_token"]).status_code == 200
        assert client.refresh(second["refresh_token"]).status_code == 200
        assert len(grants(acme.session)) == 2

    def test_code_is_not_issued_after_the_person_left(
        self, client: Client, person: Caller, ada: User, acme: Tenant
    ) -> None:
        code = code_of(decide(person, acme.id))
        acme.session.delete(acme.session.get_one(Membership, (acme.id, ada.id)))
        acme.session.flush()
        assert client.redeem(code).json()["error"] == "invalid_grant"
        refusal(decide(person, acme.id), 404, "not_found")
