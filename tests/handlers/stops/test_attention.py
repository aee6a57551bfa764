"""Attention to a stop that does not end, and to one that people ended."""

from typing import Any

import pytest

from rules.rulesets.frozen_branches import NAME
from tests.handlers.stops.requests import Stopped
from tests.jobs.frozen_branches.requests import ours
from tests.jobs.probes.requests import look
from tests.jobs.stops.requests import required
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset
from tools.fake_github.model.world import Actor

WRITES = ("updateRepositoryRuleset", "PUT /repos/{owner}/{repo}/rulesets/{ruleset_id}")


def attention(stopped: Stopped) -> list[dict[str, Any]]:
    found = stopped.get("/v1/attention")["data"]
    return [item for item in found if item["type"].startswith("stop_")]


def refuse_writes(stopped: Stopped) -> None:
    """Have GitHub take no change of a ruleset."""
    for name in WRITES:
        stopped.workers.fake_github.faults.add("error", name, status=503)


def test_stop_of_an_ended_freeze_is_critical_after_a_minute(stopped: Stopped) -> None:
    stopped.start()
    refuse_writes(stopped)
    stopped.workers.lift(stopped.freeze_id)
    stopped.clocks.pass_by(seconds=59)
    assert attention(stopped) == []
    stopped.clocks.pass_by(seconds=2)
    [item] = attention(stopped)
    assert (item["type"], item["severity"], item["subject"]["name"]) == ("stop_not_ended", "critical", "acme/web")
    assert f"disable or delete the ruleset “{NAME}” in the settings of the repository" in item["message"]
    assert item["since"] == stopped.freeze()["endedAt"]
    assert len(required(stopped.workers)) == 1


def test_stop_that_ends_late_is_no_alert_any_more(stopped: Stopped) -> None:
    stopped.start()
    refuse_writes(stopped)
    stopped.workers.lift(stopped.freeze_id)
    stopped.stop()
    assert [item["type"] for item in attention(stopped)] == ["stop_not_ended"]
    stopped.workers.fake_github.faults.clear()
    stopped.clocks.pass_by(minutes=10)
    stopped.stop()
    assert (attention(stopped), required(stopped.workers)) == ([], [])


def test_stop_is_critical_once_every_check_is_written_for_a_minute(stopped: Stopped) -> None:
    stopped.start()
    stopped.clocks.pass_by(minutes=5)
    assert attention(stopped) == []
    refuse_writes(stopped)
    stopped.frozen.settle()
    assert attention(stopped) == []
    stopped.clocks.pass_by(seconds=61)
    assert [item["type"] for item in attention(stopped)] == ["stop_not_ended"]


@pytest.mark.parametrize("way", ["disable", "delete"])
def test_stop_that_people_ended_is_a_warning_while_the_freeze_is_open(stopped: Stopped, way: str) -> None:
    stopped.start()
    [ruleset] = ours(stopped.workers)
    world = stopped.workers.fake_github.world
    person = Actor(stopped.workers.fake_github.maintainer)
    if way == "disable":
        update_ruleset(world, person, ruleset, {"enforcement": "disabled"})
    else:
        delete_ruleset(world, person, ruleset)
    look(stopped.workers)
    stopped.stop()
    assert stopped.freeze()["blockedAt"] is None
    [item] = attention(stopped)
    assert (item["type"], item["severity"]) == ("stop_refused", "warning")
    assert "`blockedAt` of the freeze is null" in item["message"]
    assert [each.enforcement for each in ours(stopped.workers)] == ["active"]
    assert required(stopped.workers) == []
    stopped.frozen.settle()
    assert attention(stopped) == []
    assert stopped.freeze()["blockedAt"] is not None
