"""The client of Slack: its answers, what each refusal means, and that nothing is sent twice."""

import logging
from typing import Any

import pytest

from integrations.slack import (
    Slack,
    SlackChannelError,
    SlackContentError,
    SlackError,
    SlackScopeError,
    SlackSettings,
    SlackTokenError,
    SlackUnavailableError,
)
from integrations.slack import client as module
from tests.integrations.slack.conftest import REDIRECT
from tools.fake_slack import FakeSlack

POST = "/api/chat.postMessage"
SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "Frozen"}}
VIEW = {
    "type": "modal",
    "title": {"type": "plain_text", "text": "Freeze"},
    "blocks": [SECTION],
}


def post(slack: Slack, token: str, **more: Any) -> str:
    return slack.post_message(token, "C0RELEASES", "Frozen", [SECTION], **more)


class TestInstallation:
    def test_code_is_exchanged_for_token_workspace_and_scopes(self, slack: Slack, fake: FakeSlack) -> None:
        back = fake.install(slack.authorize_url("a state", REDIRECT))
        found = slack.exchange_code(back["code"], REDIRECT)
        assert back["state"] == "a state"
        assert (found.team_id, found.team_name, found.bot_user_id) == ("T0ACME", "Acme", "U0BOT")
        assert found.scopes == module.SCOPES
        assert (found.tokens.refresh_token, found.tokens.expires_in) == (None, None)
        assert "xoxb" not in repr(found)


class TestMessages:
    def test_message_is_posted_updated_and_threaded(self, slack: Slack, fake: FakeSlack, token: str) -> None:
        ts = post(slack, token)
        post(slack, token, thread_ts=ts)
        slack.update_message(token, "C0RELEASES", ts, "Ended")
        first, second = fake.shown("C0RELEASES")
        assert (first.ts, first.text, first.blocks, first.edited) == (ts, "Ended", [], True)
        assert (second.thread_ts, second.blocks) == (ts, [SECTION])
        assert fake.calls.exchanges[1].params["unfurl_links"] is False

    def test_answer_to_a_response_url_is_accepted_five_times(self, slack: Slack, fake: FakeSlack, token: str) -> None:
        fake.settings.request_url = "http://127.0.0.1:1/webhooks/slack"
        fake.type("status")
        [number] = fake.responses
        for _ in range(5):
            slack.respond(f"{fake.base_url}/respond/{number}", {"text": "Frozen", "response_type": "ephemeral"})
        with pytest.raises(SlackError, match="http_404"):
            slack.respond(f"{fake.base_url}/respond/{number}", {"text": "Frozen"})

    @pytest.mark.parametrize("url", ["http://169.254.169.254/", "https://hooks.slack.com.evil.test/x", "x", ""])
    def test_answer_is_sent_to_slack_alone(self, slack: Slack, url: str) -> None:
        with pytest.raises(SlackError, match="invalid_response_url"):
            slack.respond(url, {"text": "Frozen"})


class TestChannels:
    def test_channels_are_listed_without_archived_and_foreign_ones(
        self, slack: Slack, fake: FakeSlack, token: str
    ) -> None:
        page = slack.list_channels(token, private=True)
        assert [(each.id, each.name, each.is_private) for each in page.channels] == [
            ("C0GENERAL", "general", False),
            ("C0RELEASES", "releases", False),
        ]
        assert page.next_cursor == ""
        fake.workspaces["T0ACME"].channels["C0SECRET"].joined = True
        assert ("C0SECRET", True) in [
            (each.id, each.is_private) for each in slack.list_channels(token, private=True).channels
        ]
        assert "C0SECRET" not in [each.id for each in slack.list_channels(token, private=False).channels]

    def test_scope_of_private_channels_is_asked_for_only_with_them(self, slack: Slack, fake: FakeSlack) -> None:
        fake.settings.granted_scopes = ["channels:read"]
        back = fake.install(slack.authorize_url("s", REDIRECT))
        given = slack.exchange_code(back["code"], REDIRECT).tokens.access_token
        assert slack.list_channels(given, private=False).channels
        with pytest.raises(SlackScopeError) as raised:
            slack.list_channels(given, private=True)
        assert raised.value.needed == "groups:read"


