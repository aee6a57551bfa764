"""What the simulated GitHub says that it would accept is what it accepts."""

from dataclasses import replace
from typing import Any

from hypothesis import given, seed, settings

from tests.harness.random_seed import chosen_seed
from tests.tools.fake_github.worlds import Copy, build, by_github, everything, worlds
from tools.fake_github import persistence
from tools.fake_github.model.ways_in import askers, commits_asked, list_ways_in
from tools.fake_github.model.world import Actor


@seed(chosen_seed())
@settings(max_examples=150, deadline=None, database=None)
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
    assert without == {way for way in told if not way.by_bypass}
