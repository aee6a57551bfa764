"""Renaming a branch: who may, what rulesets keep from it, and what follows."""

from typing import Any

import httpx
import pytest

from tests.tools.fake_github.conftest import ruleset
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.classic import find_protection, protect
from tools.fake_github.model.ways_in import list_ways_in
from tools.fake_github.model.world import Actor

ALL = {"include": ["~ALL"], "exclude": []}
BOUND = {
    "required_status_checks": None,
    "enforce_admins": True,
    "required_pull_request_reviews": None,
    "restrictions": None,
}


@pytest.fixture
def web(github: FakeGitHub) -> RepositoryBuilder:
    organization = github.organization("acme")
    web = organization.repository("web", branches=("topic",))
    for role in ("write", "admin"):
        github.world.tokens[f"token of {role}"] = web.person(role, role)
    github.world.tokens["token of owner"] = organization.owner("owner")
    return web


def rename(http: httpx.Client, name: str, new: str, by: str = "admin") -> int:
    """Rename a branch; return the status."""
    headers = {"Authorization": f"Bearer token of {by}"}
    return http.post(f"/repos/acme/web/branches/{name}/rename", headers=headers, json={"new_name": new}).status_code


def above(github: FakeGitHub, pattern: str, *kinds: str, **more: Any) -> None:
    """Add a ruleset of the organisation."""
    github.organization("acme").ruleset(**ruleset(*kinds, pattern=pattern, conditions={"repository_name": ALL}, **more))


def test_only_administrators_rename_the_default_branch(web: RepositoryBuilder, http: httpx.Client) -> None:
    assert rename(http, "topic", "other", "write") == 201
    assert rename(http, "main", "trunk", "write") == 403
    assert rename(http, "main", "trunk") == 201
    assert web.record.default_branch == "trunk"


def test_classic_protection_is_renamed_by_administrators_and_follows(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client
) -> None:
    protect(github.world, Actor(github.maintainer), web.record, "topic", BOUND)
    assert rename(http, "topic", "other", "write") == 403
    assert rename(http, "topic", "other") == 201
    assert find_protection(github.world, web.record, "topic") is None
    assert find_protection(github.world, web.record, "other") is not None


def test_rename_retargets_pull_requests_and_closes_those_from_the_branch(
    web: RepositoryBuilder, http: httpx.Client
) -> None:
    into, source = web.pull_request(), web.pull_request(base="topic")
    assert rename(http, "main", "trunk") == 201
    assert rename(http, source.head_ref, "other") == 201
    assert (into.base_ref, into.state) == ("trunk", "open")
    assert (source.base_ref, source.state) == ("topic", "closed")


def test_rename_needs_deletion_of_the_old_and_creation_of_the_new_name(
    web: RepositoryBuilder, http: httpx.Client
) -> None:
    web.ruleset(**ruleset("deletion", pattern="refs/heads/kept")).ruleset(
        **ruleset("creation", pattern="refs/heads/new/*")
    )
    web.ruleset(**ruleset("update", pattern="refs/heads/fixed")).branch("kept")
    assert rename(http, "kept", "other") == 422
    assert rename(http, "topic", "new/topic") == 422
    assert rename(http, "topic", "fixed") == 201


def test_rename_to_a_name_with_required_checks_needs_them_on_its_commit(
    web: RepositoryBuilder, http: httpx.Client
) -> None:
    web.requires("ci", "release/*")
    assert rename(http, "topic", "release/1") == 422
    checked = web.pull_request(checks={"ci": "success"})
    assert rename(http, checked.head_ref, "release/1") == 201


@pytest.mark.parametrize(
    ("allowed", "by", "status"),
    [
        (False, "write", 403),
        (False, "admin", 403),
        (False, "owner", 201),
        (True, "write", 403),
        (True, "admin", 201),
        (True, "owner", 201),
    ],
)
def test_organization_rulesets_keep_administrators_from_renaming(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, *, allowed: bool, by: str, status: int
) -> None:
    github.organization("acme").account.administrators_rename = allowed
    above(github, "refs/heads/topic*", "non_fast_forward")
    assert rename(http, "topic", "topic-2", by) == status


@pytest.mark.parametrize(("bypass", "status"), [([], 403), ([{"actor_type": "RepositoryRole", "actor_id": 5}], 201)])
def test_administrators_do_not_rename_a_branch_out_of_organization_rulesets(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, bypass: list[Any], status: int
) -> None:
    github.organization("acme").account.administrators_rename = True
    above(github, "~DEFAULT_BRANCH", "non_fast_forward")
    above(github, "refs/heads/topic", "non_fast_forward", bypass_actors=bypass)
    assert rename(http, "main", "trunk") == 201
    assert rename(http, "topic", "other") == status


def test_owners_rename_past_rules_of_the_organization_but_not_of_the_repository(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client
) -> None:
    above(github, "refs/heads/topic", "deletion")
    away = [way for way in list_ways_in(github.world, web.record, "topic") if way.way == "rename_away"]
    assert [(way.actor, way.by_bypass) for way in away] == [("organization_admin", True)]
    assert rename(http, "topic", "other", "owner") == 201
    web.ruleset(**ruleset("deletion", pattern="refs/heads/other"))
    assert rename(http, "other", "topic", "owner") == 422


def test_app_renames_the_default_branch_with_administration_permission(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client
) -> None:
    installation = github.organization("acme").installed(permissions={"contents": "write"})
    token, _ = github.credentials.mint(installation, installation.permissions, None)
    for permissions, status in (({"contents": "write"}, 403), ({"contents": "write", "administration": "write"}, 201)):
        installation.permissions = permissions
        answer = http.post(
            "/repos/acme/web/branches/main/rename",
            headers={"Authorization": f"Bearer {token}"},
            json={"new_name": "trunk"},
        )
        assert answer.status_code == status
