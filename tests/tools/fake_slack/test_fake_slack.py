"""The simulated Slack with the official client, and an app that people use."""

import time
from typing import Any

import httpx
import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier

from tests.tools.fake_slack.blocks import BUTTONS, SECTION, form, text_input
from tests.tools.fake_slack.conftest import App
from tools.fake_slack import FakeSlack
from tools.fake_slack.model import Channel


def refusal(call: Any, *given: Any, **more: Any) -> str:
    """Return Slack's word for why a call is refused."""
    with pytest.raises(SlackApiError) as raised:
        call(*given, **more)
    return str(raised.value.response["error"])


def post(client: WebClient, **more: Any) -> Any:
    return client.chat_postMessage(**{"channel": "C0RELEASES", "text": "Frozen", "blocks": [SECTION, BUTTONS], **more})


class TestMethods:
    @pytest.mark.parametrize(
        ("given", "word"),
        [
            ({"channel": "C0NOTHING"}, "channel_not_found"),
            ({"channel": "C0SECRET"}, "channel_not_found"),
            ({"channel": "C0OLD"}, "is_archived"),
            ({"blocks": [SECTION] * 51}, "invalid_blocks"),
            ({"blocks": [BUTTONS, BUTTONS]}, "invalid_blocks"),
            ({"blocks": [text_input("reason")]}, "invalid_blocks"),
            ({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]}, "invalid_blocks"),
            ({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": ""}}]}, "invalid_blocks"),
            ({"blocks": [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}]}, "invalid_blocks"),
            (
                {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 2900}}] * 5},
                "msg_blocks_too_long",
            ),
        ],
    )
    def test_message_that_slack_refuses_is_refused(self, client: WebClient, given: dict[str, Any], word: str) -> None:
        assert refusal(post, client, **given) == word

    def test_empty_message_is_refused(self, client: WebClient) -> None:
        assert refusal(client.api_call, "chat.postMessage", json={"channel": "C0RELEASES"}) == "no_text"

    def test_page_of_channels_is_cut_before_archived_ones_are_left_out(
        self, client: WebClient, slack: FakeSlack
    ) -> None:
        slack.workspaces["T0ACME"].channels["C0NEW"] = Channel("C0NEW", "new")
        pages, cursor = [], ""
        for _ in range(4):
            answer = client.conversations_list(limit=1, exclude_archived=True, cursor=cursor)
            pages.append([each["id"] for each in answer["channels"]])
            cursor = answer["response_metadata"]["next_cursor"]
        assert pages == [["C0GENERAL"], ["C0RELEASES"], [], ["C0NEW"]]
        assert cursor == ""

    @pytest.mark.parametrize(
        ("given", "word"),
        [
            ({"types": "private_channel"}, "missing_scope"),
            ({"types": "public_channel,letters"}, "invalid_types"),
            ({"limit": 1000}, "invalid_limit"),
            ({"cursor": "C0NOTHING"}, "invalid_cursor"),
        ],
    )
    def test_list_of_channels_that_slack_refuses_is_refused(
        self, client: WebClient, given: dict[str, Any], word: str
    ) -> None:
        assert refusal(client.conversations_list, **given) == word

    def test_list_of_channels_reads_nothing_from_json(self, client: WebClient) -> None:
        listed = client.api_call("conversations.list", json={"exclude_archived": True, "limit": 1})
        assert [each["id"] for each in listed["channels"]] == ["C0GENERAL", "C0RELEASES", "C0OLD"]

    def test_private_channel_is_reached_once_joined(self, client: WebClient, slack: FakeSlack) -> None:
        slack.workspaces["T0ACME"].channels["C0SECRET"].joined = True
        assert post(client, channel="C0SECRET")["ok"]

    def test_second_message_within_a_second_is_limited(self, client: WebClient, slack: FakeSlack) -> None:
        slack.settings.seconds_per_message = 60.0
        post(client)
        with pytest.raises(SlackApiError) as raised:
            post(client)
        assert raised.value.response.status_code == 429
        assert raised.value.response.headers["retry-after"] == "1"
        assert post(client, channel="C0GENERAL")["ok"]

    def test_unknown_and_revoked_tokens_are_refused(self, client: WebClient) -> None:
        client.auth_revoke()
        assert refusal(post, client) == "token_revoked"
        client.token = "xoxb-unknown"
        assert refusal(post, client) == "invalid_auth"

    def test_faults_strike_by_method(self, client: WebClient, slack: FakeSlack) -> None:
        slack.faults.add("refusal", "/api/chat.postMessage", message="internal_error", count=1)
        slack.faults.add("disconnect", "/api/chat.update", after=True, count=1)
        assert refusal(post, client) == "internal_error"
        ts = post(client)["ts"]
        with pytest.raises(OSError, match="closed"):
            client.chat_update(channel="C0RELEASES", ts=ts, text="Ended")
        assert slack.shown("C0RELEASES")[0].text == "Ended"


