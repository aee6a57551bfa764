"""What changes while a client is being connected: its document, its person, and a second window."""

from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import select, update

from integrations.client_documents import ClientDocuments, FetchedDocument
from models.oauth import OAuthClient, OAuthGrant
from models.organizations import Membership, User
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.oauth.requests import CLIENT_ID, DOCUMENT, Client, answer_of, code_of, decide, query_of, tool
from tests.harness.concurrency import PATIENCE, at_once

NEW_REDIRECT = "https://client.example/new"


@pytest.fixture
def publish(client: Client) -> Callable[..., None]:
    """Return what changes the document of the client, which we have just fetched again."""

    def change(**members: Any) -> None:
        client.session.execute(update(OAuthClient).values(document={**DOCUMENT, **members}))

    return change


class TestChangedDocument:
    def test_decision_is_refused_when_the_client_gave_up_the_redirect(
        self, client: Client, person: Caller, acme: Tenant, publish: Callable[..., None]
    ) -> None:
        assert client.preview(query_of()).json()["consent"] is not None
        publish(redirect_uris=[NEW_REDIRECT])
        for decision in ("approve", "deny"):
            refusal(decide(person, acme.id, decision=decision), 400, "invalid_parameter")
        assert acme.session.scalars(select(OAuthGrant)).all() == []

    def test_code_works_only_for_the_redirect_of_its_request(
        self, client: Client, person: Caller, acme: Tenant, publish: Callable[..., None]
    ) -> None:
        code = code_of(decide(person, acme.id))
        publish(redirect_uris=[NEW_REDIRECT])
        assert client.redeem(code, redirect_uri=NEW_REDIRECT).json()["error"] == "invalid_grant"

    def test_connection_keeps_name_and_scopes_when_the_document_changes(
        self, client: Client, person: Caller, acme: Tenant, publish: Callable[..., None]
    ) -> None:
        code = code_of(decide(person, acme.id, ["freeze:read"]))
        publish(client_name="Another Client", scope="repo:write")
        tokens = client.redeem(code).json()
        assert tokens["scope"] == "freeze:read"
        [connection] = person.get("/api/auth/connections").json()["data"]
        assert connection["clientName"] == "Example Client"

    def test_connection_goes_on_when_the_document_breaks_a_rule(
        self, client: Client, person: Caller, acme: Tenant, publish: Callable[..., None]
    ) -> None:
        tokens = client.connect(person, acme.id)
        publish(client_name="", redirect_uris=[])
        assert "refresh_token" in answered(client.refresh(tokens["refresh_token"]))


class TestSeveralWindows:
    def test_each_window_makes_a_connection_of_its_own(self, client: Client, person: Caller, acme: Tenant) -> None:
        answers = at_once(*[lambda state=state: decide(person, acme.id, query=query_of(state=state)) for state in "ab"])
        found = [answer_of(answer.json()["location"]) for answer in answers]
        assert [answer["state"] for answer in found] == ["a", "b"]
        assert [client.redeem(answer["code"]).status_code for answer in found] == [200, 200]
        assert len(acme.session.scalars(select(OAuthGrant)).all()) == 2

    def test_denial_in_one_window_leaves_the_approval_in_another(
        self, client: Client, person: Caller, acme: Tenant
    ) -> None:
        code = code_of(decide(person, acme.id))
        assert decide(person, None, decision="deny").status_code == 200
        assert client.redeem(code).status_code == 200

    def test_new_client_is_stored_once_when_two_windows_bring_it_along(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new = "https://new.example/metadata.json"
        body = f'{{"client_id": "{new}", "client_name": "New", "redirect_uris": ["{NEW_REDIRECT}"]}}'.encode()
        both = Barrier(2)

        def fetch(_documents: ClientDocuments, _client_id: str) -> FetchedDocument:
            both.wait(PATIENCE)
            return FetchedDocument(body, "max-age=600")

        monkeypatch.setattr(ClientDocuments, "fetch", fetch)
        query = query_of(client_id=new, redirect_uri=NEW_REDIRECT)
        answers = at_once(*[lambda: client.preview(query)] * 2)
        assert [answer.json()["consent"]["clientName"] for answer in answers] == ["New", "New"]
        assert client.session.get_one(OAuthClient, new).document is not None


class TestChangedPerson:
    def test_person_who_left_while_the_page_was_open_approves_nothing(
        self, client: Client, person: Caller, ada: User, acme: Tenant, globex: Tenant
    ) -> None:
        factories.membership(acme.session, globex.organization, ada, "member")
        assert client.preview(query_of()).json()["consent"] is not None
        assert acme.person("owner").delete(f"/v1/members/{ada.id}").status_code == 204
        refused = decide(person, acme.id)
        assert refused.status_code in {401, 404}, refused.text
        assert acme.session.scalars(select(OAuthGrant)).all() == []

    def test_lowered_role_limits_tokens_old_and_new(
        self, client: Client, person: Caller, ada: User, acme: Tenant
    ) -> None:
        everything = "freeze:read freeze:write repo:read repo:write"
        tokens = client.connect(person, acme.id, *everything.split(), query=query_of(scope=everything))
        acme.session.execute(update(Membership).where(Membership.user_id == ada.id).values(role="viewer"))
        renewed = client.refresh(tokens["refresh_token"]).json()
        assert renewed["scope"] == everything, "scopes are the person's decision, the role is the organisation's"
        for token in (tokens["access_token"], renewed["access_token"]):
            assert tool(client.http, token, "svc_list_freezes").code is None
            assert tool(client.http, token, "svc_enable_repos", repositories=["acme/web"]).code == (
                "insufficient_permission"
            )


def test_narrowed_access_token_cannot_use_the_other_scopes(client: Client, person: Caller, acme: Tenant) -> None:
    tokens = client.connect(person, acme.id)
    narrow = client.refresh(tokens["refresh_token"], scope="freeze:read").json()["access_token"]
    start = {"scope": {"type": "organization"}, "reason": "Release under way", "impactAcknowledged": True}
    assert tool(client.http, narrow, "svc_list_freezes").code is None
    assert tool(client.http, narrow, "svc_start_freeze", **start).code == "insufficient_scope"


@pytest.mark.parametrize("scope", [" ", "freeze:read unknown", "freeze:read FREEZE:WRITE", "repo:read", "*"])
def test_refresh_with_scopes_beyond_the_connection_is_refused(
    client: Client, person: Caller, acme: Tenant, scope: str
) -> None:
    tokens = client.connect(person, acme.id, "freeze:read")
    assert client.refresh(tokens["refresh_token"], scope=scope).json()["error"] == "invalid_scope"
    assert client.refresh(tokens["refresh_token"]).status_code == 200, "the attempt spends nothing"


def test_client_id_of_another_document_is_not_served(client: Client) -> None:
    """The document was copied from another client: it names that one."""
    copied = "https://evil.example/metadata.json"
    fresh_until = client.session.get_one(OAuthClient, CLIENT_ID).fresh_until
    client.session.add(OAuthClient(client_id=copied, document=DOCUMENT, fresh_until=fresh_until))
    client.session.flush()
    refusal(client.preview(query_of(client_id=copied)), 400, "invalid_parameter")
