"""Snippets as an administrator uses them: pasted into a real shell, against a GitHub that enforces its rules."""

import json
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rules.rulesets.snippets import Level
from tests.harness.servers import client_of
from tests.rules.rulesets.snippets.conftest import NASTY, TOKEN, Shell, made
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.model import rulesets

pytestmark = [pytest.mark.check, pytest.mark.slow(12)]
LEVELS: list[Level] = ["repository", "organization"]
GITHUB = "https://api.github.com"


def enforcements(host: FakeGitHub) -> list[tuple[str, str]]:
    return [(ruleset.name, ruleset.enforcement) for ruleset in host.world.rulesets.values()]


@pytest.mark.parametrize("level", LEVELS)
def test_curl_requires_the_check_stops_and_requires_it_again(
    host: FakeGitHub, shell: Shell, merges: Callable[[int], bool], level: Level
) -> None:
    web = host.organization("acme").repository("web")
    first, second = web.pull_request(), web.pull_request()
    snippets = made("main", shell.address, [web.record.id])
    shell.succeeds(snippets["curl", level, "enable"].content)
    assert not merges(first.number)
    shell.succeeds(snippets["curl", level, "disable"].content)
    assert merges(first.number)
    shell.succeeds(snippets["curl", level, "restore"].content)
    assert not merges(second.number)


@pytest.mark.parametrize("level", LEVELS)
def test_gh_requires_the_check_stops_and_requires_it_again(
    host: FakeGitHub, gh: Shell, merges: Callable[[int], bool], level: Level
) -> None:
    web = host.organization("acme").repository("web")
    first, second = web.pull_request(), web.pull_request()
    snippets = made("main", GITHUB, [web.record.id])
    gh.succeeds(snippets["gh", level, "enable"].content)
    assert not merges(first.number)
    gh.succeeds(snippets["gh", level, "disable"].content)
    assert merges(first.number)
    gh.succeeds(snippets["gh", level, "restore"].content)
    assert not merges(second.number)


