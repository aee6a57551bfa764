"""Finding channels of the workspace by name, over several pages of Slack."""

import httpx
import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from integrations.slack import client as slack_client
from models.slack import SlackConnection
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.slack.conftest import Workspaces
from tools.fake_slack.model import Channel

CHANNELS = "/v1/slack/channels"
LISTING = "/api/conversations.list"


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()["data"]]


@pytest.fixture
def ada(acme: Tenant, workspaces: Workspaces) -> Caller:
    """Connect Acme's workspace, and return a member."""
    workspaces.connect(acme.person("admin"))
    return acme.person("member")


class TestListSlackChannels:
    def test_channels_are_found_by_a_part_of_their_name(self, ada: Caller) -> None:
        assert names(ada.get(CHANNELS)) == ["general", "releases"]
        found = ada.get(CHANNELS, q="#RELE").json()
        assert found == {"data": [{"id": "C0RELEASES", "name": "releases", "private": False}], "nextCursor": None}

    def test_search_goes_on_through_pages_of_slack(
        self, ada: Caller, workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slack_client, "CHANNELS_PER_CALL", 10)
        channels = {f"C0{number:03}": Channel(f"C0{number:03}", f"n{number:02}") for number in range(96)}
        workspaces.slack.workspaces["T0ACME"].channels.update(channels)
        first = ada.get(CHANNELS, q="n8").json()
        assert first["data"] == []
        found, cursor = [], first["nextCursor"]
        while cursor:
            page = ada.get(CHANNELS, q="n8", cursor=cursor, limit="4").json()
            assert len(page["data"]) <= 4
            found += [each["name"] for each in page["data"]]
            cursor = page["nextCursor"]
        assert found == [f"n{number}" for number in range(80, 90)]
        assert workspaces.slack.calls.by_method["conversations.list"] > 10

    def test_cursor_of_another_name_is_refused(
        self, ada: Caller, workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slack_client, "CHANNELS_PER_CALL", 1)
        cursor = ada.get(CHANNELS, q="e", limit="1").json()["nextCursor"]
        refusal(ada.get(CHANNELS, q="r", cursor=cursor), 400, "invalid_cursor")

    def test_limit_in_the_middle_shows_what_was_found_and_goes_on(
        self, ada: Caller, workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slack_client, "CHANNELS_PER_CALL", 1)
        workspaces.slack.faults.add("error", LISTING, skip=1, count=1, status=429)
        first = ada.get(CHANNELS)
        assert names(first) == ["general"]
        assert names(ada.get(CHANNELS, cursor=first.json()["nextCursor"])) == ["releases"]

    def test_limit_at_once_says_when_to_try_again(self, ada: Caller, workspaces: Workspaces) -> None:
        workspaces.slack.faults.add("error", LISTING, status=429, headers={"Retry-After": "17"})
        answer = ada.get(CHANNELS)
        refusal(answer, 502, "slack_unavailable")
        assert "in 17 seconds" in answer.text

    def test_permission_that_is_missing_is_named(self, ada: Caller, workspaces: Workspaces, session: Session) -> None:
        session.execute(update(SlackConnection).values(scopes=["chat:write", "channels:read"]))
        session.flush()
        workspaces.slack.workspaces["T0ACME"].channels["C0SECRET"].joined = True
        assert names(ada.get(CHANNELS)) == ["general", "releases"]
        session.execute(update(SlackConnection).values(scopes=["chat:write"]))
        session.flush()
        workspaces.slack.calls.reset()
        answer = ada.get(CHANNELS)
        refusal(answer, 409, "invalid_state")
        assert "it lacks channels:read" in answer.text
        assert workspaces.slack.calls.by_method["conversations.list"] == 0

    @pytest.mark.parametrize(
        ("word", "said"), [("missing_scope", "lacks channels:read"), ("token_revoked", "no longer accepts")]
    )
    def test_refusal_of_slack_is_told(self, ada: Caller, workspaces: Workspaces, word: str, said: str) -> None:
        workspaces.slack.faults.add("refusal", LISTING, message=word)
        answer = ada.get(CHANNELS)
        refusal(answer, 409, "invalid_state")
        assert said in answer.text

    def test_organization_without_a_workspace_has_no_channels(
        self, ada: Caller, globex: Tenant, workspaces: Workspaces
    ) -> None:
        refusal(globex.person("member").get(CHANNELS), 409, "invalid_state")
