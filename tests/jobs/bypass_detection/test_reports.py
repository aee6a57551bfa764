"""Commits that land on frozen branches: who is named for them, what is reported, and for how long."""

from datetime import datetime, timedelta

import pytest

from services.core.unit_of_work import Caller
from services.maintenance.retention import purge_expired
from tests.harness.github_harness import ADA, Builder, Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.bypass_detection.pushes import (
    MAIN,
    Clocks,
    Notice,
    Pushes,
    looks,
    merge,
    shown,
)
from tools.fake_github.model.queue import enqueue


def test_bypass_is_attributed_to_the_merger(pushes: Pushes, notice: Notice) -> None:
    freeze = pushes.freeze()
    head = pushes.pulls[0].head_sha
    sha = pushes.merge(0)
    notice()
    [(action, who, details)] = pushes.shown()
    assert (action, who) == ("freeze.bypassed", "maintainer")
    landed_at = datetime.fromisoformat(details.pop("landedAt"))
    assert abs(landed_at - pushes.harness.fake_github.world.clock()) < timedelta(seconds=30)
    assert details == {
        "commit": sha,
        "how": "pr_merge",
        "who": "maintainer",
        "pullRequest": pushes.pulls[0].number,
        "headSha": head,
        "freezeIds": [freeze],
        "delaySeconds": None,
    }
    assert pushes.items() == [("freeze_bypassed", "critical")]
    merged = f"maintainer merged #{pushes.pulls[0].number} into acme/web:main while it was frozen (commit {sha[:7]})"
    assert pushes.harness.sql("SELECT message FROM attention_items") == [(f"{merged}, past the freeze.",)]
    [(action,)] = pushes.harness.sql("SELECT action FROM attention_items")
    number = pushes.pulls[0].number
    assert action == {"label": f"Open pull request #{number}", "url": f"https://github.com/acme/web/pull/{number}"}


def test_direct_push_is_a_bypass(pushes: Pushes, notice: Notice) -> None:
    pushes.freeze()
    sha = pushes.push()
    notice()
    [(action, _who, details)] = pushes.shown()
    assert (action, details["how"], details["commit"], details["pullRequest"]) == ("freeze.bypassed", "push", sha, None)
    assert pushes.items() == [("freeze_bypassed", "critical")]
    assert pushes.harness.sql("SELECT action ->> 'url' FROM attention_items") == [
        (f"https://github.com/acme/web/commit/{sha}",)
    ]


def test_forced_push_is_a_bypass(pushes: Pushes, notice: Notice) -> None:
    start = pushes.harness.record().branches["main"]
    pushes.push()
    pushes.harness.full_resync()
    pushes.harness.run_until_idle()
    pushes.clocks.pass_by()
    pushes.freeze()
    answer = pushes.harness.person("PATCH", "/repos/acme/web/git/refs/heads/main", {"sha": start, "force": True})
    assert answer.status_code == 200
    notice()
    assert [(action, details["how"]) for action, _who, details in pushes.shown()] == [("freeze.bypassed", "force_push")]


@pytest.mark.parametrize(
    ("closed", "expected"), [(False, "freeze.unprotected_change"), (True, "freeze.bypassed")], ids=["open", "closed"]
)
def test_branch_made_again_is_a_bypass_where_rules_forbid_it(
    pushes: Pushes, notice: Notice, *, closed: bool, expected: str
) -> None:
    if closed:
        person = {"actor_id": pushes.harness.fake_github.maintainer.id, "actor_type": "User", "bypass_mode": "always"}
        conditions = {"ref_name": {"include": [MAIN], "exclude": []}}
        body = {"name": "Frozen", "enforcement": "active", "target": "branch", "bypass_actors": [person]}
        rules = [{"type": "creation"}, {"type": "deletion"}]
        pushes.harness.fake_github.organization("acme").repository("web").ruleset(
            **body, conditions=conditions, rules=rules
        )
        pushes.harness.read_rules()
    pushes.freeze()
    other = {"default_branch": pushes.pulls[1].head_ref}
    assert pushes.harness.person("PATCH", "/repos/acme/web", other).status_code == 200
    assert pushes.harness.person("DELETE", "/repos/acme/web/git/refs/heads/main").status_code == 204
    pushes.harness.full_resync()
    pushes.harness.run_until_idle()
    body = {"ref": MAIN, "sha": pushes.pulls[0].head_sha}
    assert pushes.harness.person("POST", "/repos/acme/web/git/refs", body).status_code == 201
    notice()
    found = [(action, details["how"]) for action, _who, details in pushes.shown()]
    assert found == [(expected, "branch_creation")]


def test_merge_before_the_failure_is_our_delay_and_no_bypass(pushes: Pushes, notice: Notice) -> None:
    pushes.harness.freeze()
    pushes.clocks.pass_by(seconds=5)
    pushes.merge(0)
    pushes.clocks.pass_by()
    notice()
    [(action, _who, details)] = pushes.shown()
    assert action == "freeze.landed_before_block"
    assert details["delaySeconds"] in {4, 5}
    assert pushes.items() == [("landed_before_block", "info")]


def test_merge_after_a_late_success_is_our_enforcement_gap(pushes: Pushes, notice: Notice) -> None:
    pushes.freeze()
    pushes.harness.report(pushes.pulls[0].head_sha, "success")
    pushes.clocks.pass_by()
    pushes.merge(0)
    notice()
    assert [(action, details["delaySeconds"]) for action, _who, details in pushes.shown()] == [
        ("freeze.enforcement_gap", None)
    ]
    assert pushes.items() == [("enforcement_gap", "warning")]


