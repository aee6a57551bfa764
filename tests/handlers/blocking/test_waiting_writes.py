"""While GitHub takes no checks, a `success` stands: nothing calls that blocked, and the time of it is counted."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.handlers.blocking.claims import ACCEPTED, REFUSED, Frozen
from tests.harness.github_harness import Harness
from tests.jobs.bypass_detection.pushes import Clocks

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
