"""githubkit's models, made from GitHub's own OpenAPI description, parse the answer of every endpoint."""

import base64
from typing import Any

import pytest
from githubkit import GitHub, TokenAuthStrategy
from githubkit.exception import RequestFailed
from githubkit_schemas.latest.models import PrivateUser, SimpleUser

from tests.tools.fake_github.conftest import PLACE, client
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.rest.routing import ROUTES

RULES: Any = {
    "name": "Freeze",
    "target": "branch",
    "enforcement": "active",
    "conditions": {"ref_name": {"include": ["refs/heads/release/*"], "exclude": []}},
    "bypass_actors": [{"actor_id": 1, "actor_type": "Integration", "bypass_mode": "always"}],
    "rules": [
        {
            "type": "required_status_checks",
            "parameters": {
                "required_status_checks": [{"context": "change-freeze/release/*", "integration_id": 4242}],
                "strict_required_status_checks_policy": False,
            },
        },
        {"type": "deletion"},
    ],
}

ANNOTATION = {
    "path": "docs/a.txt",
    "start_line": 1,
    "end_line": 1,
    "annotation_level": "warning",
    "message": "Changed in a freeze",
}


@pytest.fixture
def web(github: FakeGitHub) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("release/1.0",))


def parse_the_app(app: GitHub[Any], bot: GitHub[Any], github: FakeGitHub) -> None:
    itself: Any = app.rest.apps.get_authenticated().parsed_data
    assert itself.slug == "change-freeze"
    assert app.rest.apps.get_installation(1001).parsed_data.account
    token = app.rest.apps.create_installation_access_token(
        1001, data={"permissions": {"checks": "write"}, "repositories": ["web"]}
    ).parsed_data
    assert len(token.token) != 40
    assert token.permissions
    github.settings.webhook_url = "http://127.0.0.1:9/nobody-listens"
    bot.rest.checks.create(*PLACE, data={"name": "x", "head_sha": tip(bot)})
    github.sender.drain()
    listed = app.rest.apps.list_webhook_deliveries().parsed_data
    delivery = app.rest.apps.get_webhook_delivery(listed[0].id).parsed_data
    assert delivery.event == "check_run"
    hook = app.rest.apps.get_webhook_config_for_app().parsed_data
    assert (hook.url, hook.content_type, hook.secret) == (github.settings.webhook_url, "json", "********")
    github.settings.webhook_url = None


def tip(client: GitHub[Any], branch: str = "main") -> str:
    return str(client.rest.git.get_ref(*PLACE, f"heads/{branch}").parsed_data.object_.sha)


def parse_branches(person: GitHub[Any]) -> None:
    start = tip(person)
    assert {found.name for found in person.rest.repos.list_branches(*PLACE).parsed_data} == {"main", "release/1.0"}
    assert person.rest.repos.get_branch(*PLACE, "release/1.0").parsed_data.commit.sha == start
    made = person.rest.git.create_commit(*PLACE, data={"message": "By hand", "tree": start, "parents": [start]})
    commit = made.parsed_data
    person.rest.git.create_ref(*PLACE, data={"ref": "refs/heads/topic/a", "sha": start})
    moved = person.rest.git.update_ref(*PLACE, "heads/topic/a", data={"sha": commit.sha}).parsed_data
    assert moved.object_.sha == commit.sha
    assert person.request("GET", moved.url).json()["object"]["sha"] == commit.sha
    renamed = person.rest.repos.rename_branch(*PLACE, "topic/a", new_name="topic/b").parsed_data
    assert renamed.name == "topic/b"
    person.rest.git.delete_ref(*PLACE, "heads/topic/b")


def parse_files(person: GitHub[Any]) -> None:
    person.rest.git.create_ref(*PLACE, data={"ref": "refs/heads/feature", "sha": tip(person)})
    text = base64.b64encode(b"hello").decode()
    change: Any = {"message": "Say hello", "content": text, "branch": "feature"}
    written = person.rest.repos.create_or_update_file_contents(*PLACE, "docs/a.txt", data=change)
    assert written.status_code == 201
    assert written.parsed_data.commit.sha == tip(person, "feature")


