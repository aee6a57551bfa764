"""Freezes that GitHub does not enforce: rules are missing, branches return, checks wait; nothing calls them blocked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rules.notifications.kinds import kind_of
from tests.handlers.blocking.claims import ACCEPTED, REFUSED, Frozen
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import full_resync
from tests.jobs.bypass_detection.pushes import Clocks, examine, shown
from tests.jobs.frozen_branches.requests import deletes, renames, settle
from tests.jobs.setup.requests import AUTHORIZED


def test_new_organization_without_rules_is_never_called_enforced(frozen: Frozen) -> None:
    number = frozen.repository(rule=False)
    frozen.settle()
    freeze_id = frozen.start()
    frozen.settle()
    frozen.review()
    view = frozen.freeze(freeze_id)
    assert (view["targets"]["applied"], frozen.counts(freeze_id)) == (1, {"unprotected": 1})
    assert (view["enforcedAt"], view["firstEnforcedAt"]) == (None, None)
    assert [(gap["code"], gap["state"]) for gap in view["gaps"]] == [("no_rule", "not_blocked")]
    assert (frozen.target(freeze_id), frozen.pull(number)) == ("not_blocked", "not_blocked")
    assert not frozen.says_enforced()
    assert frozen.gaps() == [("critical", "1 frozen branch is not blocked")]
    assert frozen.audited() == ["freeze.unprotected"]
    assert "freeze.enforced" not in {kind_of(action) for action in frozen.acme.audit()}
    assert frozen.merge(number) == ACCEPTED


def test_merge_that_no_rule_refuses_is_no_bypass(frozen: Frozen, clocks: Clocks) -> None:
    number = frozen.repository(rule=False)
    frozen.settle()
    clocks.pass_by()
    frozen.start()
    clocks.pass_by()
    frozen.settle()
    clocks.pass_by()
    assert frozen.merge(number) == ACCEPTED
    full_resync(frozen.workers)
    examine(frozen.workers)
    assert [action for action, _who, _details in shown(frozen.workers)] == ["freeze.unprotected_change"]


def test_partly_blocked_freeze_is_enforced_and_names_its_gaps(frozen: Frozen) -> None:
    number = frozen.repository()
    frozen.settle()
    freeze_id = frozen.start()
    frozen.settle()
    view = frozen.freeze(freeze_id)
    assert (view["enforcedAt"] is not None, frozen.says_enforced()) == (True, True)
    assert [(gap["code"], gap["state"], gap["branchCount"]) for gap in view["gaps"]] == [("deletion", "partly", 1)]
    [(details,)] = frozen.workers.sql("SELECT details FROM audit_entries WHERE action = 'freeze.enforced'")
    assert (details["targets"], details["partly"], details["gaps"]) == (1, 1, {"deletion": 1})
    assert frozen.gaps() == [("warning", "1 frozen branch is only partly blocked")]
    assert frozen.merge(number) == REFUSED


def test_freeze_that_loses_its_rule_is_not_shown_as_enforced_any_more(frozen: Frozen) -> None:
    frozen.repository()
    frozen.settle()
    freeze_id = frozen.start()
    frozen.settle()
    first = frozen.freeze(freeze_id)["enforcedAt"]
    assert first is not None
    frozen.workers.sql("UPDATE branch_enforcement SET decisive_check = NULL")  # which nothing has recorded yet
    for _ in range(2):
        view = frozen.freeze(freeze_id)
        assert (view["enforcedAt"], view["firstEnforcedAt"]) == (None, first)
        frozen.review()
    assert frozen.audited() == ["freeze.enforced", "freeze.unprotected"]
    frozen.settle()
    again = frozen.freeze(freeze_id)
    assert (again["firstEnforcedAt"], again["enforcedAt"] > first) == (first, True)


def test_branch_that_is_not_read_is_neither_enforced_nor_reported(frozen: Frozen) -> None:
    frozen.repository()
    freeze_id = frozen.start()
    frozen.workers.run_until_idle()
    frozen.review()
    assert frozen.counts(freeze_id) == {"unknown": 1}
    assert (frozen.freeze(freeze_id)["enforcedAt"], frozen.audited()) == (None, [])
    assert not frozen.says_enforced()


@pytest.mark.parametrize("left", ["disabled", "unwatched"])
def test_branch_that_returns_with_a_success_is_not_called_blocked(frozen: Frozen, workers: Harness, left: str) -> None:
    key = frozen.acme.key()
    frozen.repository("api")
    merged = frozen.repository("web")
    held = frozen.acme.host.organization("acme").repository("web").pull_request(base="main").number
    frozen.settle()
    if left == "disabled":
        answer = key.post("/v1/repos/disable", {"repositories": ["acme/web"]})
    else:
        [[branch_id]] = workers.sql(
            "SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id WHERE r.name = 'web'"
        )
        answer = key.delete(f"/v1/branches/{branch_id}")
    assert answer.status_code in {200, 204}, answer.text
    frozen.settle()
    freeze_id = frozen.start()
    frozen.settle()
    assert (frozen.counts(freeze_id), frozen.says_enforced()) == ({"partly": 1}, True)
    assert frozen.freeze(freeze_id)["enforcedAt"] is not None
    if left == "disabled":
        assert key.post("/v1/repos/enable", {"repositories": ["acme/web"]}).status_code == 200
    else:
        frozen.watch("web")
    assert (frozen.counts(freeze_id), frozen.says_enforced()) == ({"partly": 1, "unprotected": 1}, False)
    assert (frozen.freeze(freeze_id)["enforcedAt"], frozen.pull(merged)) == (None, "not_blocked")
    assert frozen.merge(merged) == ACCEPTED
    frozen.settle()
    assert (frozen.counts(freeze_id), frozen.pull(held)) == ({"partly": 2}, "partly")
    assert frozen.merge(held) == REFUSED


@pytest.mark.parametrize(
    ("columns", "state", "code"), [(AUTHORIZED, "blocked", 422), ({}, "partly", 204)], ids=["authorized", "not"]
)
def test_branch_is_only_partly_blocked_where_it_can_be_made_again(
    frozen: Frozen, workers: Harness, columns: dict[str, Any], state: str, code: int
) -> None:
    frozen.acme.repository("web", "next", **columns)
    frozen.acme.host.organization("acme").repository("web").requires("change-freeze/next", "next")
    branch_id = frozen.watch("web", "next")
    frozen.settle()
    freeze_id = frozen.start(scope={"type": "branch", "branchId": branch_id})
    settle(workers)
    frozen.review()
    assert (frozen.target(freeze_id), frozen.counts(freeze_id)) == (state, {state: 1})
    assert [gap["code"] for gap in frozen.freeze(freeze_id)["gaps"]] == ([] if state == "blocked" else ["deletion"])
    assert deletes(workers, "next") == code
    if state == "blocked":
        assert renames(workers, "next", "elsewhere") == code
        return
    frozen.settle()
    assert [gap["code"] for gap in frozen.freeze(freeze_id)["gaps"]] == ["creation"]


WRITES = "createCheckRun"


@pytest.fixture
def green(frozen: Frozen) -> tuple[int, int]:
    """Return two green pull requests into acme/web, which a rule protects."""
    first = frozen.repository()
    second = frozen.acme.host.organization("acme").repository("web").pull_request(base="main").number
    frozen.settle()
    return first, second


def test_checks_that_github_refuses_leave_the_branch_unblocked(
    frozen: Frozen, workers: Harness, clocks: Clocks, green: tuple[int, int]
) -> None:
    merged, held = green
    workers.fake_github.faults.add("error", WRITES, status=503)
    freeze_id = frozen.start()
    workers.run_until_idle()
    assert (frozen.counts(freeze_id), frozen.target(freeze_id)) == ({"unprotected": 1}, "not_blocked")
    assert {frozen.pull(merged), frozen.pull(held)} == {"not_blocked"}
    assert not frozen.says_enforced()
    clocks.pass_by(seconds=61)
    frozen.review()
    assert frozen.counts(freeze_id) == {"unprotected": 1, "late": 1}
    assert (frozen.freeze(freeze_id)["enforcedAt"], frozen.audited()) == (None, ["freeze.unprotected"])
    assert frozen.merge(merged) == ACCEPTED
    workers.fake_github.faults.clear()
    clocks.pass_by(minutes=10)
    frozen.settle()
    assert (frozen.counts(freeze_id), frozen.pull(held)) == ({"partly": 1}, "partly")
    assert frozen.freeze(freeze_id)["enforcedAt"] is not None
    assert frozen.audited() == ["freeze.unprotected", "freeze.enforced"]
    assert frozen.merge(held) == REFUSED


def test_used_up_quota_is_critical_at_once_and_not_enforced(
    frozen: Frozen, workers: Harness, clocks: Clocks, green: tuple[int, int]
) -> None:
    reset = datetime.now(UTC) + timedelta(minutes=40)
    spent = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(reset.timestamp()))}
    message = "API rate limit exceeded for installation ID 1."
    workers.fake_github.faults.add("error", WRITES, status=403, message=message, headers=spent)
    freeze_id = frozen.start()
    workers.run_until_idle()
    assert frozen.counts(freeze_id) == {"unprotected": 1}
    assert [(gap["code"], gap["branchCount"]) for gap in frozen.freeze(freeze_id)["gaps"]] == [("rate_limit", 1)]
    assert frozen.gaps() == [("critical", "1 frozen branch is not blocked")]
    assert (frozen.freeze(freeze_id)["enforcedAt"], frozen.says_enforced()) == (None, False)
    assert (frozen.audited(), frozen.merge(green[0])) == ([], ACCEPTED)
    clocks.pass_by(minutes=5)
    assert 300 <= frozen.oldest_due() < 330
