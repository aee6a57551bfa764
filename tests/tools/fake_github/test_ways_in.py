"""What the simulated GitHub says that it would accept is what it accepts."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, seed, settings

from tests.harness.random_seed import chosen_seed
from tests.harness.servers import client_of
from tests.tools.fake_github.conftest import CHECK
from tests.tools.fake_github.worlds import Copy, build, by_github, everything, worlds
from tools.fake_github import FakeGitHub, Handle, persistence
from tools.fake_github.model.ways_in import askers, commits_asked, list_ways_in
from tools.fake_github.model.world import Actor


def test_ways_into_a_branch_are_shown_by_the_control_plane(github: FakeGitHub, handle: Handle) -> None:
    web = github.organization("acme").repository("web").requires(CHECK).ruleset(**no_deletions("main"))
    pull = web.pull_request(checks={CHECK: "success"}, draft=True)
    with client_of(handle.base_url, trust_env=False) as client:
        shown = client.get("/_control/ways-in", params={"repository": "acme/web", "branch": "main"}).json()
        unknown = client.get("/_control/ways-in", params={"repository": "acme/api"})
    assert (shown["branch"], shown["sha"]) == ("main", web.record.branches["main"])
    common = {"sha": pull.head_sha, "byBypass": False}
    by_writer = [
        {"way": "merge", "actor": "write", "number": pull.number, "first": "ready", **common},
        {"way": "push", "actor": "write", **common},
    ]
    assert [way for way in shown["waysIn"] if way["actor"] == "write"] == by_writer
    assert {way["actor"] for way in shown["waysIn"]} == {"write", "admin", "organization_admin", "app"}
    assert unknown.status_code == 404


def no_deletions(branch: str) -> dict[str, Any]:
    """Return a ruleset that forbids deleting a branch."""
    conditions = {"ref_name": {"include": [f"refs/heads/{branch}"], "exclude": []}}
    return {"name": "Keep", "enforcement": "active", "conditions": conditions, "rules": [{"type": "deletion"}]}


@pytest.mark.check
@seed(chosen_seed())
@settings(max_examples=60, deadline=None, database=None)
@given(drawn=worlds)
def test_answer_equals_what_the_act_does(drawn: dict[str, Any]) -> None:
    github, repository = build(drawn)
    world, branch, saved = github.world, drawn["branch"], persistence.dump(github)
    told = list_ways_in(world, repository, branch, github.app_id)
    assert persistence.dump(github) == saved
    tried = [(way, Actor(github.maintainer)) for way in by_github(world, repository, branch)]
    for asker in askers(world, repository, github.app_id):
        tried += [(way, asker.actor) for way in everything(repository, branch, asker)]
    asked, accepted, copy = commits_asked(world, repository), set(), Copy(saved)
    for way, actor in tried:
        if copy.is_changed:
            copy = Copy(saved)
        if (way.sha in asked or way.sha is None) and copy.act(actor, branch, way):
            accepted.add(way)
    by_kind = {way for way in accepted if way.login is None}
    assert {replace(way, by_bypass=False) for way in told if way.login is None} ^ by_kind == set()
    named = {replace(way, by_bypass=False) for way in told if way.login is not None}
    assert named <= accepted - by_kind


@seed(chosen_seed() + 1)
@settings(max_examples=60, deadline=None, database=None)
@given(drawn=worlds)
def test_ways_by_bypass_are_those_that_bypass_lists_open(drawn: dict[str, Any]) -> None:
    github, repository = build(drawn)
    told = set(list_ways_in(github.world, repository, drawn["branch"], github.app_id))
    for ruleset in github.world.rulesets.values():
        ruleset.bypass_actors = []
    for protection in github.world.protections.values():
        protection.enforce_admins = True
    without = set(list_ways_in(github.world, repository, drawn["branch"], github.app_id))
    exempt = {way for way in without if way.by_bypass}
    assert without - exempt == {way for way in told if not way.by_bypass}
    kinds = {(way.actor, way.way) for way in exempt}
    assert kinds <= {("organization_admin", "rename_away"), ("organization_admin", "rename_into")}