def parse_pull_requests(person: GitHub[Any]) -> int:
    made = person.rest.pulls.create(*PLACE, data={"title": "Hello", "head": "feature", "base": "main"}).parsed_data
    assert person.rest.pulls.get(*PLACE, made.number).parsed_data.mergeable_state == "clean"
    assert [found.number for found in person.rest.pulls.list(*PLACE, base="main").parsed_data] == [made.number]
    changed = person.rest.pulls.update(*PLACE, made.number, data={"title": "Hello, world", "base": "release/1.0"})
    assert changed.parsed_data.base.ref == "release/1.0"
    review = person.rest.pulls.create_review(*PLACE, made.number, event="APPROVE").parsed_data
    assert review.state == "APPROVED"
    issues: Any = person.rest.issues
    assert [label.name for label in issues.add_labels(*PLACE, made.number, labels=["fix"]).parsed_data] == ["fix"]
    assert issues.update_label(*PLACE, "fix", new_name="hotfix").parsed_data.name == "hotfix"
    assert person.rest.pulls.get(*PLACE, made.number).parsed_data.labels[0].name == "hotfix"
    assert issues.remove_label(*PLACE, made.number, "hotfix").parsed_data == []
    commits: Any = person.rest.pulls.list_commits(*PLACE, made.number).parsed_data
    assert [found.sha for found in commits] == [made.head.sha]
    files: Any = person.rest.pulls.list_files(*PLACE, made.number).parsed_data
    assert [(file.filename, file.status) for file in files] == [("docs/a.txt", "added")]
    assert files[0].patch == "@@ -0,0 +1 @@\n+hello"
    found = person.rest.repos.list_pull_requests_associated_with_commit(*PLACE, made.head.sha).parsed_data
    assert found[0].number == made.number
    assert person.rest.repos.list_activities(*PLACE, ref="feature").parsed_data[0].activity_type == "push"
    return int(made.number)


def parse_checks(bot: GitHub[Any], sha: str) -> None:
    wanted: Any = {
        "name": "change-freeze/main",
        "head_sha": sha,
        "output": {"title": "Frozen", "summary": "Until Monday", "annotations": [ANNOTATION]},
    }
    run = bot.rest.checks.create(*PLACE, data=wanted).parsed_data
    assert (run.status, run.output.title) == ("queued", "Frozen")
    assert bot.rest.checks.list_for_ref(*PLACE, sha).parsed_data.total_count == 1
    bot.rest.checks.rerequest_run(*PLACE, run.id)


def parse_rulesets(person: GitHub[Any]) -> None:
    made = person.rest.repos.create_repo_ruleset(*PLACE, data=RULES).parsed_data
    assert person.rest.repos.get_repo_ruleset(*PLACE, made.id).parsed_data.rules
    assert [found.id for found in person.rest.repos.get_repo_rulesets(*PLACE).parsed_data] == [made.id]
    rules = person.rest.repos.get_branch_rules(*PLACE, "release/2.0").parsed_data
    assert [rule.type for rule in rules] == ["required_status_checks", "deletion"]
    changed = person.rest.repos.update_repo_ruleset(*PLACE, made.id, data={"enforcement": "disabled"}).parsed_data
    assert changed.enforcement == "disabled"
    person.rest.repos.delete_repo_ruleset(*PLACE, made.id)
    everywhere: Any = {
        **RULES,
        "conditions": {**RULES["conditions"], "repository_name": {"include": ["~ALL"], "exclude": []}},
    }
    above = person.rest.repos.create_org_ruleset("acme", data=everywhere).parsed_data
    assert person.rest.repos.get_org_ruleset("acme", above.id).parsed_data.source_type == "Organization"
    assert len(person.rest.repos.get_org_rulesets("acme").parsed_data) == 1
    person.rest.repos.update_org_ruleset("acme", above.id, data={"name": "Freeze everything"})
    person.rest.repos.delete_org_ruleset("acme", above.id)


