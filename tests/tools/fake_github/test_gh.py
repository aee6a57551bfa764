"""GitHub's own command line, `gh`: what it asks of the graph, and what its users see.

`gh_queries/` has the documents as gh 2.23 sends them, and that of `pr view` as later versions are known to.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from githubkit import GitHub

from tests.harness.unix_relay import unix_relay
from tests.tools.fake_github.conftest import PERSON_TOKEN
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder

CHECK = "change-freeze/main"
QUERIES = Path(__file__).with_name("gh_queries")
BLOCK = f'Repository rule violations found\n\nRequired status check "{CHECK}" is failing.'
THIS = {"owner": "acme", "repo": "web", "pr_number": 1}
TIMEOUT = 60.0

Ask = Callable[..., dict[str, Any]]
Gh = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def web(github: FakeGitHub) -> RepositoryBuilder:
    """Have a pull request that the freeze blocks and one that it lets in."""
    found = github.organization("acme").repository("web").requires(CHECK)
    found.pull_request(checks={CHECK: "failure"})
    found.pull_request(checks={CHECK: "success"})
    return found


@pytest.fixture
def ask(web: RepositoryBuilder, person: GitHub[Any]) -> Ask:
    """Send one of gh's documents."""

    def send(document: str, **variables: Any) -> dict[str, Any]:
        text = (QUERIES / f"{document}.graphql").read_text(encoding="utf-8")
        answer = person.request("POST", "/graphql", json={"query": text, "variables": variables})
        shown: dict[str, Any] = answer.json()
        return shown

    return send


def contexts(pull: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pull["statusCheckRollup"]["nodes"][0]["commit"]["statusCheckRollup"]["contexts"]
    return found


@pytest.mark.parametrize("name", ["pr_view", "pr_view_later"])
def test_pull_request_is_shown_with_its_checks_and_reviews(ask: Ask, person: GitHub[Any], name: str) -> None:
    person.rest.pulls.create_review("acme", "web", 1, event="COMMENT", body="Looks good")
    shown = ask(name, **THIS)["data"]["repository"]["pullRequest"]
    assert (shown["title"], shown["additions"], shown["deletions"]) == ("Change 1", 1, 0)
    assert [(run["name"], run["conclusion"]) for run in contexts(shown)["nodes"]] == [(CHECK, "FAILURE")]
    (review,) = shown["reviews"]["nodes"]
    assert (review["author"]["login"], review["state"], review["body"]) == ("maintainer", "COMMENTED", "Looks good")
    assert shown["commits"] == {"totalCount": 1}
    assert [shown[kind]["totalCount"] for kind in ("labels", "assignees", "comments")] == [0, 0, 0]


def test_checks_of_a_pull_request_are_counted_by_state(ask: Ask) -> None:
    counted = contexts(ask("pr_view_later", **THIS)["data"]["repository"]["pullRequest"])
    assert (counted["checkRunCount"], counted["statusContextCount"]) == (1, 0)
    assert counted["checkRunCountsByState"] == [{"state": "FAILURE", "count": 1}]


def test_checks_of_a_pull_request_say_whether_they_are_required(ask: Ask, web: RepositoryBuilder) -> None:
    (run,) = contexts(ask("pr_checks", id=web.record.pulls[1].node_id)["data"]["node"])["nodes"]
    assert (run["__typename"], run["name"], run["isRequired"]) == ("CheckRun", CHECK, True)


def test_own_pull_requests_are_found_by_a_search(ask: Ask) -> None:
    mine, asked = "repo:acme/web state:open is:pr author:@me", "repo:acme/web state:open review-requested:@me"
    found = ask("pr_status", owner="acme", repo="web", headRefName="", viewerQuery=mine, reviewerQuery=asked)["data"]
    assert found["viewerCreated"]["totalCount"] == 2
    assert [edge["node"]["number"] for edge in found["viewerCreated"]["edges"]] == [2, 1]
    assert found["reviewRequested"] == {"totalCount": 0, "edges": []}


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("repo:acme/web base:main head:change-2", [2]),
        ('repo:acme/web "Change 1"', [1]),
        ("repo:acme/web state:closed", []),
        ("user:acme is:open draft:false", [2, 1]),
        ("repo:acme/api", []),
        ("author:nobody", []),
    ],
)
def test_search_applies_qualifiers_and_words(ask: Ask, query: str, numbers: list[int]) -> None:
    found = ask("pr_status", owner="acme", repo="web", headRefName="", viewerQuery=query, reviewerQuery=query)["data"]
    assert [edge["node"]["number"] for edge in found["viewerCreated"]["edges"]] == numbers


def test_blocked_merge_is_refused_by_the_graph_with_the_block(ask: Ask, web: RepositoryBuilder) -> None:
    pull = web.record.pulls[1]
    assert ask("pr_merge", **THIS)["data"]["repository"]["pullRequest"]["mergeStateStatus"] == "BLOCKED"
    shown = ask("pr_merge_now", input={"pullRequestId": pull.node_id, "mergeMethod": "MERGE"})
    (error,) = shown["errors"]
    assert (error["type"], error["path"]) == ("UNPROCESSABLE", ["mergePullRequest"])
    assert error["message"].startswith(BLOCK)
    assert pull.merged_at is None


