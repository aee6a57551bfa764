"""Requests of Slack: what people type, click and send acts as the person that they are linked to, or not at all."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from integrations.slack.signatures import sign
from models.audit import AuditEntry
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.organizations import Membership
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from models.slack import SlackConnection, SlackLink
from rules.slack.blocks import actions, button
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.slack_app.conftest import ADA, EVE, GRACE, Link
from tools.fake_slack import FakeSlack
from tools.fake_slack.model import Form, Message
from tools.fake_slack.settings import SIGNING_SECRET

Post = Callable[[Any], Message]
REASON = "Quarter-end close is under way"


@dataclass(frozen=True, slots=True)
class SlackScene:
    """The workspace of an organisation, whose people are linked, type and click."""

    acme: Tenant
    slack: FakeSlack
    link: Link
    post: Post

    @property
    def session(self) -> Session:
        return self.acme.session

    def last_form(self, user: str = ADA) -> Form:
        """Return the form that a person has opened last."""
        return self.slack.open_forms(user)[-1]

    def last_entry(self, action: str) -> AuditEntry:
        """Return the last audit entry of an action."""
        return factories.audit_entries(self.session, action)[-1]

    def shown_to(self, user: str) -> list[str]:
        """Return the texts of what only this person sees."""
        return [message.text for message in self.slack.messages if message.only_for == user]


@pytest.fixture
def scene(acme: Tenant, slack: FakeSlack, link: Link, post: Post) -> SlackScene:
    return SlackScene(acme, slack, link, post)


class TestSignatures:
    @staticmethod
    def send(acme: Tenant, at: float, body: bytes, secret: str = SIGNING_SECRET, **headers: str) -> httpx.Response:
        """Send a request that was signed at an instant."""
        stamp = str(int(at))
        signed = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(secret, body, stamp)}
        return acme.anybody.send("POST", "/webhooks/slack", content=body, headers=signed | headers)

    @pytest.mark.parametrize(("secret", "age"), [("another secret", 0), ("", 0), (SIGNING_SECRET, 301)])
    def test_request_without_a_present_signature_is_refused(
        self, acme: Tenant, slack: FakeSlack, secret: str, age: int
    ) -> None:
        refusal(self.send(acme, slack.clock() - age, b"ssl_check=1", secret), 401, "invalid_signature")

    def test_signed_bytes_that_are_no_payload_are_refused(self, acme: Tenant, slack: FakeSlack) -> None:
        refusal(self.send(acme, slack.clock(), b"\xff"), 400, "malformed_json")

    def test_address_answers_the_challenge_and_the_check_of_its_certificate(
        self, acme: Tenant, slack: FakeSlack
    ) -> None:
        challenge = json.dumps({"type": "url_verification", "challenge": "abc"}).encode()
        asked = {challenge: "application/json", b"ssl_check=1": "application/x-www-form-urlencoded"}
        found = [self.send(acme, slack.clock(), body, **{"Content-Type": kind}) for body, kind in asked.items()]
        assert [(each.status_code, each.json()) for each in found] == [(200, {"challenge": "abc"}), (200, {})]


class TestPeople:
    @pytest.mark.usefixtures("workspace")
    def test_person_who_is_not_linked_gets_a_one_time_link(self, slack: FakeSlack) -> None:
        reply = slack.type("status")
        assert (reply.status, reply.body["response_type"]) == (200, "ephemeral")
        assert "/slack/link?token=" in reply.body["text"]

    def test_workspace_that_is_not_connected_is_answered_without_a_link(self, slack: FakeSlack) -> None:
        assert "not connected" in slack.type("status", user="U1HANK", channel="C1GENERAL").body["text"]

    def test_help_needs_no_link(self, slack: FakeSlack) -> None:
        assert slack.type("").body["text"] == "What you can type"
        assert "no `explode`" in json.dumps(slack.type("explode").body)

    def test_viewer_is_refused_with_the_role_that_is_missing(self, scene: SlackScene, freeze: Freeze) -> None:
        scene.link("viewer")
        assert "requires the role member; your role is viewer" in scene.slack.type(f"lift {freeze.id}").body["text"]
        scene.session.refresh(freeze)
        assert freeze.ended_at is None

    def test_member_lifts_a_freeze_as_themselves_through_slack(self, scene: SlackScene, freeze: Freeze) -> None:
        ada = scene.link("member")
        assert "Lifted" in scene.slack.type(f"lift {freeze.id}").body["text"]
        entry = scene.last_entry("freeze.lifted")
        assert (entry.actor, entry.source) == ({"type": "user", "id": ada.id, "name": "Ada"}, "slack")

    def test_person_of_another_workspace_in_a_shared_channel_is_nobody(self, scene: SlackScene, freeze: Freeze) -> None:
        scene.link("owner")
        message = scene.post([actions([button("Lift", "freeze.lift", freeze.id)])])
        assert scene.slack.click(message, "freeze.lift", from_team="T0GLOBEX").status == 200
        assert "not connected" in scene.shown_to(ADA)[-1]
        scene.session.refresh(freeze)
        assert freeze.ended_at is None

    def test_slack_user_acts_in_the_organisation_of_their_workspace_alone(
        self, scene: SlackScene, globex: Tenant
    ) -> None:
        scene.link("owner")
        theirs = factories.freeze(scene.session, globex.organization)
        assert "frz_" not in scene.slack.type("status").body["text"]
        assert ":no_entry:" in scene.slack.type(f"lift {theirs.id}").body["text"]

    def test_role_that_was_lost_after_the_message_was_posted_refuses_the_click(
        self, scene: SlackScene, freeze: Freeze
    ) -> None:
        ada = scene.link("member")
        message = scene.post([actions([button("Lift", "freeze.lift", freeze.id)])])
        scene.acme.session.get_one(Membership, (scene.acme.id, ada.id)).role = "viewer"
        scene.acme.session.commit()
        scene.slack.click(message, "freeze.lift")
        assert "requires the role member" in scene.shown_to(ADA)[-1]

    def test_person_who_has_left_the_organisation_is_not_linked(self, scene: SlackScene) -> None:
        ada = scene.link("member")
        scene.acme.session.delete(scene.acme.session.get_one(Membership, (scene.acme.id, ada.id)))
        scene.acme.session.commit()
        assert "/slack/link?token=" in scene.slack.type("status").body["text"]
        assert scene.acme.session.scalars(select(SlackLink)).all() == []


class TestStatus:
    def test_status_lists_the_freezes_in_force(self, scene: SlackScene, freeze: Freeze) -> None:
        scene.link("viewer")
        assert freeze.id in json.dumps(scene.slack.type("status").body)
        assert "is frozen" in scene.slack.type("status acme/web#main").body["text"]
        assert "Lift" in json.dumps(scene.slack.type("lift").body)

    def test_status_of_an_unknown_repository_is_refused_in_words(self, scene: SlackScene) -> None:
        scene.link("viewer")
        assert ":no_entry:" in scene.slack.type("status acme/nothing").body["text"]


class TestStart:
    def test_form_starts_a_freeze_of_a_branch(self, scene: SlackScene, web: WatchedBranch) -> None:
        scene.link("member")
        assert scene.slack.type("start acme/web#main").body == ""
        form = scene.last_form()
        scene.slack.submit(form, reason=REASON)
        assert form.view["title"]["text"] == "Merging is frozen"
        freeze = scene.session.scalars(select(Freeze)).one()
        assert (freeze.reason, freeze.scope["type"], freeze.ends_at) == (REASON, "branch", None)
        assert scene.last_entry("freeze.started").source == "slack"

    def test_answers_to_start_and_lift_count_what_other_freezes_cover(self, scene: SlackScene, freeze: Freeze) -> None:
        scene.link("member")
        scene.slack.type("start acme/web#main")
        form = scene.last_form()
        scene.slack.submit(form, reason=REASON)
        assert "1 branch is already frozen by other freezes." in json.dumps(form.view)
        second = scene.session.scalars(select(Freeze.id).where(Freeze.id != freeze.id)).one()
        assert "1 branch is still frozen by other freezes." in scene.slack.type(f"lift {second}").body["text"]
        assert "frozen" not in scene.slack.type(f"lift {freeze.id}").body["text"]

    def test_wide_freeze_shows_how_much_it_reaches_before_it_starts(
        self, scene: SlackScene, web: WatchedBranch
    ) -> None:
        scene.link("member")
        scene.slack.type("start everything")
        form = scene.last_form()
        scene.slack.submit(form, reason=REASON, until=int(scene.slack.clock()) + 3600)
        assert "*1 branch of 1 repository*" in json.dumps(form.view)
        assert scene.session.scalars(select(Freeze)).all() == []
        scene.slack.submit(form)
        freeze = scene.session.scalars(select(Freeze)).one()
        assert (freeze.previewed_repo_count, freeze.ends_at is not None) == (1, True)

    def test_form_that_is_sent_twice_starts_one_freeze(self, scene: SlackScene, web: WatchedBranch) -> None:
        scene.link("member")
        scene.slack.type("start acme/web")
        form = scene.last_form()
        first = dict(form.view)
        scene.slack.submit(form, reason=REASON)
        form.view = first
        scene.slack.submit(form, reason=REASON)
        assert len(scene.session.scalars(select(Freeze)).all()) == 1

    @pytest.mark.parametrize(
        ("values", "field"),
        [
            ({"scope": "acme/web#main acme/api", "reason": REASON}, "scope"),
            ({"scope": "acme/nothing", "reason": REASON}, "scope"),
            ({"scope": "acme/web", "reason": "no"}, "reason"),
            ({"scope": "everything", "reason": "no"}, "reason"),
            ({"scope": "acme/web", "reason": REASON, "until": 1}, "until"),
        ],
    )
    @pytest.mark.usefixtures("web")
    def test_form_shows_an_error_below_its_field(self, scene: SlackScene, values: dict[str, Any], field: str) -> None:
        scene.link("member")
        scene.slack.type("start")
        form = scene.last_form()
        scene.slack.submit(form, **values)
        assert list(form.errors) == [field]
        assert form.open

    def test_viewer_is_refused_in_the_form(self, scene: SlackScene, web: WatchedBranch) -> None:
        scene.link("viewer")
        scene.slack.type("start acme/web")
        form = scene.last_form()
        scene.slack.submit(form, reason=REASON)
        assert "requires the role member" in form.errors["reason"]

    def test_slack_that_opens_no_form_is_said_to_the_person(self, scene: SlackScene) -> None:
        scene.link("member")
        scene.slack.faults.add(kind="refusal", scope="views.open", message="expired_trigger_id")
        assert "did not open the form" in scene.slack.type("start").body["text"]


class TestExceptions:
    def test_request_is_made_by_a_form(self, scene: SlackScene, freeze: Freeze, pull: PullRequest) -> None:
        ada = scene.link("viewer")
        scene.slack.type("request acme/web#7")
        form = scene.last_form()
        scene.slack.submit(form, reason="Payments fail since 08:40")
        assert form.view["title"]["text"] == "Exception requested"
        row = scene.session.scalars(select(PullRequestException)).one()
        assert row.requested_by is not None
        assert row.requested_by["id"] == ada.id

    def test_button_of_a_freeze_opens_the_form_of_a_request(self, scene: SlackScene, freeze: Freeze) -> None:
        scene.link("viewer")
        scene.slack.click(
            scene.post([actions([button("Request", "exception.request", freeze.id)])]), "exception.request"
        )
        assert scene.last_form().view["callback_id"] == "exception.request"

    def test_admin_grants_once_however_often_they_click(self, scene: SlackScene, pending: PullRequestException) -> None:
        grace = scene.link("admin", GRACE)
        message = scene.post([actions([button("Grant", "exception.grant", pending.id)])])
        scene.slack.click(message, "exception.grant", GRACE)
        scene.slack.click(message, "exception.grant", GRACE)
        scene.session.refresh(pending)
        assert pending.decision == "granted"
        assert pending.decided_by is not None
        assert (pending.decided_by["id"], pending.decided_through) == (grace.id, "slack")
        entries = factories.audit_entries(scene.session, "exception.granted")
        assert len(entries) == 1
        assert "granted" in scene.shown_to(GRACE)[-1]

    def test_admin_denies_with_a_reason(self, scene: SlackScene, pending: PullRequestException) -> None:
        scene.link("admin", GRACE)
        scene.slack.click(
            scene.post([actions([button("Deny", "exception.deny", pending.id)])]), "exception.deny", GRACE
        )
        form = scene.last_form(GRACE)
        scene.slack.submit(form, reason="After the release, please")
        scene.session.refresh(pending)
        assert (pending.decision, pending.decision_reason) == ("denied", "After the release, please")
        assert not form.open

    def test_decision_on_the_web_meanwhile_is_redrawn_at_the_next_click(
        self, scene: SlackScene, pending: PullRequestException
    ) -> None:
        scene.link("admin", GRACE)
        subscription = factories.slack_subscription(scene.acme.session, scene.acme.organization)
        facts = {"decided": None}
        row = factories.slack_message(
            scene.acme.session, subscription, kind="request", subjects=[pending.id], facts=facts
        )
        body = {"decision": "deny", "reason": "Not now"}
        assert scene.acme.person("owner").post(f"/v1/exception-requests/{pending.id}/decide", body).status_code == 200
        scene.slack.click(
            scene.post([actions([button("Grant", "exception.grant", pending.id)])]), "exception.grant", GRACE
        )
        scene.acme.session.refresh(row)
        assert row.facts["decided"]["how"] == "denied"
        assert row.due_at is not None
        assert ":no_entry:" in scene.shown_to(GRACE)[-1]

    def test_own_request_is_decided_by_another_person(
        self, scene: SlackScene, freeze: Freeze, pull: PullRequest
    ) -> None:
        scene.link("admin")
        scene.slack.type("request acme/web#7")
        scene.slack.submit(scene.last_form(), reason="Payments fail since 08:40")
        row = scene.session.scalars(select(PullRequestException)).one()
        scene.slack.click(scene.post([actions([button("Grant", "exception.grant", row.id)])]), "exception.grant")
        assert "another person has to decide" in scene.shown_to(ADA)[-1]

    def test_plan_without_exceptions_refuses_in_slack_too(
        self, scene: SlackScene, freeze: Freeze, pull: PullRequest
    ) -> None:
        scene.link("member")
        factories.change_plan(scene.acme.session, scene.acme.organization, "free")
        scene.acme.session.commit()
        scene.slack.type("request acme/web#7")
        form = scene.last_form()
        scene.slack.submit(form, reason="Payments fail since 08:40")
        assert "plan" in form.errors["reason"]


class TestChannels:
    def test_person_of_a_common_name_is_recorded_with_the_address(self, scene: SlackScene) -> None:
        person = scene.link("member")
        scene.link("viewer", GRACE).name = person.name
        scene.session.flush()
        assert scene.slack.type("subscribe").status == 200
        assert scene.last_entry("slack.subscribed").actor["name"] == f"{person.name} ({person.email})"

    def test_channel_is_subscribed_and_unsubscribed(self, scene: SlackScene) -> None:
        scene.link("member")
        text = scene.slack.type("subscribe freeze.started acme/*").body["text"]
        assert "`freeze.started`" in text
        assert "`acme/*`" in text
        assert "Nothing is posted" in scene.slack.type("unsubscribe").body["text"]
        assert "not subscribed" in scene.slack.type("unsubscribe").body["text"]

    def test_unlink_ends_what_the_slack_user_may_do(self, scene: SlackScene) -> None:
        scene.link("owner", EVE)
        assert "is linked" in scene.slack.type("link", EVE).body["text"]
        assert "not linked" in scene.slack.type("unlink", EVE).body["text"]
        assert "/slack/link?token=" in scene.slack.type("status", EVE).body["text"]


class TestEvents:
    @pytest.mark.parametrize("tokens_first", [True, False])
    def test_uninstalled_app_loses_its_connection_once(
        self, slack: FakeSlack, workspace: SlackConnection, acme: Tenant, *, tokens_first: bool
    ) -> None:
        replies = slack.uninstall(tokens_first=tokens_first)
        replies.append(slack.deliver_event({"type": "app_uninstalled"}, event_id="Ev1", retry=1))
        assert [reply.status for reply in replies] == [200] * 3
        acme.session.refresh(workspace)
        assert (workspace.lost_at is not None, workspace.encrypted_tokens) == (True, None)
        assert acme.audit().count("slack.lost") == 1
        assert "not connected" in slack.type("status").body["text"]

    @pytest.mark.usefixtures("workspace")
    def test_hostile_words_of_people_are_shown_literally(self, scene: SlackScene) -> None:
        scene.link("viewer")
        factories.freeze(
            scene.acme.session, scene.acme.organization, reason="<!channel> <https://evil.example|click> & more"
        )
        shown = json.dumps(scene.slack.type("status").body)
        assert "<!channel>" not in shown
        assert "&lt;!channel&gt;" in shown


def test_hanging_slack_delays_no_answer_to_a_click(scene: SlackScene, freeze: Freeze) -> None:
    scene.link("member")
    scene.slack.faults.add(kind="timeout", scope="POST /respond/", seconds=2)
    assert (
        scene.slack.click(scene.post([actions([button("Lift", "freeze.lift", freeze.id)])]), "freeze.lift").status
        == 200
    )
    scene.session.refresh(freeze)
    assert freeze.ended_at is not None


@pytest.mark.usefixtures("workspace")
def test_installation_for_a_whole_enterprise_is_ignored(acme: Tenant, slack: FakeSlack) -> None:
    body = urlencode({"payload": json.dumps({"type": "block_actions", "team": None, "user": {"id": ADA}})}).encode()
    stamp = str(int(slack.clock()))
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(SIGNING_SECRET, body, stamp)}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    assert acme.anybody.send("POST", "/webhooks/slack", content=body, headers=headers).json() == {}