class TestPeople:
    def test_command_is_signed_and_its_answer_shown_to_the_person(
        self, client: WebClient, slack: FakeSlack, app: App
    ) -> None:
        app.answers.append((200, {"response_type": "ephemeral", "text": "Nothing is frozen."}))
        assert slack.type("status").status == 200
        sent, (headers, raw) = app.payload(), app.received[-1]
        assert SignatureVerifier(slack.settings.signing_secret).is_valid_request(raw, headers)
        assert (sent["command"], sent["text"], sent["team_id"]) == ("/freeze", "status", "T0ACME")
        assert [each.text for each in slack.shown("C0RELEASES", "U0ADA")] == ["Nothing is frozen."]
        assert slack.shown("C0RELEASES", "U0EVE") == []

    def test_click_names_message_and_value(self, client: WebClient, slack: FakeSlack, app: App) -> None:
        ts = post(client)["ts"]
        [message] = slack.shown("C0RELEASES")
        slack.click(message, "lift", user="U0EVE", from_team="T9OTHER")
        sent = app.payload()
        assert sent["type"] == "block_actions"
        assert sent["actions"][0]["value"] == "frz_1"
        assert sent["container"]["message_ts"] == ts
        assert (sent["team"]["id"], sent["user"]["team_id"]) == ("T0ACME", "T9OTHER")

    def test_form_is_submitted_with_its_values(self, client: WebClient, slack: FakeSlack, app: App) -> None:
        slack.type("start")
        client.views_open(trigger_id=app.payload()["trigger_id"], view=form())
        [opened] = slack.open_forms()
        with pytest.raises(ValueError, match="reason is required"):
            slack.submit(opened)
        with pytest.raises(ValueError, match="8 to 50"):
            slack.submit(opened, reason="short")
        app.answers.append((200, {"response_action": "errors", "errors": {"reason": "Say more."}}))
        slack.submit(opened, reason="Release under way", scope="all")
        assert opened.errors == {"reason": "Say more."}
        assert app.payload()["view"]["state"]["values"]["scope"]["value"]["selected_option"]["value"] == "all"
        slack.submit(opened, reason="Release under way, still")
        assert slack.open_forms() == []

    @pytest.mark.parametrize(
        "changes",
        [
            {"title": {"type": "plain_text", "text": "x" * 25}},
            {"submit": None},
            {"private_metadata": "x" * 3001},
            {"blocks": []},
            {"blocks": [SECTION] * 101},
        ],
    )
    def test_form_that_slack_refuses_is_refused(
        self, client: WebClient, slack: FakeSlack, app: App, changes: dict[str, Any]
    ) -> None:
        slack.type("start")
        view = {name: value for name, value in {**form(), **changes}.items() if value is not None}
        trigger_id = app.payload()["trigger_id"]
        assert refusal(client.views_open, trigger_id=trigger_id, view=view) == "invalid_arguments"

    def test_trigger_ends_after_three_seconds(self, client: WebClient, slack: FakeSlack, app: App) -> None:
        slack.type("start")
        slack.triggers[app.payload()["trigger_id"]].made_at -= 4
        assert refusal(client.views_open, trigger_id=app.payload()["trigger_id"], view=form()) == "expired_trigger_id"

    @pytest.mark.parametrize("tokens_first", [True, False])
    def test_uninstallation_sends_two_events(
        self, client: WebClient, slack: FakeSlack, app: App, tokens_first: bool
    ) -> None:
        slack.uninstall(tokens_first=tokens_first)
        kinds = ["tokens_revoked", "app_uninstalled"]
        assert [kind for _, raw in app.received for kind in kinds if kind.encode() in raw] == (
            kinds if tokens_first else kinds[::-1]
        )
        assert refusal(post, client) == "token_revoked"

    def test_app_that_fails_is_shown_to_the_person(self, client: WebClient, slack: FakeSlack, app: App) -> None:
        app.answers.append((500, None))
        slack.type("status")
        assert "failed with the error" in slack.shown("C0RELEASES", "U0ADA")[0].text


