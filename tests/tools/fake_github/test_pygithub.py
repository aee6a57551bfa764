"""PyGithub, a client of GitHub that knows nothing of this simulation, walks through it."""

from collections.abc import Iterator
from typing import Any

import pytest
from github import Auth, Github, GithubException, GithubIntegration
from github.PullRequest import PullRequest
from github.Repository import Repository

from tests.harness.app_key import AppKey
from tests.tools.fake_github.conftest import APP_ID, PERSON_TOKEN
from tools.fake_github import FakeGitHub, Handle

CHECK = "change-freeze/main"
ANNOTATION = {
    "path": "docs/a.txt",
    "start_line": 1,
    "end_line": 1,
    "annotation_level": "warning",
    "message": "Changed in a freeze",
}


@pytest.fixture
def web(github: FakeGitHub) -> None:
    """Seed acme/web, whose main branch requires the App's check, with the App installed."""
    organization = github.organization("acme")
    organization.repository("web", branches=("release/1.0",)).requires(CHECK)
    organization.installed(installation_id=1001)


@pytest.fixture
def person(handle: Handle, web: None) -> Iterator[Github]:
    auth = Auth.Token(PERSON_TOKEN)
    with Github(
        auth=auth, base_url=handle.base_url, retry=None, seconds_between_requests=None, seconds_between_writes=None
    ) as client:
        yield client


@pytest.fixture
def integration(handle: Handle, app_key: AppKey, web: None) -> Iterator[GithubIntegration]:
    auth = Auth.AppAuth(APP_ID, app_key.private)
    with GithubIntegration(
        auth=auth, base_url=handle.base_url, retry=None, seconds_between_requests=None, seconds_between_writes=None
    ) as client:
        yield client


def open_pull_request(repository: Repository) -> PullRequest:
    """Push a commit to a new branch, and open a pull request from it."""
    tip = repository.get_git_ref("heads/main").object.sha
    repository.create_git_ref("refs/heads/feature/a", tip)
    written = repository.create_file("docs/a.txt", "Say hello", "hello\n", branch="feature/a")
    assert repository.get_git_ref("heads/feature/a").object.sha == written["commit"].sha
    assert [each.ref for each in repository.get_git_matching_refs("heads/release/")] == ["refs/heads/release/1.0"]
    return repository.create_pull(base="main", head="feature/a", title="Say hello")


def read_pull_request(pull: PullRequest) -> None:
    assert [(file.filename, file.additions) for file in pull.get_files()] == [("docs/a.txt", 1)]
    assert [commit.sha for commit in pull.get_commits()] == [pull.head.sha]
    pull.create_review(body="Well done", event="APPROVE")
    assert [(review.state, review.body) for review in pull.get_reviews()] == [("APPROVED", "Well done")]
    issue = pull.as_issue()
    assert issue.pull_request
    assert issue.pull_request.html_url == pull.html_url


def test_pygithub_freezes_and_merges_a_pull_request(person: Github, integration: GithubIntegration) -> None:
    user = person.get_user()
    assert (user.login, user.two_factor_authentication) == ("maintainer", True)
    repository = person.get_repo("acme/web")
    pull = open_pull_request(repository)
    read_pull_request(pull)

    assert integration.get_app().slug == "change-freeze"
    (installation,) = integration.get_installations()
    bot = installation.get_github_for_installation().get_repo("acme/web")
    assert bot.get_collaborator_permission("maintainer") == "admin"
    output: Any = {"title": "Frozen", "summary": "Until Monday", "annotations": [ANNOTATION]}
    frozen = bot.create_check_run(CHECK, pull.head.sha, conclusion="failure", output=output)
    assert [each.message for each in frozen.get_annotations()] == ["Changed in a freeze"]
    commit = repository.get_commit(pull.head.sha)
    assert [run.conclusion for run in commit.get_check_runs(check_name=CHECK)] == ["failure"]
    assert commit.get_combined_status().state == "pending"
    with pytest.raises(GithubException, match=CHECK):
        pull.merge()

    bot.create_check_run(CHECK, pull.head.sha, conclusion="success")
    assert repository.get_pull(pull.number).mergeable_state == "clean"
    merged = pull.merge()
    assert merged.merged
    assert repository.get_commits(sha="main")[0].sha == merged.sha
    repository.get_git_ref("heads/feature/a").delete()
