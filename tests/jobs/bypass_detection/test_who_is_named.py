"""Commits that land on frozen branches: who is named for them, what is told, and for how long."""

from datetime import datetime, timedelta

import pytest

from services.core.unit_of_work import Caller
from services.maintenance.tasks import purge_expired
from tests.harness.webhook_queue import Post, look_everywhere
from tests.jobs.bypass_detection.pushes import (
    MAIN,
    Clocks,
    Notice,
    examine,
    frozen,
    items,
    looks,
    merge,
    push,
    report,
    repository,
    told,
)
from tests.jobs.conftest import ADA, Builder, Town
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.world import Actor


def test_bypass_is_attributed_to_the_merger(town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice) -> None:
    freeze = frozen(town, clocks)
    head = web[0].head_sha
    sha = merge(town, web[0])
    notice()
    [(action, who, details)] = told(town)
    assert (action, who) == ("freeze.bypassed", "maintainer")
    landed_at = datetime.fromisoformat(details.pop("landedAt"))
    assert abs(landed_at - town.host.world.clock()) < timedelta(seconds=30)
    assert details == {
        "commit": sha,
        "how": "pr_merge",
        "who": "maintainer",
        "pullRequest": web[0].number,
        "headSha": head,
        "freezeIds": [freeze],
        "delaySeconds": None,
    }
    assert items(town) == [("freeze_bypassed", "critical")]
    merged = f"maintainer merged #{web[0].number} into acme/web:main while it was frozen (commit {sha[:7]})"
    assert town.sql("SELECT message FROM attention_items") == [(f"{merged}, past the freeze.",)]
    [(action,)] = town.sql("SELECT action FROM attention_items")
    number = web[0].number
    assert action == {"label": f"Open pull request #{number}", "url": f"https://github.com/acme/web/pull/{number}"}


def test_direct_push_is_a_bypass(town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice) -> None:
    frozen(town, clocks)
    sha = push(town)
    notice()
    [(action, _who, details)] = told(town)
    assert (action, details["how"], details["commit"], details["pullRequest"]) == ("freeze.bypassed", "push", sha, None)
    assert items(town) == [("freeze_bypassed", "critical")]
    assert town.sql("SELECT action ->> 'url' FROM attention_items") == [(f"https://github.com/acme/web/commit/{sha}",)]


def test_forced_push_is_a_bypass(town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice) -> None:
    start = repository(town).branches["main"]
    push(town)
    town.look_at_everything()
    town.settle()
    clocks.pass_by()
    frozen(town, clocks)
    answer = town.person("PATCH", "/repos/acme/web/git/refs/heads/main", {"sha": start, "force": True})
    assert answer.status_code == 200
    notice()
    assert [(action, details["how"]) for action, _who, details in told(town)] == [("freeze.bypassed", "force_push")]