class TestPages:
    def test_person_consents_to_an_installation(self, http_client: httpx.Client, slack: FakeSlack) -> None:
        query = {
            "client_id": slack.settings.client_id,
            "scope": "commands,chat:write",
            "redirect_uri": "https://freezes.test/slack",
            "state": "s",
            "team": "T0GLOBEX",
        }
        page = http_client.get("/oauth/v2/authorize", params=query)
        assert '<option value="T0GLOBEX" selected>' in page.text
        done = http_client.post("/oauth/v2/authorize", params=query, data={"decision": "allow", "team": "T0GLOBEX"})
        assert done.headers["location"].startswith("https://freezes.test/slack?code=")
        refused = http_client.post("/oauth/v2/authorize", params=query, data={"decision": "cancel"})
        assert refused.headers["location"] == "https://freezes.test/slack?error=access_denied&state=s"

    @pytest.mark.parametrize("changes", [{"client_id": "x"}, {"redirect_uri": "https://evil.test/"}, {"scope": ""}])
    def test_wrong_installation_is_not_shown(
        self, http_client: httpx.Client, slack: FakeSlack, changes: dict[str, str]
    ) -> None:
        slack.settings.redirect_url = "https://freezes.test/slack"
        query = {
            "client_id": slack.settings.client_id,
            "scope": "commands",
            "redirect_uri": "https://freezes.test/slack",
        }
        assert http_client.get("/oauth/v2/authorize", params={**query, **changes}).status_code == 400

    def test_person_types_clicks_and_submits_on_the_page(
        self, http_client: httpx.Client, client: WebClient, slack: FakeSlack, app: App
    ) -> None:
        ts = post(client)["ts"]
        where = {"team": "T0ACME", "channel": "C0RELEASES", "user": "U0ADA"}
        page = http_client.get("/", params=where).text
        assert '<strong>Frozen</strong> &amp; <a href="https://x.test/a" rel="noreferrer">a &lt;b&gt;</a>' in page
        http_client.post("/do", data={**where, "do": "click", "ts": ts, "action": "lift"})
        assert app.payload()["actions"][0]["action_id"] == "lift"
        http_client.post("/do", data={**where, "do": "type", "text": "/freeze start"})
        client.views_open(trigger_id=app.payload()["trigger_id"], view=form())
        [opened] = slack.open_forms()
        page = http_client.get("/", params=where).text
        assert 'name="value:reason"' in page
        sent = {**where, "do": "submit", "form": opened.id, "value:reason": "Release under way", "value:scope": ""}
        assert http_client.post("/do", data=sent).status_code == 303
        assert app.payload()["view"]["state"]["values"]["reason"]["value"]["value"] == "Release under way"
        assert http_client.post("/do", data={**sent, "form": "V0"}).status_code == 400


class TestControl:
    def test_control_plane_lets_programs_act_as_people(
        self, http_client: httpx.Client, client: WebClient, slack: FakeSlack, app: App
    ) -> None:
        typed = {"user": "U0ADA", "channel": "C0RELEASES", "text": "status"}
        assert http_client.post("/_control/type", json=typed).json() == {"status": 200, "body": ""}
        post(client)
        [message] = http_client.get("/_control/messages", params={"channel": "C0RELEASES"}).json()["messages"]
        clicked = {"user": "U0ADA", "channel": "C0RELEASES", "ts": message["ts"], "action": "lift"}
        assert http_client.post("/_control/click", json=clicked).json()["status"] == 200
        assert len(http_client.get("/_control/requests").json()["requests"]) == 2
        assert http_client.post("/_control/uninstall", json={"team": "T0ACME"}).json()["status"] == 200
        assert http_client.post("/_control/click", json={"user": "U0ADA"}).status_code == 400

    def test_channel_is_archived_by_the_control_plane(self, http_client: httpx.Client, client: WebClient) -> None:
        body = {"team": "T0ACME", "channel": "C0RELEASES", "archived": True}
        assert http_client.put("/_control/channels", json=body).json()["archived"]
        assert refusal(post, client) == "is_archived"

    def test_state_is_found_again(self, client: WebClient, slack: FakeSlack, tmp_path: Any) -> None:
        slack.state = tmp_path / "slack.json"
        post(client)
        slack.save()
        again = FakeSlack(state=slack.state)
        slack.state = None
        assert again.shown("C0RELEASES") == slack.shown("C0RELEASES")
        assert again.tokens == slack.tokens
        assert again.workspaces == slack.workspaces
        assert int(again.next_ts().partition(".")[0]) <= time.time()