class TestErrors:
    @pytest.mark.parametrize(
        ("word", "kind"),
        [
            *((word, SlackTokenError) for word in ("invalid_auth", "token_revoked", "token_expired")),
            *((word, SlackTokenError) for word in ("account_inactive", "not_authed")),
            *((word, SlackChannelError) for word in ("channel_not_found", "not_in_channel")),
            *((word, SlackChannelError) for word in ("is_archived", "restricted_action")),
            *((word, SlackContentError) for word in ("invalid_blocks", "msg_blocks_too_long", "msg_too_long")),
            *((word, SlackUnavailableError) for word in ("ratelimited", "internal_error", "fatal_error")),
            ("service_unavailable", SlackUnavailableError),
            ("something_new", SlackError),
        ],
    )
    def test_error_code_of_slack_becomes_an_error_of_its_kind(
        self, slack: Slack, fake: FakeSlack, token: str, word: str, kind: type[SlackError]
    ) -> None:
        fake.faults.add("refusal", POST, message=word)
        with pytest.raises(SlackError, match=word) as raised:
            post(slack, token)
        assert type(raised.value) is kind
        assert raised.value.code == word

    def test_rate_limit_says_how_long_to_wait(self, slack: Slack, fake: FakeSlack, token: str) -> None:
        fake.faults.add("error", POST, status=429, headers={"Retry-After": "17"})
        with pytest.raises(SlackUnavailableError) as raised:
            post(slack, token)
        assert (raised.value.code, raised.value.retry_after) == ("ratelimited", 17.0)

    @pytest.mark.parametrize(
        "fault", [{"kind": "error", "status": 503}, {"kind": "disconnect"}, {"kind": "disconnect", "after": True}]
    )
    def test_failed_call_may_succeed_later_and_is_sent_once(
        self, slack: Slack, fake: FakeSlack, token: str, fault: dict[str, Any]
    ) -> None:
        fake.calls.reset()
        fake.faults.add(scope=POST, **fault)
        with pytest.raises(SlackUnavailableError):
            post(slack, token)
        assert fake.calls.by_method["chat.postMessage"] == 1

    def test_slack_that_hangs_is_given_up(
        self, slack: Slack, fake: FakeSlack, token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "FORM_TIMEOUT", 0.1)
        fake.faults.add("timeout", "views.open", seconds=30)
        with pytest.raises(SlackUnavailableError, match="TimeoutError"):
            slack.open_view(token, "1", VIEW)

    def test_calls_beyond_the_limit_are_refused_at_once(self, slack: Slack, token: str) -> None:
        for _ in range(module.MAX_CONCURRENT_CALLS):
            assert slack._free.acquire(blocking=False)
        with pytest.raises(SlackUnavailableError, match="Too many"):
            post(slack, token)

    def test_nothing_of_a_call_is_logged(self, slack: Slack, fake: FakeSlack, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG):
            back = fake.install(slack.authorize_url("s", REDIRECT))
            given = slack.exchange_code(back["code"], REDIRECT).tokens.access_token
            fake.faults.add("error", POST, status=500)
            with pytest.raises(SlackUnavailableError):
                post(slack, given)
        assert not [each for each in caplog.records if given in each.getMessage() or back["code"] in each.getMessage()]
        assert fake.settings.client_secret not in repr(slack.settings)

    def test_unreachable_slack_is_unavailable(self) -> None:
        slack = Slack(SlackSettings("c", "s", ("x",), url="http://127.0.0.1:1"))
        with pytest.raises(SlackUnavailableError):
            slack.revoke_token("xoxb-1")
