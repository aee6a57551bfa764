"""Who passes a ruleset: by role, as an owner, in a team, by name or as an App, and in which way."""

from typing import Any

import httpx
import pytest

from tests.tools.fake_github.conftest import ruleset
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.ways_in import list_ways_in

ROLES = ("read", "triage", "write", "maintain", "admin")
OWNER = "the owner"


@pytest.fixture
def web(github: FakeGitHub) -> RepositoryBuilder:
    organization = github.organization("acme")
    web = organization.repository("web")
    for role in ROLES:
        person = web.person(role, role)
        github.world.tokens[f"token of {role}"] = person
    github.world.tokens[f"token of {OWNER}"] = organization.owner(OWNER)
    organization.team(12, "write")
    return web


def merging(http: httpx.Client, web: RepositoryBuilder, *, of: tuple[str, ...] = (*ROLES, OWNER)) -> list[str]:
    """Return who can merge, each a pull request of their own."""
    return [name for name in of if merge(http, web, name) == 200]


def merge(http: httpx.Client, web: RepositoryBuilder, name: str) -> int:
    """Merge a new pull request; return the status."""
    number = web.pull_request().number
    headers = {"Authorization": f"Bearer token of {name}"}
    return http.put(f"/repos/acme/web/pulls/{number}/merge", headers=headers).status_code


def test_only_those_who_can_write_merge(web: RepositoryBuilder, http: httpx.Client) -> None:
    assert merging(http, web) == ["write", "maintain", "admin", OWNER]
    assert merge(http, web, "read") == 403


@pytest.mark.parametrize(
    ("actor", "passing"),
    [
        ({"actor_type": "RepositoryRole", "actor_id": 5}, ["admin", OWNER]),
        ({"actor_type": "RepositoryRole", "actor_id": 2}, ["maintain", "admin", OWNER]),
        ({"actor_type": "RepositoryRole", "actor_id": 4}, ["write", "maintain", "admin", OWNER]),
        ({"actor_type": "OrganizationAdmin", "actor_id": None}, [OWNER]),
        ({"actor_type": "Team", "actor_id": 12}, ["write"]),
        ({"actor_type": "Team", "actor_id": 13}, []),
        ({"actor_type": "DeployKey", "actor_id": None}, []),
        ({"actor_type": "Integration", "actor_id": 4242}, []),
    ],
    ids=["administrators", "maintainers", "writers", "owners", "team", "other team", "deploy keys", "app"],
)
def test_bypass_list_names_who_can_merge(
    web: RepositoryBuilder, http: httpx.Client, actor: dict[str, Any], passing: list[str]
) -> None:
    web.ruleset(**ruleset("update", bypass_actors=[actor]))
    assert merging(http, web) == passing


@pytest.mark.parametrize(("mode", "pushes"), [("always", 200), ("exempt", 200), ("pull_request", 422)])
def test_bypass_for_pull_requests_opens_no_direct_push(
    web: RepositoryBuilder, http: httpx.Client, mode: str, pushes: int
) -> None:
    web.ruleset(
        **ruleset("update", bypass_actors=[{"actor_type": "RepositoryRole", "actor_id": 5, "bypass_mode": mode}])
    )
    sha = web.pull_request().head_sha
    assert merge(http, web, "admin") == 200
    headers = {"Authorization": "Bearer token of admin"}
    body = {"sha": sha, "force": True}
    assert http.patch("/repos/acme/web/git/refs/heads/main", headers=headers, json=body).status_code == pushes


def test_roles_and_teams_are_given_by_the_control_plane(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client
) -> None:
    given = {"login": "grace", "token": "token of grace", "rights": {"acme/web": "write"}}
    assert http.put("/_control/persons", json=given).status_code == 204
    assert http.put("/_control/teams", json={"id": 14, "members": ["Grace"]}).status_code == 204
    web.ruleset(**ruleset("update", bypass_actors=[{"actor_type": "Team", "actor_id": 14}]))
    assert merging(http, web, of=("grace", "admin")) == ["grace"]
    assert http.put("/_control/persons", json={**given, "rights": {"acme/web": "king"}}).status_code == 400
    assert github.oauth.rights["grace"] == {"acme/web": "push"}


def test_ways_in_name_those_whom_a_bypass_list_names(github: FakeGitHub, web: RepositoryBuilder) -> None:
    actors = [
        {"actor_type": "Team", "actor_id": 12},
        {"actor_type": "User", "actor_id": github.world.logins["admin"].id},
        {"actor_type": "Integration", "actor_id": github.app_id},
        {"actor_type": "Integration", "actor_id": 99, "bypass_mode": "pull_request"},
        {"actor_type": "User", "actor_id": github.world.logins["read"].id},
    ]
    web.ruleset(**ruleset("update", bypass_actors=actors))
    web.pull_request()
    found = list_ways_in(github.world, web.record, "main", github.app_id)
    merges = [(way.actor, way.login, way.by_bypass) for way in found if way.way == "merge" and way.number]
    assert merges == [("write", "write", True), ("admin", "admin", True), ("app", "app 99", True)]