def test_branch_recreated_at_another_commit_is_a_bypass(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    frozen(town, clocks)
    assert town.person("DELETE", "/repos/acme/web/git/refs/heads/main").status_code == 204
    town.look_at_everything()
    town.settle()
    body = {"ref": MAIN, "sha": web[0].head_sha}
    assert town.person("POST", "/repos/acme/web/git/refs", body).status_code == 201
    notice()
    found = [(action, details["how"]) for action, _who, details in told(town)]
    assert found == [("freeze.bypassed", "branch_creation")]


def test_merge_before_the_failure_is_our_delay_and_no_bypass(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    town.freeze()
    clocks.pass_by(seconds=5)
    merge(town, web[0])
    clocks.pass_by()
    notice()
    [(action, _who, details)] = told(town)
    assert action == "freeze.landed_before_block"
    assert details["delaySeconds"] in {4, 5}
    assert items(town) == [("landed_before_block", "info")]


def test_merge_after_a_late_success_is_our_enforcement_gap(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    frozen(town, clocks)
    report(town, web[0].head_sha, "success")
    clocks.pass_by()
    merge(town, web[0])
    notice()
    assert [(action, details["delaySeconds"]) for action, _who, details in told(town)] == [
        ("freeze.enforcement_gap", None)
    ]
    assert items(town) == [("enforcement_gap", "warning")]


def test_merge_in_the_second_of_the_failure_is_no_bypass(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    town.freeze()
    clocks.pass_by()
    clocks.stand_still()
    town.settle()
    merge(town, web[0])
    notice()
    assert [action for action, _who, _details in told(town)] == ["freeze.landed_before_block"]


@pytest.mark.parametrize(
    ("verified", "expected"),
    [
        pytest.param("-1 hour", "freeze.bypassed", id="only whoever is let past a rule merges without it"),
        pytest.param("1 hour", "freeze.landed_before_block", id="the rule was seen only later, it may be new"),
        pytest.param(None, "freeze.landed_before_block", id="no rule is known"),
    ],
)
def test_merge_without_any_check_run_is_classified_by_the_rules(
    town: Town, web: list[PullRequest], clocks: Clocks, post: Post, verified: str | None, expected: str
) -> None:
    frozen(town, clocks)
    pull = town.host.organization("acme").repository("web").pull_request()
    merge(town, pull)
    if verified:
        town.sql(
            "INSERT INTO branch_enforcement (branch_id, organization_id, required, verified_at) "
            "SELECT id, organization_id, true, clock_timestamp() + CAST(:verified AS interval) FROM watched_branches",
            verified=verified,
        )
    look_everywhere(town)
    examine(town)
    assert [action for action, _who, _details in told(town)] == [expected]


def test_merge_queue_merge_after_a_late_success_is_our_enforcement_gap(
    town: Town, build: Builder, clocks: Clocks, notice: Notice
) -> None:
    [pull] = build("web", pulls=1)
    town.host.organization("acme").repository("web").merge_queue()
    town.settle()
    clocks.pass_by()
    town.freeze()
    clocks.pass_by()
    entry = enqueue(town.host.world, Actor(town.host.maintainer), repository(town), pull)
    assert entry.head_sha is not None
    report(town, entry.head_sha, "success")
    notice()
    [(action, _who, details)] = told(town)
    assert (action, details["how"]) == ("freeze.enforcement_gap", "merge_queue_merge")
    assert (details["pullRequest"], details["commit"]) == (pull.number, entry.head_sha)


def test_bypass_of_a_freeze_that_was_lifted_meanwhile_is_reported(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(town, clocks)
    merge(town, web[0])
    clocks.pass_by()
    town.lift(freeze)
    clocks.pass_by()
    notice()
    assert [action for action, _who, _details in told(town)] == ["freeze.bypassed"]
    assert items(town) == [("freeze_bypassed", "critical")]


def test_pushes_before_and_after_a_freeze_are_not_reported(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    merge(town, web[0])
    clocks.pass_by()
    freeze = frozen(town, clocks)
    town.lift(freeze)
    clocks.pass_by()
    town.settle()
    clocks.pass_by()
    merge(town, web[1])
    notice()
    assert told(town) == []
    assert items(town) == []


class TestWhatIsTold:
    def test_alert_is_open_for_a_day_and_until_the_freeze_has_ended(
        self, town: Town, web: list[PullRequest], clocks: Clocks
    ) -> None:
        def shown_after(**time: float) -> list[tuple[str, str]]:
            clocks.pass_by(**time)
            purge_expired(town.jobs)
            return items(town)

        freeze = frozen(town, clocks)
        push(town)
        look_everywhere(town)
        examine(town)
        bypassed = [("freeze_bypassed", "critical")]
        assert shown_after(hours=30) == bypassed, "the freeze is in force"
        town.lift(freeze)
        assert shown_after(hours=2) == []

    def test_alert_stays_open_when_the_freeze_ends_soon(
        self, town: Town, web: list[PullRequest], clocks: Clocks
    ) -> None:
        freeze = frozen(town, clocks)
        push(town)
        look_everywhere(town)
        examine(town)
        town.lift(freeze)
        for hours, open_items in ((2, 1), (25, 0)):
            clocks.pass_by(hours=hours)
            purge_expired(town.jobs)
            assert len(items(town)) == open_items

    def test_deleted_account_is_shown_as_ghost(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        repository(town).activities[-1].actor_id = 0
        look_everywhere(town)
        examine(town)
        assert [who for _action, who, _details in told(town)] == ["ghost"]

    def test_branch_added_later_was_not_frozen_before(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        freeze = town.freeze()
        clocks.pass_by()
        merge(town, web[0])
        clocks.pass_by()
        with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard")) as uow:
            branch = town.branches["acme/web"].id
            uow.audit("freeze.grew", ("freeze", freeze, "Because"), branchIds=[branch])
        look_everywhere(town)
        examine(town)
        assert looks(town) == 1
        assert told(town) == []
