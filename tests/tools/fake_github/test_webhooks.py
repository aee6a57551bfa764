"""Every change is announced by a signed webhook of GitHub's shape."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from githubkit import GitHub, webhooks

from tests.harness.servers import client_of
from tests.tools.fake_github.conftest import CHECK, PLACE
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model import checks, pulls, queue, teams
from tools.fake_github.model.identifiers import timestamp
from tools.fake_github.model.records import AutoMerge
from tools.fake_github.model.world import Actor
from tools.fake_github.webhook_receiver import GitHubWebhookReceiver
from tools.fake_github.webhooks.sender import signature

SECRET = "It's a Secret to Everybody"


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any], receiver: GitHubWebhookReceiver) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("next",)).requires(CHECK)


def change_pull_requests(github: FakeGitHub, person: GitHub[Any], web: RepositoryBuilder) -> None:
    pull = web.pull_request()
    person.rest.pulls.update(*PLACE, pull.number, data={"state": "closed"})
    person.rest.pulls.update(*PLACE, pull.number, data={"state": "open"})
    person.rest.pulls.update(*PLACE, pull.number, data={"base": "next"})
    person.rest.pulls.update(*PLACE, pull.number, data={"base": "main"})
    change: Any = {"message": "More", "content": "aGVsbG8=", "branch": pull.head_ref}
    person.rest.repos.create_or_update_file_contents(*PLACE, "a.txt", data=change)
    with github.world.lock:
        actor = Actor(github.maintainer)
        for draft in (True, False):
            pulls.set_draft(github.world, actor, web.record, pull, draft=draft)
        for auto_merge in (AutoMerge(github.world.now(), actor.account.id, "merge"), None):
            pulls.set_auto_merge(github.world, actor, web.record, pull, auto_merge)
    person.rest.issues.add_labels(*PLACE, pull.number, data={"labels": ["fix"]})
    person.rest.issues.update_label(*PLACE, "fix", data={"new_name": "hotfix"})
    person.rest.issues.remove_label(*PLACE, pull.number, "hotfix")
    person.rest.pulls.create_review(*PLACE, pull.number, event="APPROVE")
    head = web.record.branches[pull.head_ref]
    person.rest.git.create_ref(*PLACE, data={"ref": "refs/heads/other", "sha": head})
    person.rest.pulls.create(*PLACE, data={"title": "Twin", "head": "other", "base": "next"})
    person.rest.git.delete_ref(*PLACE, "heads/other")


def change_checks(github: FakeGitHub, person: GitHub[Any], bot: GitHub[Any], web: RepositoryBuilder) -> None:
    pull = web.pull_request()
    button = {"label": "Ask", "description": "Ask for an exception", "identifier": "exception"}
    wanted: Any = {"name": CHECK, "head_sha": pull.head_sha, "conclusion": "failure", "actions": [button]}
    run: Any = bot.rest.checks.create(*PLACE, data=wanted).parsed_data
    person.rest.checks.rerequest_run(*PLACE, run.id)
    with github.world.lock:
        record = github.world.runs[run.id]
        checks.request_action(github.world, Actor(github.maintainer), web.record, record, "exception")


def change_the_queue(github: FakeGitHub, bot: GitHub[Any], web: RepositoryBuilder) -> None:
    web.merge_queue()
    for conclusion in ("success", "failure"):
        pull = web.pull_request(checks={CHECK: "success"})
        with github.world.lock:
            entry = queue.enqueue(github.world, Actor(github.maintainer), web.record, pull)
        bot.rest.checks.create(*PLACE, data={"name": CHECK, "head_sha": entry.head_sha or "", "conclusion": conclusion})
        assert (pull.merged_at is not None) == (conclusion == "success")


def change_rulesets(person: GitHub[Any]) -> None:
    body: Any = {"name": "Keep", "enforcement": "active", "rules": [{"type": "deletion"}]}
    made = person.rest.repos.create_repo_ruleset(*PLACE, data=body).parsed_data
    person.rest.repos.update_repo_ruleset(*PLACE, made.id, data={"enforcement": "evaluate"})
    person.rest.repos.delete_repo_ruleset(*PLACE, made.id)


def change_classic_protection(person: GitHub[Any]) -> None:
    wanted: Any = {
        "required_status_checks": {"strict": False, "contexts": [], "checks": [{"context": CHECK, "app_id": 4242}]},
        "enforce_admins": True,
        "required_pull_request_reviews": None,
        "restrictions": None,
    }
    for _ in ("created", "edited"):
        person.rest.repos.update_branch_protection(*PLACE, "next", data=wanted)


def change_repositories(github: FakeGitHub, person: GitHub[Any]) -> None:
    github.organization("globex").installed(installation_id=1002)
    person.rest.repos.create_in_org("acme", data={"name": "new"})
    person.rest.git.create_ref("acme", "new", data={"ref": "refs/heads/trunk", "sha": tip(github, "acme/new")})
    person.rest.repos.update("acme", "new", data={"default_branch": "trunk"})
    person.rest.repos.update("acme", "new", data={"name": "newer"})
    person.rest.repos.update("acme", "newer", data={"archived": True})
    person.rest.repos.update("acme", "newer", data={"archived": False})
    person.rest.repos.transfer("acme", "newer", data={"new_owner": "globex"})
    person.rest.repos.delete("globex", "newer")


def tip(github: FakeGitHub, name: str) -> str:
    repository = github.world.repository_named(name)
    return repository.branches[repository.default_branch]


def change_teams(github: FakeGitHub) -> None:
    acme, actor = github.organization("acme"), Actor(github.maintainer)
    acme.team_named("captains", "ada", "bob")
    acme.team_named("captains", "ada")
    with github.world.lock:
        teams.delete_team(github.world, actor, acme.account, "captains")


def change_installations(handle: Handle) -> None:
    with client_of(handle.base_url, trust_env=False) as control:
        for action in ("suspend", "unsuspend", "delete", "create", "repositories", "permissions"):
            body = {"action": action, "account": "acme", "repositories": ["web"], "permissions": {"checks": "write"}}
            assert control.post("/_control/installations", json=body).is_success
        assert control.post("/_control/installations", json={"action": "repositories", "account": "acme"}).is_success


EXPECTED = {
    *(f"pull_request.{action}" for action in ("opened", "reopened", "synchronize", "edited", "closed")),
    *(f"pull_request.{action}" for action in ("ready_for_review", "converted_to_draft", "enqueued", "dequeued")),
    *(f"pull_request.{action}" for action in ("auto_merge_enabled", "auto_merge_disabled")),
    *(f"check_run.{action}" for action in ("created", "completed", "rerequested", "requested_action")),
    *(f"merge_group.{action}" for action in ("checks_requested", "destroyed")),
    *(f"repository.{action}" for action in ("created", "renamed", "transferred", "archived", "unarchived", "deleted")),
    "repository.edited",
    *(f"installation.{action}" for action in ("created", "deleted", "suspend", "unsuspend")),
    "installation.new_permissions_accepted",
    *(f"installation_repositories.{action}" for action in ("added", "removed")),
    *(f"repository_ruleset.{action}" for action in ("created", "edited", "deleted")),
    *(f"branch_protection_rule.{action}" for action in ("created", "edited")),
    *(f"pull_request.{action}" for action in ("labeled", "unlabeled")),
    "pull_request_review.submitted",
    "label.edited",
    *(f"team.{action}" for action in ("created", "deleted")),
    *(f"membership.{action}" for action in ("added", "removed")),
    "push",
    "create",
    "delete",
}


@pytest.mark.check
@pytest.mark.slow(5)
def test_webhook_events_are_signed_and_parsed_by_the_typed_client(
    handle: Handle, person: GitHub[Any], bot: GitHub[Any], web: RepositoryBuilder, receiver: GitHubWebhookReceiver
) -> None:
    github = handle.github
    change_pull_requests(github, person, web)
    change_checks(github, person, bot, web)
    change_the_queue(github, bot, web)
    change_rulesets(person)
    change_classic_protection(person)
    change_repositories(github, person)
    change_teams(github)
    change_installations(handle)
    assert github.sender.drain()
    assert receiver.names() == EXPECTED
    for event, headers, body in receiver.received:
        assert webhooks.verify(SECRET, body, headers["X-Hub-Signature-256"]), event
        webhooks.parse(event, body)
        assert headers["X-GitHub-Hook-Installation-Target-Type"] == "integration"
    guids = [headers["X-GitHub-Delivery"] for _, headers, _ in receiver.received]
    assert len(set(guids)) == len(guids)


def test_transfer_is_delivered_only_to_the_new_owner(
    github: FakeGitHub, person: GitHub[Any], web: RepositoryBuilder, receiver: GitHubWebhookReceiver
) -> None:
    github.organization("globex").installed(installation_id=1002)
    person.rest.repos.transfer(*PLACE, data={"new_owner": "globex"})
    github.sender.drain()
    repository_events = receiver.bodies("repository")
    assert [body["installation"]["id"] for body in repository_events] == [1002]
    assert repository_events[0]["changes"]["owner"]["from"]["organization"]["login"] == "acme"


def test_suspended_installation_receives_no_webhooks(
    github: FakeGitHub, person: GitHub[Any], web: RepositoryBuilder, receiver: GitHubWebhookReceiver
) -> None:
    installation = github.world.installations[1001]
    installation.suspended_at = github.world.now()
    person.rest.repos.update(*PLACE, data={"archived": True})
    github.sender.drain()
    assert not receiver.received


def test_failed_delivery_is_recorded_and_not_resent(
    github: FakeGitHub, app: GitHub[Any], person: GitHub[Any], web: RepositoryBuilder, receiver: GitHubWebhookReceiver
) -> None:
    receiver.status = 500
    person.rest.repos.update(*PLACE, data={"archived": True})
    github.sender.drain()
    listed = app.rest.apps.list_webhook_deliveries().parsed_data
    assert [(found.status_code, found.redelivery) for found in listed] == [(500, False)]
    assert [headers["X-GitHub-Delivery"] for _, headers, _ in receiver.received] == [listed[0].guid]


@pytest.fixture
def deliver(
    github: FakeGitHub, person: GitHub[Any], web: RepositoryBuilder, receiver: GitHubWebhookReceiver
) -> Callable[[], list[str]]:
    """Send five webhooks, the second and the fourth in vain, and return their GUIDs, newest first."""

    def send() -> list[str]:
        for number in range(5):
            receiver.status = 500 if number % 2 else 202
            person.rest.repos.update(*PLACE, data={"archived": number % 2 == 0})
            github.sender.drain()
        return [headers["X-GitHub-Delivery"] for _, headers, _ in reversed(receiver.received)]

    return send


def test_log_is_read_by_cursor_from_the_newest_on(deliver: Callable[[], list[str]], app: GitHub[Any]) -> None:
    expected, found = deliver(), []
    answer = app.rest.apps.list_webhook_deliveries(per_page=2)
    found += [delivery.guid for delivery in answer.parsed_data]
    while following := answer.raw_response.links.get("next"):
        answer = app.rest.apps.list_webhook_deliveries(per_page=2, cursor=following["url"].rpartition("cursor=")[2])
        found += [delivery.guid for delivery in answer.parsed_data]
    assert found == expected


def test_log_lists_failures_alone_where_the_filter_is_known(
    deliver: Callable[[], list[str]], github: FakeGitHub, app: GitHub[Any]
) -> None:
    guids = deliver()
    failed = app.rest.apps.list_webhook_deliveries(status="failure").parsed_data
    assert [delivery.guid for delivery in failed] == [guids[1], guids[3]]
    github.settings.filters_deliveries = False
    assert len(app.rest.apps.list_webhook_deliveries(status="failure").parsed_data) == 5


def test_log_has_what_was_tried_within_three_days(
    deliver: Callable[[], list[str]], github: FakeGitHub, app: GitHub[Any]
) -> None:
    github.faults.add("webhook_drop", count=1)
    deliver()
    assert len(app.rest.apps.list_webhook_deliveries().parsed_data) == 4
    oldest = github.sender.log()[-1]
    oldest.delivered_at = timestamp(github.world.clock() - timedelta(days=3, seconds=2))
    assert len(app.rest.apps.list_webhook_deliveries().parsed_data) == 3


@pytest.mark.parametrize(
    ("kind", "count"), [("webhook_drop", 0), ("webhook_duplicate", 2), ("webhook_delay", 1), ("webhook_reorder", 1)]
)
def test_webhooks_can_be_dropped_duplicated_and_delayed(
    github: FakeGitHub,
    person: GitHub[Any],
    web: RepositoryBuilder,
    receiver: GitHubWebhookReceiver,
    kind: str,
    count: int,
) -> None:
    github.faults.add(kind, "repository.archived", seconds=0.05)
    person.rest.repos.update(*PLACE, data={"archived": True})
    assert github.sender.drain()
    assert len(receiver.bodies("repository")) == count


def test_webhook_signature_matches_the_published_vector() -> None:
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature(SECRET, b"Hello, World!") == expected
