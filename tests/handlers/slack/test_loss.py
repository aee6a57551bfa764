"""Workspaces and channels that Slack takes away: uninstallation, revoked tokens, missing scopes, archived channels."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from jobs.registry import JOBS
from models.slack import SlackConnection, SlackSubscription
from services.core.unit_of_work import SYSTEM_CALLER
from services.slack.connection_loss import pause_subscription, record_missing_scope
from services.slack.events import handle_event
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.slack.conftest import ACCESS, CONNECTION, SUBSCRIPTIONS, Workspaces
from tests.handlers.slack.connections import alerts, rows, token_of
from tests.harness.clock import MovableClock

UNINSTALLED = {"type": "app_uninstalled"}
REVOKED = {"type": "tokens_revoked", "tokens": {"oauth": [], "bot": ["U0BOT"]}}


def event(workspaces: Workspaces, kind: dict[str, Any], team: str = "T0ACME", at: timedelta = timedelta(0)) -> bool:
    """Handle an event of a workspace, `at` after now."""
    with workspaces.jobs.open(SYSTEM_CALLER) as uow:
        body = {"team_id": team, "event": kind, "event_time": int((uow.now + at).timestamp())}
        return handle_event(uow, body)


class TestLoss:
    @pytest.mark.parametrize("order", [[REVOKED, UNINSTALLED], [UNINSTALLED, REVOKED]])
    def test_uninstallation_in_either_order_loses_the_connection_once(
        self, acme: Tenant, workspaces: Workspaces, order: list[dict[str, Any]]
    ) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        assert [event(workspaces, kind) for kind in order] == [True, False]
        shown = admin.get(CONNECTION).json()
        assert (shown["state"], shown["team"]["id"], shown["missingScopes"]) == ("lost", "T0ACME", [])
        assert rows(acme.session)[0].encrypted_tokens is None
        assert acme.audit()[-1:] == ["slack.lost"]
        assert alerts(acme.session) == ["slack_connection_lost"]

    def test_lost_workspace_is_connected_again_with_its_channels(self, acme: Tenant, workspaces: Workspaces) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        factories.slack_subscription(acme.session, acme.organization)
        event(workspaces, UNINSTALLED)
        workspaces.slack.tokens[0].revoked = True
        assert workspaces.connect(admin).json()["subscriptionCount"] == 1
        assert alerts(acme.session) == []

    def test_another_workspace_replaces_a_lost_one_and_its_channels(
        self, acme: Tenant, globex: Tenant, workspaces: Workspaces
    ) -> None:
        admin = acme.person("admin")
        workspaces.connect(admin)
        factories.slack_subscription(acme.session, acme.organization)
        event(workspaces, UNINSTALLED)
        shown = workspaces.connect(admin, "U1HANK").json()
        assert (shown["team"]["id"], shown["subscriptionCount"]) == ("T0GLOBEX", 0)
        assert workspaces.connect(globex.person("admin")).json()["team"]["id"] == "T0ACME"

    def test_event_that_is_older_than_the_connection_changes_nothing(
        self, acme: Tenant, workspaces: Workspaces
    ) -> None:
        workspaces.connect(acme.person("admin"))
        assert not event(workspaces, UNINSTALLED, at=timedelta(minutes=-5))
        assert acme.person("admin").get(CONNECTION).json()["state"] == "connected"

    def test_event_about_something_else_changes_nothing(self, acme: Tenant, workspaces: Workspaces) -> None:
        workspaces.connect(acme.person("admin"))
        bodies: list[dict[str, Any]] = [
            {},
            {"event": UNINSTALLED},
            {"event": UNINSTALLED, "team_id": "T0OTHER"},
            {"event": UNINSTALLED, "team_id": "T0\x00"},
            {"event": UNINSTALLED, "team_id": ["T0ACME"]},
            {"event": "app_uninstalled", "team_id": "T0ACME"},
            {"event": {"type": "message"}, "team_id": "T0ACME"},
            {"event": {"type": "tokens_revoked", "tokens": {"oauth": ["U0ADA"], "bot": []}}, "team_id": "T0ACME"},
            {"event": {"type": "tokens_revoked", "tokens": ["U0ADA"]}, "team_id": "T0ACME"},
        ]
        for body in bodies:
            with workspaces.jobs.open(SYSTEM_CALLER) as uow:
                assert not handle_event(uow, body), body
            assert acme.audit()[-1:] == ["slack.connected"]

    def test_scope_that_slack_misses_needs_attention(self, acme: Tenant, workspaces: Workspaces) -> None:
        workspaces.connect(acme.person("admin"))
        with workspaces.jobs.open(SYSTEM_CALLER) as uow:
            uow.bind_organization(acme.id)
            record_missing_scope(uow, uow.session.scalars(select(SlackConnection)).one(), "chat:write")
        assert acme.person("admin").get(CONNECTION).json()["missingScopes"] == ["chat:write"]
        assert alerts(acme.session) == ["slack_scopes_missing"]

    def test_paused_channel_needs_attention_until_it_is_resumed(self, acme: Tenant, workspaces: Workspaces) -> None:
        workspaces.connect(acme.person("admin"))
        created = acme.person("member").post(SUBSCRIPTIONS, {"channelId": "C0OLD", "channelName": "old"}).json()
        with workspaces.jobs.open(SYSTEM_CALLER) as uow:
            uow.bind_organization(acme.id)
            for _ in range(2):
                pause_subscription(uow, uow.session.get_one(SlackSubscription, created["id"]), "is_archived")
        path = f"{SUBSCRIPTIONS}/{created['id']}"
        [shown] = acme.person("member").get(SUBSCRIPTIONS).json()["data"]
        assert (shown["state"], shown["pausedReason"]) == ("paused", "is_archived")
        assert alerts(acme.session) == ["slack_subscription_paused"]
        assert acme.person("member").patch(path, {"state": "active"}).json()["state"] == "active"
        assert alerts(acme.session) == []
        assert acme.audit().count("slack.subscription_updated") == 2


class TestRotation:
    def test_token_is_refreshed_before_its_end(self, acme: Tenant, workspaces: Workspaces, clock: MovableClock) -> None:
        workspaces.slack.settings.token_rotation = True
        workspaces.connect(acme.person("admin"))
        first = token_of(acme.session)
        with workspaces.jobs.open(SYSTEM_CALLER) as uow:
            assert not JOBS["slack_tokens"].has_work(uow)
        clock.offset += timedelta(hours=11)
        workspaces.slack.faults.add("error", ACCESS, status=500, count=1)
        workspaces.work()
        assert token_of(acme.session) == first
        clock.offset += timedelta(minutes=5)
        workspaces.work()
        assert token_of(acme.session) == workspaces.slack.tokens[0].access_token != first

    def test_token_that_cannot_be_refreshed_loses_the_connection(
        self, acme: Tenant, workspaces: Workspaces, clock: MovableClock
    ) -> None:
        workspaces.slack.settings.token_rotation = True
        workspaces.connect(acme.person("admin"))
        workspaces.slack.tokens[0].revoked = True
        clock.offset += timedelta(hours=11)
        workspaces.work()
        assert rows(acme.session)[0].lost_why == "invalid_refresh_token"
        assert acme.audit()[-1:] == ["slack.lost"]