def test_merge_in_the_second_of_the_failure_is_no_bypass(pushes: Pushes, notice: Notice) -> None:
    pushes.harness.freeze()
    pushes.clocks.pass_by()
    pushes.clocks.stand_still()
    pushes.harness.run_until_idle()
    pushes.merge(0)
    notice()
    assert [action for action, _who, _details in pushes.shown()] == ["freeze.landed_before_block"]


@pytest.mark.parametrize(
    ("verified", "expected"),
    [
        pytest.param("-1 hour", "freeze.bypassed", id="only those who may bypass a rule merge without it"),
        pytest.param("1 hour", "freeze.landed_before_block", id="the rule was seen only later, it may be new"),
        pytest.param(None, "freeze.landed_before_block", id="no rule is known"),
    ],
)
def test_merge_without_any_check_run_is_classified_by_the_rules(
    pushes: Pushes, webhook_queue: WebhookQueue, verified: str | None, expected: str
) -> None:
    pushes.freeze()
    pull = pushes.harness.fake_github.organization("acme").repository("web").pull_request()
    merge(pushes.harness, pull)
    if verified:
        pushes.harness.sql(
            "INSERT INTO branch_enforcement (branch_id, organization_id, required_since) "
            "SELECT id, organization_id, clock_timestamp() + CAST(:verified AS interval) FROM watched_branches",
            verified=verified,
        )
    pushes.learn()
    assert [action for action, _who, _details in pushes.shown()] == [expected]


def test_merge_queue_merge_after_a_late_success_is_our_enforcement_gap(
    harness: Harness, build: Builder, clocks: Clocks, notice: Notice
) -> None:
    [pull] = build("web", pulls=1)
    harness.fake_github.organization("acme").repository("web").merge_queue()
    harness.run_until_idle()
    clocks.pass_by()
    harness.freeze()
    clocks.pass_by()
    entry = harness.act(enqueue, harness.record(), pull)
    assert entry.head_sha is not None
    harness.report(entry.head_sha, "success")
    notice()
    [(action, _who, details)] = shown(harness)
    assert (action, details["how"]) == ("freeze.enforcement_gap", "merge_queue_merge")
    assert (details["pullRequest"], details["commit"]) == (pull.number, entry.head_sha)


def test_bypass_of_a_freeze_that_was_lifted_meanwhile_is_reported(pushes: Pushes, notice: Notice) -> None:
    freeze = pushes.freeze()
    pushes.merge(0)
    pushes.clocks.pass_by()
    pushes.harness.lift(freeze)
    pushes.clocks.pass_by()
    notice()
    assert [action for action, _who, _details in pushes.shown()] == ["freeze.bypassed"]
    assert pushes.items() == [("freeze_bypassed", "critical")]


def test_pushes_before_and_after_a_freeze_are_not_reported(pushes: Pushes, notice: Notice) -> None:
    pushes.merge(0)
    pushes.clocks.pass_by()
    freeze = pushes.freeze()
    pushes.harness.lift(freeze)
    pushes.clocks.pass_by()
    pushes.harness.run_until_idle()
    pushes.clocks.pass_by()
    pushes.merge(1)
    notice()
    assert pushes.shown() == []
    assert pushes.items() == []


class TestWhatIsTold:
    def test_alert_is_open_for_a_day_and_until_the_freeze_has_ended(self, pushes: Pushes) -> None:
        def shown_after(**time: float) -> list[tuple[str, str]]:
            pushes.clocks.pass_by(**time)
            purge_expired(pushes.harness.jobs)
            return pushes.items()

        freeze = pushes.freeze()
        pushes.push()
        pushes.learn()
        bypassed = [("freeze_bypassed", "critical")]
        assert shown_after(hours=30) == bypassed, "the freeze is in force"
        pushes.harness.lift(freeze)
        assert shown_after(hours=2) == []

    def test_alert_stays_open_when_the_freeze_ends_soon(self, pushes: Pushes) -> None:
        freeze = pushes.freeze()
        pushes.push()
        pushes.learn()
        pushes.harness.lift(freeze)
        for hours, open_items in ((2, 1), (25, 0)):
            pushes.clocks.pass_by(hours=hours)
            purge_expired(pushes.harness.jobs)
            assert len(pushes.items()) == open_items

    def test_deleted_account_is_shown_as_ghost(self, pushes: Pushes) -> None:
        pushes.freeze()
        pushes.push()
        pushes.harness.record().activities[-1].actor_id = 0
        pushes.learn()
        assert [who for _action, who, _details in pushes.shown()] == ["ghost"]

    def test_branch_added_later_was_not_frozen_before(self, pushes: Pushes) -> None:
        freeze = pushes.harness.freeze()
        pushes.clocks.pass_by()
        pushes.merge(0)
        pushes.clocks.pass_by()
        with pushes.harness.uow_factory.open(Caller(pushes.harness.organization.id, ADA, "dashboard")) as uow:
            branch = pushes.harness.branches["acme/web"].id
            uow.audit("freeze.grew", ("freeze", freeze, "Because"), branchIds=[branch])
        pushes.learn()
        assert looks(pushes.harness) == 1
        assert pushes.shown() == []
