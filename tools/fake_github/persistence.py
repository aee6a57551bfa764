"""The state file: everything that a second start needs, as one JSON document, replaced atomically."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from tools.fake_github.core import Core
from tools.fake_github.model.records import (
    Account,
    Activity,
    App,
    AutoMerge,
    BranchProtection,
    CheckRun,
    CheckSuite,
    Commit,
    Installation,
    Label,
    PullRequest,
    QueueEntry,
    Repository,
    Review,
    Ruleset,
    TimelineItem,
)
from tools.fake_github.model.world import World
from tools.simulation.process import read_state, replace_file

VERSION = 1


def dump(github: Core) -> bytes:
    """Return the state as JSON; orjson serializes dataclasses by itself."""
    world = github.world
    with world.lock:
        return orjson.dumps(
            {
                "version": VERSION,
                "lastId": world.last_id,
                "secret": github.credentials.secret,
                "settings": asdict(github.settings),
                "accounts": list(world.accounts.values()),
                "apps": list(world.apps.values()),
                "repositories": list(world.repositories.values()),
                "moved": world.moved,
                "rights": world.rights,
                "teams": world.teams,
                "teamSlugs": world.team_slugs,
                "rulesets": list(world.rulesets.values()),
                "protections": list(world.protections.values()),
                "installations": list(world.installations.values()),
                "suites": list(world.suites.values()),
                "runs": list(world.runs.values()),
                "queue": [entry for queue in world.queues.values() for entry in queue],
            },
            option=orjson.OPT_NON_STR_KEYS,
        )


def save(github: Core, path: Path) -> None:
    """Write the state file."""
    replace_file(path, dump(github))


def load(github: Core, path: Path) -> None:
    """Read the state file, if there is one of this version."""
    state = read_state(path, VERSION)
    if state is None:
        return
    github.credentials.secret = state["secret"]
    for name, value in state["settings"].items():
        setattr(github.settings, name, value)
    restore(github.world, state)


def restore(world: World, state: dict[str, Any]) -> None:
    """Fill an empty world from a state document."""
    world.clear()
    world.last_id = state["lastId"]
    for each in state["accounts"]:
        world.index_account(Account(**each))
    for each in state["apps"]:
        app = App(**each)
        world.apps[app.id] = world.nodes[app.node_id] = app
    for each in state["repositories"]:
        world.index_repository(_repository(each))
    for each in state["rulesets"]:
        world.index_ruleset(Ruleset(**each))
    for each in state.get("protections", ()):
        world.index_protection(BranchProtection(**each))
    for each in state["installations"]:
        world.index_installation(Installation(**each))
    for each in state["suites"]:
        world.index_suite(CheckSuite(**each))
    for each in state["runs"]:
        world.index_run(CheckRun(**each))
    world.index_queue(QueueEntry(**each) for each in state["queue"])
    world.moved.update(state["moved"])
    world.rights.update(state.get("rights", {}))
    world.teams.update({int(number): members for number, members in state.get("teams", {}).items()})
    world.team_slugs.update(state.get("teamSlugs", {}))


def _repository(each: dict[str, Any]) -> Repository:
    commits = {sha: Commit(**commit) for sha, commit in each.pop("commits").items()}
    pulls = {int(number): _pull(pull) for number, pull in each.pop("pulls").items()}
    activities = [Activity(**activity) for activity in each.pop("activities", ())]
    labels = [Label(**label) for label in each.pop("labels", ())]
    return Repository(**each, commits=commits, pulls=pulls, activities=activities, labels=labels)


def _pull(each: dict[str, Any]) -> PullRequest:
    auto_merge = each.pop("auto_merge")
    reviews = [Review(**review) for review in each.pop("reviews", ())]
    timeline = [TimelineItem(**item) for item in each.pop("timeline", ())]
    made = AutoMerge(**auto_merge) if auto_merge else None
    return PullRequest(**each, auto_merge=made, reviews=reviews, timeline=timeline)