def test_merge_by_the_graph_expects_the_given_head(ask: Ask, web: RepositoryBuilder) -> None:
    pull = web.record.pulls[2]
    given = {"pullRequestId": pull.node_id, "expectedHeadOid": "0" * 40}
    assert "Head branch was modified" in ask("pr_merge_now", input=given)["errors"][0]["message"]
    assert "errors" not in ask("pr_merge_now", input=given | {"expectedHeadOid": pull.head_sha})
    assert pull.merged_at is not None


def test_merge_by_the_graph_needs_the_permission_to_write_contents(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    github.world.installations[1001].permissions |= {"contents": "read", "pull_requests": "write"}
    text = (QUERIES / "pr_merge_now.graphql").read_text(encoding="utf-8")
    variables = {"input": {"pullRequestId": web.record.pulls[2].node_id}}
    (error,) = bot.request("POST", "/graphql", json={"query": text, "variables": variables}).json()["errors"]
    assert error["type"] == "FORBIDDEN"


def test_repositories_are_listed_with_their_visibility(ask: Ask, github: FakeGitHub) -> None:
    github.organization("acme").repository("site").record.private = False
    listed = [ask("repo_list", owner="acme", perPage=30, privacy=privacy) for privacy in (None, "PUBLIC", "PRIVATE")]
    found = [answer["data"]["repositoryOwner"]["repositories"]["nodes"] for answer in listed]
    assert [{each["nameWithOwner"]: each["visibility"] for each in nodes} for nodes in found] == [
        {"acme/web": "PRIVATE", "acme/site": "PUBLIC"},
        {"acme/site": "PUBLIC"},
        {"acme/web": "PRIVATE"},
    ]


@pytest.mark.parametrize(("role", "permission"), [(None, "ADMIN"), ("write", "WRITE"), ("read", "READ")])
def test_repository_says_how_it_merges_and_what_one_may_do(
    ask: Ask, web: RepositoryBuilder, role: str | None, permission: str
) -> None:
    if role:
        web.person("maintainer", role)
    found = ask("repository_info", owner="acme", name="web")["data"]["repository"]
    assert found["viewerPermission"] == permission
    assert [found[f"{kind}Allowed"] for kind in ("mergeCommit", "rebaseMerge", "squashMerge")] == [True] * 3


@pytest.fixture
def gh(web: RepositoryBuilder, handle: Handle, tmp_path: Path) -> Iterator[Gh]:
    """Run the real gh, which reaches the simulated GitHub by a socket and nothing else."""
    if shutil.which("gh") is None:
        pytest.skip("gh is not installed; the tests above send its documents")
    settings = {"GH_TOKEN": PERSON_TOKEN, "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "GH_REPO": "acme/web"}
    places = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GH_CONFIG_DIR": str(tmp_path)}
    with unix_relay(urlsplit(handle.base_url).port or 0) as path:
        (tmp_path / "config.yml").write_text(f"http_unix_socket: {path}\n")

        def run(line: str) -> subprocess.CompletedProcess[str]:
            program = ["gh", *line.split()]
            environment = {**places, **settings}
            return subprocess.run(
                program, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )

        yield run


def test_gh_shows_what_there_is(gh: Gh) -> None:
    cases: list[tuple[str, str]] = [
        ("pr view 1", "title:\tChange 1"),
        ("pr view 1 --comments", ""),
        ("pr view 1 --json commits,files,latestReviews,potentialMergeCommit", '"path":"changes/1.txt"'),
        ("pr status -R acme/web", "#2  Change 2 [change-2]\n  ✓ Checks passing"),
        ("pr list --author @me --search Change", "Change 1"),
        ("repo list acme", "acme/web"),
        ("repo list acme --no-archived", "acme/web"),
        (
            "repo list acme --json name,viewerDefaultMergeMethod,deleteBranchOnMerge",
            '"viewerDefaultMergeMethod":"MERGE"',
        ),
        ("repo view acme/web", "acme/web"),
        ("api repos/acme/web/commits/main/statuses", "[]"),
    ]
    for line, expected in cases:
        done = gh(line)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_gh_shows_the_failing_check_of_a_blocked_pull_request(gh: Gh) -> None:
    done = gh("pr checks 1")
    assert (done.returncode, done.stdout.split("\t")[:2]) == (1, [CHECK, "fail"])


def test_gh_shows_the_block_when_a_merge_is_refused(gh: Gh, web: RepositoryBuilder) -> None:
    asked = gh("pr merge 1 --merge")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "the base branch policy prohibits the merge" in asked.stderr
    insisted = gh("pr merge 1 --merge --admin")
    assert insisted.returncode == 1
    assert BLOCK in insisted.stderr
    assert web.record.pulls[1].merged_at is None


def test_gh_merges_what_is_not_blocked(gh: Gh, web: RepositoryBuilder) -> None:
    assert gh("pr merge 2 --squash --delete-branch").returncode == 0
    assert web.record.pulls[2].merged_at is not None