def parse_classic_protection(person: GitHub[Any]) -> None:
    wanted: Any = {
        "required_status_checks": {"strict": True, "contexts": [], "checks": [{"context": "ci", "app_id": -1}]},
        "enforce_admins": True,
        "required_pull_request_reviews": None,
        "restrictions": None,
    }
    made: Any = person.rest.repos.update_branch_protection(*PLACE, "main", data=wanted).parsed_data
    assert [(check.context, check.app_id) for check in made.required_status_checks.checks] == [("ci", None)]
    assert made.enforce_admins.enabled


def installer(github: FakeGitHub) -> GitHub[Any]:
    """Be the maintainer with a token of the App's own client, which alone may list the App's installations."""
    token = "ghu_app_tokens"
    github.oauth.app_tokens.add(token)
    github.world.tokens[token] = github.maintainer
    return client(github.base_url, TokenAuthStrategy(token))


def parse_people(person: GitHub[Any], bot: GitHub[Any], github: FakeGitHub) -> None:
    number = github.organization("acme").team_named("captains", "ada")
    assert person.rest.users.get_by_username("ada").parsed_data.login == "ada"
    assert bot.rest.teams.get_by_name("acme", "captains").parsed_data.id == number
    acme = person.rest.orgs.get("acme").parsed_data.id
    members = bot.request("GET", f"/organizations/{acme}/team/{number}/members", response_model=list[SimpleUser])
    assert [member.login for member in members.parsed_data] == ["ada"]
    elsewhere = github.organization("globex").team_named("captains", "bob")
    for organization, team in (("globex", elsewhere), ("acme", elsewhere), ("globex", number)):
        account = github.world.logins[organization].id
        with pytest.raises(RequestFailed):
            bot.request("GET", f"/organizations/{account}/team/{team}/members")
    with pytest.raises(RequestFailed):
        bot.rest.teams.get_by_name("globex", "captains")


def parse_repositories(person: GitHub[Any], bot: GitHub[Any], github: FakeGitHub) -> None:
    assert person.rest.repos.get(*PLACE).parsed_data.full_name == "acme/web"
    made = person.rest.repos.create_in_org("acme", data={"name": "new"}).parsed_data
    renamed = person.rest.repos.update("acme", "new", data={"name": "newer"}).parsed_data
    assert (renamed.id, renamed.name) == (made.id, "newer")
    assert bot.rest.apps.list_repos_accessible_to_installation().parsed_data.total_count == 2
    github.organization("globex")
    moved = person.rest.repos.transfer("acme", "newer", data={"new_owner": "globex"}).parsed_data
    assert moved.full_name == "globex/newer"
    person.rest.repos.delete("globex", "newer")
    assert person.rest.orgs.get("acme").parsed_data.login == "acme"
    assert person.rest.orgs.get_membership_for_authenticated_user("acme").parsed_data.state == "active"
    user = person.rest.users.get_authenticated().parsed_data
    assert isinstance(user, PrivateUser)
    assert (user.login, user.two_factor_authentication) == ("maintainer", True)
    granted = bot.rest.repos.get_collaborator_permission_level(*PLACE, "maintainer").parsed_data
    assert (granted.permission, granted.role_name) == ("admin", "admin")
    installing = installer(github)  # kept: its namespaces hold it by a weak reference only
    listed = installing.rest.apps.list_installations_for_authenticated_user().parsed_data
    assert [found.id for found in listed.installations] == [1001]


def test_every_endpoint_is_parsed_by_the_typed_client(
    github: FakeGitHub, app: GitHub[Any], person: GitHub[Any], bot: GitHub[Any], web: RepositoryBuilder
) -> None:
    parse_the_app(app, bot, github)
    parse_branches(person)
    parse_files(person)
    number = parse_pull_requests(person)
    parse_checks(bot, tip(bot, "feature"))
    parse_rulesets(person)
    parse_classic_protection(person)
    assert person.rest.pulls.merge(*PLACE, number).parsed_data.merged
    parse_people(person, bot, github)
    parse_repositories(person, bot, github)
    uncalled = {f"{route.method} {route.template}" for route in ROUTES} - set(github.calls.by_operation)
    assert not uncalled
