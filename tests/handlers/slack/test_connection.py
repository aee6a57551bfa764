"""Connecting, showing and disconnecting the workspace of an organisation."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from integrations.slack import Slack
from integrations.slack.client import SlackInstallation
from models.identity import OneTimeToken
from models.slack import SlackLink, SlackSubscription
from services.core.unit_of_work import SYSTEM_CALLER
from services.slack.tokens import CONNECTIONS
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.people import member
from tests.handlers.slack.conftest import ACCESS, CLAIM, CONNECTION, URL, Workspaces, signed_in
from tests.handlers.slack.connections import alerts, rows, token_of
from tests.harness.clock import MovableClock
from tests.harness.wakeups import RecordedWakeups

NONE = {
    "state": "none",
    "available": True,
    "team": None,
    "connectedBy": None,
    "connectedAt": None,
    "missingScopes": [],
    "subscriptionCount": 0,
    "me": {"linked": False, "slackUserId": None},
}
REQUEST = "/api/auth/slack-install-request"


class TestGetSlackConnection:
    def test_organization_without_a_workspace_has_none(self, acme: Tenant, workspaces: Workspaces) -> None:
        assert acme.person("viewer").get(CONNECTION).json() == NONE

    def test_connection_shows_workspace_channels_and_own_user(
        self, acme: Tenant, globex: Tenant, workspaces: Workspaces
    ) -> None:
        workspaces.connect(acme.person("admin"))
        ada = member(acme, "viewer")
        factories.slack_link(acme.session, rows(acme.session)[0], ada.user, slack_user_id="U0ADA")
        factories.slack_subscription(acme.session, acme.organization)
        shown = ada.caller.get(CONNECTION).json()
        assert (shown["state"], shown["team"]) == ("connected", {"id": "T0ACME", "name": "Acme"})
        assert shown["connectedBy"]["type"] == "user"
        assert (shown["subscriptionCount"], shown["me"]) == (1, {"linked": True, "slackUserId": "U0ADA"})
        assert acme.person("member").get(CONNECTION).json()["me"] == NONE["me"]
        assert globex.person("viewer").get(CONNECTION).json() == NONE


class TestGetSlackInstallUrl:
    def test_install_url_names_scopes_redirect_and_a_state(self, acme: Tenant, workspaces: Workspaces) -> None:
        url = httpx.URL(acme.person("admin").get(URL, team="T0ACME").json()["url"])
        assert url.path == "/oauth/v2/authorize"
        assert url.params["scope"] == "channels:read,chat:write,chat:write.public,commands,groups:read"
        assert url.params["redirect_uri"] == "http://127.0.0.1:8080/slack"
        assert url.params["team"] == "T0ACME"
        assert len(url.params["state"]) == 43
        assert acme.audit() == ["slack.requested"]

    def test_install_url_is_refused_to_a_second_workspace_only(self, acme: Tenant, workspaces: Workspaces) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        refusal(admin.get(URL), 409, "slack_already_connected")
        refusal(admin.get(URL, team="T0GLOBEX"), 409, "slack_already_connected")
        assert admin.get(URL, team="T0ACME").status_code == 200


class TestClaimSlackWorkspace:
    def test_workspace_is_connected_with_a_sealed_token(self, acme: Tenant, workspaces: Workspaces) -> None:
        answer = workspaces.connect(acme.person("admin"))
        assert (answer.status_code, answer.json()["state"]) == (200, "connected")
        token = workspaces.slack.tokens[0].access_token
        assert token_of(acme.session) == token
        assert token.encode() not in (rows(acme.session)[0].encrypted_tokens or b"")
        assert token not in answer.text
        assert acme.audit() == ["slack.requested", "slack.connected"]
        assert token not in str([entry.details for entry in factories.audit_entries(acme.session)])

    def test_state_is_accepted_once(self, acme: Tenant, workspaces: Workspaces) -> None:
        admin = acme.person("admin")
        back = workspaces.back(admin)
        assert admin.post(CLAIM, back).status_code == 200
        again = {**workspaces.back(admin, team="T0ACME"), "state": back["state"]}
        error = refusal(admin.post(CLAIM, again), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == ["/state"]

    def test_state_of_another_person_or_organization_is_refused(
        self, acme: Tenant, globex: Tenant, workspaces: Workspaces
    ) -> None:
        back = workspaces.back(acme.person("admin"))
        for caller in (acme.person("owner"), globex.person("admin")):
            refusal(caller.post(CLAIM, back), 422, "invalid_parameter")
        assert rows(acme.session) == []
        assert workspaces.slack.tokens == []  # the code was not spent

    def test_state_is_accepted_for_an_hour(self, acme: Tenant, workspaces: Workspaces) -> None:
        back = workspaces.back(acme.person("admin"))
        issued = acme.session.scalars(select(OneTimeToken)).one()
        assert issued.expires_at - issued.created_at == timedelta(hours=1)
        issued.expires_at = factories.now()
        acme.session.flush()
        refusal(acme.person("admin").post(CLAIM, back), 422, "invalid_parameter")

    @pytest.mark.parametrize(
        "fault",
        [{"kind": "refusal", "message": "invalid_code"}, {"kind": "error", "status": 503}, {"kind": "disconnect"}],
    )
    def test_slack_that_fails_leaves_the_state_for_another_try(
        self, acme: Tenant, workspaces: Workspaces, fault: dict[str, Any]
    ) -> None:
        admin = acme.person("admin")
        back = workspaces.back(admin)
        workspaces.slack.faults.add(scope=ACCESS, **fault)
        refusal(admin.post(CLAIM, back), 502, "slack_unavailable")
        assert rows(acme.session) == []
        workspaces.slack.faults.clear()
        assert admin.post(CLAIM, back).status_code == 200

    def test_same_workspace_again_gets_the_new_token(self, acme: Tenant, workspaces: Workspaces) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        channel = factories.slack_subscription(acme.session, acme.organization)
        workspaces.slack.tokens[0].access_token = "xoxb-another-token"
        assert workspaces.connect(admin, team="T0ACME").status_code == 200
        assert token_of(acme.session) == "xoxb-another-token"
        assert acme.session.get(SlackSubscription, channel.id) is not None

    def test_second_workspace_is_refused_and_its_token_revoked(self, acme: Tenant, workspaces: Workspaces) -> None:
        admin = acme.person("admin")
        other = workspaces.back(admin, "U1HANK")
        workspaces.connect(admin)
        refusal(admin.post(CLAIM, other), 409, "slack_already_connected")
        workspaces.work()
        assert [(token.team, token.revoked) for token in workspaces.slack.tokens] == [
            ("T0ACME", False),
            ("T0GLOBEX", True),
        ]
        assert [row.team_id for row in rows(acme.session)] == ["T0ACME"]

    def test_workspace_of_another_organization_is_refused_and_keeps_its_token(
        self, acme: Tenant, globex: Tenant, workspaces: Workspaces
    ) -> None:
        workspaces.connect(acme.person("admin"))
        refusal(workspaces.connect(globex.person("admin")), 409, "slack_already_connected")
        workspaces.work()
        assert [token.revoked for token in workspaces.slack.tokens] == [False]
        assert globex.person("admin").get(CONNECTION).json()["state"] == "none"

    def test_installation_in_all_workspaces_is_refused_and_its_token_revoked(
        self, acme: Tenant, workspaces: Workspaces
    ) -> None:
        admin = acme.person("admin")
        error = refusal(admin.post(CLAIM, workspaces.back(admin, everywhere=True)), 409, "invalid_state")
        assert "Enterprise Grid" in error["message"]
        workspaces.work()
        assert [token.revoked for token in workspaces.slack.tokens] == [True]
        assert rows(acme.session) == []

    def test_missing_scopes_are_shown_and_need_attention(self, acme: Tenant, workspaces: Workspaces) -> None:
        admin = acme.person("admin")
        workspaces.slack.settings.granted_scopes = ["commands", "chat:write", "channels:read", "groups:read"]
        assert workspaces.connect(admin).json()["missingScopes"] == ["chat:write.public"]
        assert alerts(acme.session) == ["slack_scopes_missing"]
        workspaces.slack.settings.granted_scopes = None
        assert workspaces.connect(admin, team="T0ACME").json()["missingScopes"] == []
        assert alerts(acme.session) == []


class TestGetSlackInstallRequest:
    def test_request_names_the_organization_to_its_person_alone(self, acme: Tenant, workspaces: Workspaces) -> None:
        ada, grace = signed_in(acme, "admin"), signed_in(acme, "owner")
        state = workspaces.back(ada.jwt)["state"]
        shown = ada.get(REQUEST, state=state).json()
        assert shown == {"organization": {"id": acme.id, "name": "Acme"}, "role": "admin"}
        refusal(grace.get(REQUEST, state=state), 404, "not_found")
        ada.jwt.post(CLAIM, {"state": state, "code": workspaces.back(ada.jwt)["code"]})
        refusal(ada.get(REQUEST, state=state), 404, "not_found")


class TestDisconnectSlack:
    def test_disconnection_removes_everything_and_revokes_the_token(
        self, acme: Tenant, workspaces: Workspaces, wakeups: RecordedWakeups
    ) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        factories.slack_link(acme.session, rows(acme.session)[0], member(acme).user)
        factories.slack_subscription(acme.session, acme.organization)
        assert admin.delete(CONNECTION).status_code == 204
        assert "slack_tokens" in wakeups.sent
        assert admin.get(CONNECTION).json() == NONE
        for table in (SlackLink, SlackSubscription):
            assert acme.session.scalar(select(func.count()).select_from(table)) == 0
        workspaces.work()
        assert workspaces.slack.tokens[0].revoked
        assert rows(acme.session) == []
        assert acme.audit()[-2:] == ["slack.unsubscribed", "slack.disconnected"]

    def test_disconnection_without_a_workspace_changes_nothing(self, acme: Tenant, workspaces: Workspaces) -> None:
        assert acme.person("admin").delete(CONNECTION).status_code == 204
        assert acme.audit() == []

    def test_token_is_revoked_until_slack_has_done_it(
        self, acme: Tenant, workspaces: Workspaces, clock: MovableClock
    ) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        admin.delete(CONNECTION)
        workspaces.slack.faults.add("error", "auth.revoke", status=429, headers={"Retry-After": "600"})
        workspaces.work()
        [row] = rows(acme.session)
        assert (row.attempts, row.last_error_code) == (1, "ratelimited")
        assert row.due_at is not None
        assert row.due_at > factories.now() + timedelta(seconds=500)
        workspaces.slack.faults.clear()
        clock.offset += timedelta(minutes=11)
        workspaces.slack.faults.add("disconnect", "auth.revoke", after=True, count=1)
        workspaces.work()
        clock.offset += timedelta(hours=1)
        workspaces.work()
        assert workspaces.slack.tokens[0].revoked
        assert rows(acme.session) == []

    def test_workspace_connected_again_keeps_its_token(
        self, acme: Tenant, globex: Tenant, workspaces: Workspaces
    ) -> None:
        workspaces.connect(acme.person("admin"))
        acme.person("admin").delete(CONNECTION)
        assert workspaces.connect(globex.person("admin")).status_code == 200
        workspaces.work()
        assert not workspaces.slack.tokens[0].revoked
        assert globex.person("admin").get(CONNECTION).json()["state"] == "connected"

    def test_token_that_is_issued_again_is_not_revoked_meanwhile(
        self, acme: Tenant, workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin, exchange = acme.person("admin"), Slack.exchange_code

        def exchange_beside_work(slack: Slack, code: str, redirect_uri: str) -> SlackInstallation:
            installation = exchange(slack, code, redirect_uri)
            workspaces.work()
            return installation

        workspaces.connect(admin)
        admin.delete(CONNECTION)
        monkeypatch.setattr(Slack, "exchange_code", exchange_beside_work)
        assert workspaces.connect(admin).status_code == 200
        workspaces.work()
        assert [token.revoked for token in workspaces.slack.tokens] == [False]

    def test_workspace_is_not_connected_while_its_token_is_being_revoked(
        self, acme: Tenant, workspaces: Workspaces
    ) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        admin.delete(CONNECTION)
        back = workspaces.back(admin)
        with workspaces.jobs.open(SYSTEM_CALLER) as uow:
            lease = CONNECTIONS.acquire(uow, limit=1)
        assert lease is not None
        refusal(admin.post(CLAIM, back), 502, "slack_unavailable")
        with workspaces.jobs.open(SYSTEM_CALLER) as uow:
            lease.release(uow, due_at=uow.now)
        assert admin.post(CLAIM, back).status_code == 200
        workspaces.work()
        assert [token.revoked for token in workspaces.slack.tokens] == [False]

    def test_token_is_revoked_although_it_was_not_issued_again(
        self, acme: Tenant, workspaces: Workspaces, clock: MovableClock
    ) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        admin.delete(CONNECTION)
        workspaces.slack.faults.add("disconnect", ACCESS, count=1)
        refusal(workspaces.connect(admin), 502, "slack_unavailable")
        clock.offset += timedelta(minutes=2)
        workspaces.work()
        assert [token.revoked for token in workspaces.slack.tokens] == [True]

    def test_deleted_organization_is_disconnected(self, acme: Tenant, workspaces: Workspaces) -> None:
        workspaces.connect(acme.person("owner"))
        body = {"name": "Acme"}
        assert signed_in(acme, "owner").post("/api/auth/org/delete", body).status_code == 200
        workspaces.work()
        assert workspaces.slack.tokens[0].revoked
        assert rows(acme.session) == []


class TestGetSlackManifest:
    def test_manifest_has_addresses_command_and_scopes(self, acme: Tenant) -> None:
        manifest = acme.person("viewer").get("/v1/slack/manifest").json()
        receiver = f"{factories.AUDIENCE}/webhooks/slack"
        assert manifest["features"]["slash_commands"][0]["command"] == "/freeze"
        assert manifest["settings"]["interactivity"]["request_url"] == receiver
        assert manifest["settings"]["event_subscriptions"] == {
            "request_url": receiver,
            "bot_events": ["app_uninstalled", "tokens_revoked"],
        }
        assert manifest["oauth_config"] == {
            "redirect_urls": ["http://127.0.0.1:8080/slack"],
            "scopes": {"bot": ["channels:read", "chat:write", "chat:write.public", "commands", "groups:read"]},
        }
