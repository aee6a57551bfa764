"""Branches that come back into the reach of a freeze with a `success`, and branches that are made again."""

from typing import Any

import pytest

from tests.handlers.blocking.claims import ACCEPTED, REFUSED, Frozen
from tests.harness.github_harness import Harness
from tests.jobs.frozen_branches.requests import deletes, renames, settle
from tests.jobs.setup.requests import AUTHORIZED


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