@pytest.mark.parametrize("level", LEVELS)
def test_ruleset_json_is_accepted_by_github(
    host: FakeGitHub, served_host: Handle, merges: Callable[[int], bool], level: Level
) -> None:
    web = host.organization("acme").repository("web")
    first, second = web.pull_request(), web.pull_request()
    snippets = made("main", served_host.base_url, [web.record.id])
    path = "/repos/acme/web/rulesets" if level == "repository" else "/orgs/acme/rulesets"
    with client_of(served_host.base_url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        created = client.post(path, content=snippets["ruleset_json", level, "enable"].content)
        assert created.status_code == 201, created.text
        assert created.json().items() >= json.loads(snippets["ruleset_json", level, "enable"].content).items()
        assert not merges(first.number)
        address = f"{path}/{created.json()['id']}"
        assert client.put(address, content=snippets["ruleset_json", level, "disable"].content).status_code == 200
        assert merges(first.number)
        assert client.put(address, content=snippets["ruleset_json", level, "restore"].content).status_code == 200
        assert not merges(second.number)


@pytest.mark.parametrize("level", LEVELS)
def test_only_the_ruleset_of_the_check_is_switched(host: FakeGitHub, shell: Shell, level: Level) -> None:
    acme = host.organization("acme")
    web = acme.repository("web")
    condition = {"ref_name": {"include": ["~ALL"]}}
    for number in range(40):
        web.ruleset(name=f"Other {number}", enforcement="active", conditions=condition, rules=[])
    everywhere = condition | {"repository_name": {"include": ["~ALL"]}}
    acme.ruleset(name="Change freeze", enforcement="active", conditions=everywhere, rules=[])
    snippets = made("main", shell.address, [web.record.id])
    for each in LEVELS:
        shell.succeeds(snippets["curl", each, "enable"].content)
    shell.succeeds(snippets["curl", level, "disable"].content)
    [off] = [ruleset for ruleset in host.world.rulesets.values() if ruleset.enforcement == "disabled"]
    assert (off.name, off.source_type.lower()) == ("Change freeze: main", level)


@pytest.mark.parametrize("gh", ["stand-in"], indirect=True)  # the real one trusts no link that leaves api.github.com
def test_gh_finds_a_ruleset_on_the_second_page(host: FakeGitHub, gh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulesets, "MAX_RULESETS", 200)  # a repository may have more from before there was a limit
    web = host.organization("acme").repository("web")
    for number in range(120):
        web.ruleset(name=f"Other {number}", enforcement="active", conditions={}, rules=[])
    snippets = made("main", GITHUB)
    gh.succeeds(snippets["gh", "repository", "enable"].content)
    gh.succeeds(snippets["gh", "repository", "disable"].content)
    assert ("Change freeze: main", "disabled") in enforcements(host)


@pytest.mark.parametrize("purpose", ["disable", "restore"])
@pytest.mark.parametrize(("level", "there"), [("repository", "its organisation"), ("organization", "the repository")])
def test_curl_names_the_other_level_when_the_ruleset_is_missing(
    host: FakeGitHub, shell: Shell, purpose: str, level: Level, there: str
) -> None:
    host.organization("acme").repository("web").ruleset(name="Other", enforcement="active", conditions={}, rules=[])
    ended = shell(made("main", shell.address)["curl", level, purpose].content)
    assert ended.returncode != 0
    assert f"has no such ruleset, see whether {there} has" in ended.stderr
    assert enforcements(host) == [("Other", "active")]


@pytest.mark.parametrize("purpose", ["disable", "restore"])
@pytest.mark.parametrize(("level", "there"), [("repository", "its organisation"), ("organization", "the repository")])
def test_gh_names_the_other_level_when_the_ruleset_is_missing(
    host: FakeGitHub, gh: Shell, purpose: str, level: Level, there: str
) -> None:
    host.organization("acme").repository("web").ruleset(name="Other", enforcement="active", conditions={}, rules=[])
    ended = gh(made("main", GITHUB)["gh", level, purpose].content)
    assert ended.returncode != 0
    assert f"has no such ruleset, see whether {there} has" in ended.stderr
    assert enforcements(host) == [("Other", "active")]


@pytest.mark.parametrize("purpose", ["enable", "disable", "restore"])
def test_gh_and_curl_fail_when_github_rejects(host: FakeGitHub, gh: Shell, purpose: str) -> None:
    for tool, api_url in (("gh", GITHUB), ("curl", gh.address)):
        ended = gh(made("main", api_url)[tool, "repository", purpose].content)
        assert ended.returncode != 0


def test_curl_reports_a_missing_token(host: FakeGitHub, shell: Shell) -> None:
    shell.settings["GITHUB_TOKEN"] = ""
    ended = shell(made("main", shell.address)["curl", "repository", "enable"].content)
    assert ended.returncode != 0
    assert "GITHUB_TOKEN: is not set" in ended.stderr


def _switched_by(tool: str, shell: Shell, host: FakeGitHub, branch: str, api_url: str) -> None:
    host.reset()
    host.organization("acme").repository("web")
    snippets = made(branch, api_url)
    wanted = json.loads(snippets["ruleset_json", "repository", "enable"].content)
    shell.succeeds(snippets[tool, "repository", "enable"].content)
    [ruleset] = host.world.rulesets.values()
    assert (ruleset.name, ruleset.conditions, ruleset.rules) == (
        f"Change freeze: {branch}",
        wanted["conditions"],
        wanted["rules"],
    )
    shell.succeeds(snippets[tool, "repository", "disable"].content)
    assert ruleset.enforcement == "disabled"
    shell.succeeds(snippets[tool, "repository", "restore"].content)
    assert ruleset.enforcement == "active"


NAMES = st.text(
    st.one_of(st.sampled_from("$`'\"(){}%!#;&|<>\\~*= -"), st.characters(exclude_categories=("Cc", "Cs"))),
    min_size=1,
    max_size=12,
).filter(lambda name: "**" not in name)


@given(branch=NAMES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(branch="\u2028")
@example(branch="a\\u0027;touch x;\\u0027")
def test_curl_does_not_interpret_branch_names(branch: str, host: FakeGitHub, shell: Shell) -> None:
    _switched_by("curl", shell, host, branch, shell.address)


@pytest.mark.parametrize("branch", NASTY)
def test_no_name_is_executed_by_curl_and_jq(branch: str, host: FakeGitHub, shell: Shell) -> None:
    _switched_by("curl", shell, host, branch, shell.address)


@pytest.mark.parametrize("branch", ["$(touch x)`touch x`", "it's\"${HOME}!!", "\\(env)é😀\u202e"])
def test_no_name_is_executed_by_gh(branch: str, host: FakeGitHub, gh: Shell) -> None:
    _switched_by("gh", gh, host, branch, GITHUB)


@pytest.mark.parametrize("level", LEVELS)
def test_gh_reaches_a_host_that_has_a_port(
    host: FakeGitHub, gh: Shell, merges: Callable[[int], bool], level: Level
) -> None:
    web = host.organization("acme").repository("web")
    pull = web.pull_request()
    snippets = made("main", gh.address, [web.record.id])
    gh.settings["GH_ENTERPRISE_TOKEN"] = gh.settings.pop("GH_TOKEN")
    for purpose in ("enable", "disable", "restore"):
        gh.succeeds(snippets["gh", level, purpose].content)
    assert not merges(pull.number)
    gh.succeeds(snippets["gh", level, "disable"].content)
    assert merges(pull.number)
    assert "GH_ENTERPRISE_TOKEN" in snippets["gh", level, "enable"].title


def test_gh_addresses_a_self_hosted_github(host: FakeGitHub, gh: Shell) -> None:
    content = made("main", "https://ghe.acme.test/api/v3")["gh", "repository", "enable"].content
    assert "gh api --hostname ghe.acme.test " in content
    assert "--hostname acme.ghe.com " in made("main", "https://api.acme.ghe.com")["gh", "repository", "enable"].content
    assert "--hostname" not in made("main", GITHUB)["gh", "repository", "enable"].content
    assert urlsplit(gh.address).port
